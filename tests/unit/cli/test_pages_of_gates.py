"""Pages of `kubesched run` that a feature gate or an emulated version changes."""

from types import SimpleNamespace
from typing import Any

from kubesched.cli.run.pages import _sources
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.ops.sources import OpsSources
from kubesched.run.options.parse import parse_options


def sources(*arguments: str) -> OpsSources:
    process: Any = SimpleNamespace(
        options=parse_options(arguments),
        live=SimpleNamespace(explain=None),
        log=None,
        clock=None,
        metrics=SchedulerMetrics(),
        started_s=0.0,
        reloader=None,
    )
    return _sources(process)


def test_flagz_and_statusz_are_served_by_default() -> None:
    shown = sources()
    assert shown.flagz is not None
    assert shown.has_statusz
    assert shown.statusz.emulation_version == "1.36"


def test_a_disabled_gate_removes_its_page() -> None:
    shown = sources("--feature-gates=ComponentFlagz=false,ComponentStatusz=false")
    assert shown.flagz is None
    assert not shown.has_statusz


def test_statusz_has_the_emulated_version() -> None:
    gates = "--feature-gates=ComponentStatusz=true"
    assert sources("--emulated-version=1.35", gates).statusz.emulation_version == "1.35"
