"""The RBAC that `kubesched doctor --rbac` prints is enough for `kubesched run`: no 403.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.testing import (
    PLAIN,
    Api,
    ApiServer,
    SchedulerSettings,
    a_node,
    a_pod,
    start_scheduler,
)
from tests.unit.cli.running import kubesched

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
MOST = {"cpu": "800m"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def granted(api: Api) -> Any:
    """Grant the printed rights to user plain, for one test."""
    paths = []
    for document in yaml.safe_load_all(kubesched("doctor", "--rbac", "--user=plain").out):
        namespace = document["metadata"].get("namespace")
        group_path = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
        plural = f"{group_path}/{document['kind'].lower()}s"
        api.post(plural, document).must(201)
        paths.append(f"{plural}/{document['metadata']['name']}")
    yield
    for path in paths:
        api.delete(path).must(200)


@pytest.mark.slow
@pytest.mark.usefixtures("granted")
def test_the_minimal_rights_allow_scheduling_and_preemption(
    api_server: ApiServer, api: Api, tmp_path: Path
) -> None:
    kubeconfig = api_server.kubeconfigs[PLAIN.name]
    api.post("/api/v1/nodes", a_node("n", capacity={"cpu": "1"})).must(201)
    api.post(CLASSES, {"metadata": {"name": "high"}, "value": 100}).must(201)
    api.post(PODS, a_pod("low", requests=MOST)).must(201)
    settings = SchedulerSettings(
        kubeconfig=kubeconfig,
        leader_election={"leaderElect": True},
        port=free_ports(1)[0],
        flags=(
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        ),
    )
    with ProcessGroup(tmp_path) as group:
        scheduler = start_scheduler(api_server, group, "kubesched", settings)
        scheduler.until(lambda: "nodeName" in api.get(f"{PODS}/low").json["spec"], "low is bound")
        api.post(PODS, a_pod("high", requests=MOST, priorityClassName="high")).must(201)
        scheduler.until(
            lambda: "deletionTimestamp" in api.get(f"{PODS}/low").json.get("metadata", {}),
            "low is evicted",
        )
        assert scheduler.terminate() == 0
        assert "orbidden" not in scheduler.log
    for path in (f"{PODS}/low", f"{PODS}/high", f"{CLASSES}/high", "/api/v1/nodes/n", LEASE):
        api.delete(path, {"gracePeriodSeconds": 0}).must(200)
