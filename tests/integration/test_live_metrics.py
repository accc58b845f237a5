"""The metrics of the dashboard and the alerts exist on the page of a running scheduler.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.server import ADMIN, PLAIN
from kubesched.testing import Api, ApiServer, SchedulerSettings, TokenUser, start_scheduler
from tests.deploy.test_observability import FOLDER, TARGET_LABELS, expressions, read
from tests.integration.live_processes import Place, start
from tests.integration.ops_world import send_request

ROOT = FOLDER.parents[1]
# Series that exist only after an event; unit tests check their names and labels.
RARE = {
    "kubesched_events_dropped_total",
    "kubesched_plugin_faults_total",
    "kubesched_shadow_decisions_total",
    "rest_client_request_retries_total",
    "scheduler_permit_wait_duration_seconds_bucket",
    "scheduler_plugin_execution_duration_seconds_bucket",
    "up",
}


def queried_labels() -> dict[str, set[str]]:
    """Return the queried labels by metric."""
    result: dict[str, set[str]] = {}
    for _, expression in expressions():
        for selector in read(expression):
            labels = {*selector.labels, *selector.grouped_by} - TARGET_LABELS
            result.setdefault(selector.metric, set()).update(labels)
    return result


def served_labels(page: str) -> dict[str, set[str]]:
    """Return the labels of the series on a page, by metric."""
    result: dict[str, set[str]] = {}
    for line in page.splitlines():
        series = re.match(r"(\w+)(?:\{(.*)\})? ", line)
        if series and not line.startswith("#"):
            labels = re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', series[2] or "")
            result.setdefault(series[1], set()).update(labels)
    return result


@pytest.mark.slow
def test_the_page_of_a_scheduler_has_the_documented_metrics(
    api_server: ApiServer, api: Api, tmp_path: Path
) -> None:
    plugin = f"--plugin={ROOT}/examples/plugins/spare_gpu.py:SpareGpu"
    leads = {"resourceName": "live-metrics"}
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(classes, {"metadata": {"name": "metrics-high"}, "value": 9}).must(201)
    with ProcessGroup(tmp_path) as group, Place(api) as place:
        scheduler = start(api_server, group, "--reload", plugin, leads=leads)
        node = place.node(cpu="1")
        place.pod("low", cpu="800m")
        scheduler.until(lambda: place.node_of("low") == node, "low is bound")
        place.pod("waits", cpu="800m")
        scheduler.until(lambda: place.rejected("waits"), "the next is rejected")
        place.pod("high", cpu="800m", priorityClassName="metrics-high")
        scheduler.until(lambda: place.node_of("high") == node, "high is bound")
        code, page = scheduler.page("/metrics")
    api.delete(f"{classes}/metrics-high").must(200)
    assert code == 200
    served = served_labels(page)
    queried = {
        name: labels
        for name, labels in queried_labels().items()
        if name not in RARE and not name.startswith("kubesched_extender_")
    }
    assert {name for name in queried if name not in served} == set()
    missing = {name: labels - served[name] for name, labels in queried.items()}
    assert {name: labels for name, labels in missing.items() if labels} == {}


@pytest.mark.slow
def test_the_role_for_prometheus_allows_only_the_metrics_page(
    api_server: ApiServer, api: Api, tmp_path: Path
) -> None:
    accounts = "/api/v1/namespaces/monitoring/serviceaccounts"
    api.post("/api/v1/namespaces", {"metadata": {"name": "monitoring"}}).must(201)
    api.post(accounts, {"metadata": {"name": "prometheus"}}).must(201)
    answer = api.post(f"{accounts}/prometheus/token", {"spec": {}}).must(201)
    reader = TokenUser("prometheus", answer.json["status"]["token"])
    kubeconfig = api_server.kubeconfigs[ADMIN.name]
    flags = [
        f"--{option}-kubeconfig={kubeconfig}" for option in ("authentication", "authorization")
    ]
    settings = SchedulerSettings(port=free_ports(1)[0], flags=flags)
    with ProcessGroup(tmp_path) as group:
        scheduler = start_scheduler(api_server, group, "kubesched", settings)
        scheduler.until(lambda: f":{scheduler.port}" in scheduler.log, "it serves")
        url = f"https://127.0.0.1:{scheduler.port}"
        assert send_request(url, "/metrics", token=PLAIN.token).code == 403
        created = []
        for document in yaml.safe_load_all((FOLDER / "rbac.yaml").read_text(encoding="utf-8")):
            path = f"/apis/rbac.authorization.k8s.io/v1/{document['kind'].lower()}s"
            api.post(path, document).must(201)
            created.append(f"{path}/{document['metadata']['name']}")
        for page in ("/metrics", "/metrics/slis", "/metrics/resources"):
            assert send_request(url, page, token=reader.token).code == 200
        assert send_request(url, "/configz", token=reader.token).code == 403
        assert send_request(url, "/metrics", token=PLAIN.token).code == 403
    for path in created:
        api.delete(path).must(200)
