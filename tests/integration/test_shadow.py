"""`kubesched run --shadow` with kube-scheduler on a real API server.

The decisions are the same, or the difference is explained; the API server's
audit log shows that the shadow wrote nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.real_cluster import real_cluster
from kubesched.testing import (
    ADMIN,
    Api,
    RealCluster,
    SchedulerProcess,
    SchedulerSettings,
    a_node,
    a_pod,
    start_scheduler,
)

pytestmark = [pytest.mark.programs, pytest.mark.timeout(240)]

Document = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
READS = {"get", "list", "watch"}
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
MOST_ALLOCATED = {
    "schedulerName": "default-scheduler",
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                }
            },
        }
    ],
}


def node_of(number: int) -> Document:
    # All different, so that every pod has a single best node.
    return a_node(
        f"node-{number}",
        labels={ZONE: f"zone-{number % 3}"},
        capacity={"cpu": f"{6000 + 937 * number}m", "memory": f"{16_000 + 1_613 * number}Mi"},
        taints=["only=some:NoSchedule"] if number == 9 else (),
    )


def pod_of(number: int, **spec: Any) -> Document:
    return a_pod(
        f"pod-{number}",
        labels={"app": f"app-{number % 4}"},
        requests={"cpu": f"{150 + 37 * (number % 7)}m", "memory": f"{300 + 71 * (number % 5)}Mi"},
        **spec,
    )


def a_term(key: str, number: int) -> Document:
    return {
        "topologyKey": key,
        "labelSelector": {"matchLabels": {"app": f"app-{number % 4}"}},
    }


def a_mixed_pod(number: int) -> Document:
    """Return one pod of eight kinds."""
    kind = number % 8
    if kind == 1:
        spread = a_term(ZONE, number) | {"maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
        return pod_of(number, topologySpreadConstraints=[spread])
    if kind == 2:
        preferred = [{"weight": 40, "podAffinityTerm": a_term(ZONE, number)}]
        terms = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        return pod_of(number, affinity={"podAffinity": terms})
    if kind == 3:
        return pod_of(number, nodeSelector={ZONE: "zone-1"})
    if kind == 4:
        return pod_of(number, tolerations=[{"key": "only", "operator": "Exists"}])
    if kind == 5:
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [a_term(HOST, 99)]}
        return pod_of(number, affinity={"podAntiAffinity": terms})
    if number == 54:  # Fits on no node.
        return pod_of(number, nodeSelector={ZONE: "zone-7"})
    return pod_of(number)


class World:
    """A cluster with kube-scheduler and a shadow kubesched."""

    def __init__(self, cluster: RealCluster, audit: Path, directory: Path) -> None:
        self.cluster = cluster
        self.audit = audit
        self.report = directory / "report.jsonl"
        self.shadow: SchedulerProcess | None = None

    def start(self, profiles: tuple[Document, ...] = ()) -> None:
        """Start both, and wait until the shadow has synced."""
        cluster = self.cluster
        start_scheduler(cluster, cluster.group, "kube-scheduler")
        self.shadow = start_scheduler(
            cluster,
            cluster.group,
            "kubesched",
            SchedulerSettings(
                profiles=profiles,
                kubeconfig=cluster.kubeconfigs[ADMIN.name],  # Its user has the right to write.
                leader_election={"leaderElect": True},  # Ignored by a shadow.
                port=free_ports(1)[0],
                flags=(
                    "--shadow",
                    f"--shadow-report={self.report}",
                    "--authorization-always-allow-paths=/metrics,/readyz",
                ),
            ),
        )
        self.shadow.until_ready(timeout_s=60)

    def create(self, pods: list[Document]) -> None:
        """Create pods at the same time, and wait until kube-scheduler has decided for each."""
        with ThreadPoolExecutor(4) as together:
            list(together.map(self._create_some, (pods[first::4] for first in range(4))))
        with self.cluster.api() as api:
            self.cluster.group.wait_until(lambda: _all_decided(api), "decisions", timeout_s=60)
            expected = len(pods)
            self.cluster.group.wait_until(
                lambda: sum(self.counts().values()) >= expected, "comparisons", timeout_s=60
            )

    def _create_some(self, pods: list[Document]) -> None:
        with self.cluster.api() as api:
            for pod in pods:
                api.post(PODS, pod).must(201)

    def counts(self) -> dict[str, int]:
        """Return the number of compared decisions by result."""
        assert self.shadow is not None
        found = re.findall(
            r'^kubesched_shadow_decisions_total\{result="(\w+)"\} (\d+)$',
            self.shadow.page("/metrics")[1],
            re.MULTILINE,
        )
        return {result: int(count) for result, count in found if count != "0"}

    def stop(self) -> str:
        """Stop the shadow, and return its output."""
        assert self.shadow is not None
        assert self.shadow.terminate() == 0
        return self.shadow.log

    def requests(self) -> list[tuple[str, str]]:
        """Return verb and path of every request of the shadow."""
        entries = map(json.loads, self.audit.read_text().splitlines())
        shadow = (one for one in entries if "kubesched" in one.get("userAgent", ""))
        return [(entry["verb"], entry["requestURI"]) for entry in shadow]

    def differences(self) -> list[Document]:
        """Return the lines of the report."""
        return [json.loads(line) for line in self.report.read_text().splitlines()]


def _all_decided(api: Api) -> bool:
    return all(_is_decided(pod) for pod in api.get(PODS).must(200).json["items"])


def _is_decided(pod: Document) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(
        condition["type"] == "PodScheduled" and condition.get("reason") != ""
        for condition in conditions
    )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    policy, audit = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
        "rules: [{level: Metadata}]\n"
    )
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit}")
    with real_cluster("bare", api_server_flags=flags) as cluster:
        with cluster.api() as api:
            for number in range(10):
                api.post("/api/v1/nodes", node_of(number)).must(201)
        yield World(cluster, audit, tmp_path)


def test_kube_scheduler_is_shadowed_without_differences_and_writes(world: World) -> None:
    world.start()
    world.create([a_mixed_pod(number) for number in range(96)])
    counts = world.counts()
    output = world.stop()
    assert set(counts) <= {"same", "tie"}, world.differences()
    # A random choice among ten nodes would agree for a tenth of the pods.
    assert counts["same"] > 96 // 3
    assert sum(counts.values()) == 96
    assert "shadow: 96 decisions compared, 0 differ" in output
    assert "Decision differs" not in output
    assert world.differences() == []
    verbs = {verb for verb, _ in world.requests()}
    assert verbs >= {"list", "watch"}
    assert verbs <= READS


def test_another_configuration_gives_explained_differences(world: World) -> None:
    world.start((MOST_ALLOCATED,))
    world.create([pod_of(number) for number in range(80)])
    output = world.stop()
    counts: dict[str, int] = {}
    for line in world.differences():
        counts[line["result"]] = counts.get(line["result"], 0) + 1
        assert line["theirs"] != line["ours"]
        assert line["ourTotal"] > line["theirTotal"]
        assert sum(line["points"].values()) == line["ourTotal"] - line["theirTotal"]
        assert line["points"]["NodeResourcesFit"] > 0
        assert f"NodeResourcesFit +{line['points']['NodeResourcesFit']}" in line["why"]
    assert counts == {"different_node": counts["different_node"]}
    assert counts["different_node"] > 20
    assert output.count('"Decision differs"') == counts["different_node"]
    assert f"{counts['different_node']} on another node" in output
    assert {verb for verb, _ in world.requests()} <= READS
