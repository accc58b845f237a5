"""The dashboard and the alerts: all queried metrics and labels exist."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.metrics.extender import ExtenderMetrics
from kubesched.metrics.instruments import Family, Maker
from kubesched.metrics.process import ProcessMetrics
from kubesched.metrics.scheduler import PluginFaults, SchedulerMetrics
from kubesched.shadow.run import ShadowReport
from tests.deploy.promql import PromqlError, Selector, selectors

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "observability"
# Prometheus adds them to every series, see scrape.yaml.
TARGET_LABELS = {"job", "instance", "app"}
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield f"alert {rule['alert']}", rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"panel {panel['title']} {target['refId']}", target["expr"]
    for note in DASHBOARD["annotations"]["list"]:
        yield f"annotation {note['name']}", note["expr"]


ALL = [pytest.param(expr, id=name) for name, expr in expressions()]


def read(expression: str) -> list[Selector]:
    return selectors(expression.replace("$__rate_interval", "5m"))


@cache
def families() -> dict[str, Family]:
    """Return all metrics of a scheduler and of an extender, by name."""
    scheduler, extender = SchedulerMetrics(), ExtenderMetrics()
    measures = scheduler.measures
    ProcessMetrics(measures, version="v1.36.4")
    PluginFaults(measures).show()
    ShadowReport(measures, clock=SystemClock(), log=NullLog(), out=io.StringIO())
    # The reloader's metrics need a scheduler: see test_live_metrics.py.
    Maker(measures, "kubesched_").counter_vec("reloads_total", "", "ALPHA", ("result",))
    return {one.name: one for one in (*measures.families(), *extender.measures.families())}


def family_of(selector: Selector) -> Family:
    """Return the metric family of a selector's series."""
    name = selector.metric
    for suffix in ("_bucket", "_sum", "_count"):
        family = families().get(name.removesuffix(suffix))
        if name.endswith(suffix) and family is not None and family.kind == "histogram":
            return family
    assert name in families(), f"there is no metric {name}"
    assert families()[name].kind != "histogram", f"{name} has no value of its own"
    return families()[name]


@pytest.mark.parametrize("expression", ALL)
def test_queried_metrics_exist(expression: str) -> None:
    selectors = read(expression)
    assert selectors
    for selector in selectors:
        if selector.metric == "up":  # A metric of Prometheus itself.
            continue
        family = family_of(selector)
        has_bounds = selector.metric == f"{family.name}_bucket"
        known = {*family.label_names, *TARGET_LABELS, *(("le",) if has_bounds else ())}
        assert set(selector.labels) <= known, selector
        assert set(selector.grouped_by) <= known, selector


@pytest.mark.parametrize("expression", ALL)
def test_functions_match_the_types_of_metrics(expression: str) -> None:
    for selector in read(expression):
        if selector.metric == "up":
            continue
        family, functions = family_of(selector), selector.functions
        goes_up = family.kind in ("counter", "histogram")
        assert goes_up == bool({"rate", "increase"} & set(functions)), selector
        if selector.metric.endswith("_bucket"):
            assert functions[0] == "histogram_quantile", selector
            assert "le" in selector.grouped_by, selector


@pytest.mark.parametrize("expression", ALL)
def test_every_series_is_of_one_of_our_jobs(expression: str) -> None:
    # kube-scheduler's metrics have the same names.
    jobs = ('="kubesched"', '="kubesched-extender"', '=~"kubesched.*"', '=~"$job"')
    assert all(selector.labels.get("job") in jobs for selector in read(expression))


VALUES = {
    ("scheduler_schedule_attempts_total", "result"): {"scheduled", "unschedulable", "error"},
    ("scheduler_scheduling_attempt_duration_seconds_bucket", "result"): {"scheduled"},
    ("scheduler_pending_pods", "queue"): {"active", "backoff", "unschedulable", "gated"},
    ("kubesched_reloads_total", "result"): {"swapped", "rejected"},
    ("kubesched_extender_calls_total", "result"): {"ok", "error", "undecodable", "rejected"},
}


@pytest.mark.parametrize("expression", ALL)
def test_label_values_exist(expression: str) -> None:
    for selector in read(expression):
        for label, matcher in selector.labels.items():
            if label in ("job", "code", "method"):
                continue
            values = VALUES[selector.metric, label]
            assert set(matcher.lstrip("=~").strip('"').split("|")) <= values, selector


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("sum(rate(x[5m])", id="an open parenthesis"),
        pytest.param("rate(x)", id="a rate of an instant"),
        pytest.param("sum(x[5m])", id="a sum of a range"),
        pytest.param('x{job="a"', id="an open brace"),
        pytest.param("summ(x)", id="an unknown function"),
        pytest.param("x > ", id="nothing to compare with"),
        pytest.param("x y", id="two in a row"),
        pytest.param("rate(x[5 m])", id="no range"),
        pytest.param("", id="nothing"),
    ],
)
def test_invalid_expressions_are_found(expression: str) -> None:
    with pytest.raises(PromqlError):
        selectors(expression)


def test_alerts_have_a_summary_a_severity_and_a_runbook() -> None:
    runbooks = (FOLDER / "README.md").read_text(encoding="utf-8")
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
        assert f"\n### {rule['alert']}\n" in runbooks
    headings = [line for line in runbooks.splitlines() if line.startswith("### ")]
    assert headings == [f"### {rule['alert']}" for rule in RULES]


def test_an_alert_names_only_labels_that_its_series_keep() -> None:
    for rule in RULES:
        selectors = read(rule["expr"])
        kept = {label for selector in selectors for label in selector.grouped_by}
        if not any(name in ("sum", "max") for one in selectors for name in one.functions):
            kept |= TARGET_LABELS
        text = " ".join(rule["annotations"].values())
        named = {part.partition(" ")[0] for part in text.split("$labels.")[1:]}
        assert named <= kept, rule["alert"]


def test_a_legend_names_only_labels_that_its_series_keep() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            (selector,) = read(target["expr"])
            aggregates = {"sum", "max"} & set(selector.functions)
            kept = set(selector.grouped_by) if aggregates else TARGET_LABELS
            legend = target["legendFormat"]
            named = {part.partition("}}")[0] for part in legend.split("{{")[1:]}
            assert named <= kept, panel["title"]


def test_panels_have_their_own_places_and_names() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in PANELS:
        assert panel["description"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for one, other in combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_above, (one, other)
        assert one["x"] + one["w"] <= 24


def test_the_jobs_find_the_pods_of_our_manifests() -> None:
    jobs = yaml.safe_load((FOLDER / "scrape.yaml").read_text(encoding="utf-8"))["scrape_configs"]
    kept = {
        job["job_name"]: {
            name
            for rule in job["relabel_configs"]
            if rule.get("action") == "keep"
            for name in rule["regex"].split("|")
        }
        for job in jobs
    }
    for job in jobs:
        added = {rule["target_label"] for rule in job["relabel_configs"] if "target_label" in rule}
        assert added == {"app", "instance", "__address__"}
    deployed = {}
    for folder in ("second-scheduler", "replacement", "extender"):
        text = (ROOT / "deploy" / folder / "deployment.yaml").read_text(encoding="utf-8")
        template = yaml.safe_load(text)["spec"]["template"]
        ports = template["spec"]["containers"][0]["ports"]
        name = template["metadata"]["labels"]["app.kubernetes.io/name"]
        deployed[name] = ports[0]["containerPort"]
    assert kept == {
        "kubesched": {"kubesched", "kubesched-replacement"},
        "kubesched-extender": {"kubesched-extender"},
    }
    assert deployed == {
        "kubesched": 10259,
        "kubesched-replacement": 10259,
        "kubesched-extender": 8888,
    }
