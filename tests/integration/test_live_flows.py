"""`kubesched run` on a server: pending pods and the events that make them schedulable.

Two processes share a playground that has no other scheduler: one has two profiles, the other a
third scheduler name. Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.playground.in_process import Playground
from kubesched.pytest_plugin import playground_fixture
from kubesched.testing import Api
from tests.integration.live_processes import Place, Scheduler, in_order, json_lines, start

TAINT = {"key": "keep", "value": "out", "effect": "NoSchedule"}


class Cluster(NamedTuple):
    """Two schedulers, and a place with pods that were created before them."""

    first: Scheduler
    """Has the profiles default-scheduler and second; logs text at level 3."""
    other: Scheduler
    """Has the profile third; logs JSON."""
    before: Place


playground = playground_fixture("module")
pytestmark = pytest.mark.playground(nodes=0, scheduler=False)


@pytest.fixture(scope="module")
def api(playground: Playground) -> Api:
    return playground.api


@pytest.fixture(scope="module")
def cluster(playground: Playground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    api, api_server = playground.api, playground.server
    directory = tmp_path_factory.mktemp("live")
    with Place(api, is_staffed=True) as before, ProcessGroup(directory) as group:
        before.node()
        for name, value in (("low", 1), ("middle", 5), ("high", 9)):
            priority_class(api, name, value)
            before.pod(name, priorityClassName=f"live-{name}")
        first = start(
            api_server,
            group,
            "-v=3",
            label="first",
            profiles=[{"schedulerName": "default-scheduler"}, {"schedulerName": "second"}],
        )
        other = start(
            api_server,
            group,
            "-v=2",
            "--logging-format=json",
            label="other",
            profiles=[{"schedulerName": "third"}],
        )
        yield Cluster(first, other, before)
        group.check()


def priority_class(api: Api, name: str, value: int) -> None:
    body = {"metadata": {"name": f"live-{name}"}, "value": value}
    api.post("/apis/scheduling.k8s.io/v1/priorityclasses", body).must(201, 409)


@pytest.fixture
def place(api: Api) -> Iterator[Place]:
    with Place(api, is_staffed=True) as created:
        yield created


def bound(cluster: Cluster, place: Place, *names: str) -> None:
    for name in names:
        cluster.first.until(lambda name=name: bool(place.node_of(name)), f"{name} is bound")  # type: ignore[misc]  # bound at once


def rejected(cluster: Cluster, place: Place, name: str) -> None:
    cluster.first.until(lambda: place.rejected(name), f"{name} is rejected")


def test_pods_are_scheduled_by_priority(cluster: Cluster) -> None:
    bound(cluster, cluster.before, "low", "middle", "high")
    key = cluster.before.key
    cluster.first.until(
        lambda: len(cluster.first.lines("Successfully bound pod to node")) >= 3, "the log says so"
    )
    tried = cluster.first.lines("Attempting to schedule pod")
    order = [tried.index(f'"Attempting to schedule pod" pod="{key(n)}"') for n in ("high", "low")]
    assert order == sorted(order)
    middle = tried.index(f'"Attempting to schedule pod" pod="{key("middle")}"')
    assert order[0] < middle < order[1]


# -- changes that make a pod schedulable -----------------------------------------------------------


def a_node_comes(place: Place) -> Callable[[], object]:
    place.pod("pod")
    return place.node


def a_label_changes(place: Place) -> Callable[[], object]:
    node = place.node(is_here=False)
    place.pod("pod")
    labels = {"metadata": {"labels": {"place": place.name}}}
    return lambda: place.change(f"/api/v1/nodes/{node}", labels)


def a_taint_goes(place: Place) -> Callable[[], object]:
    node = place.node(taints=[TAINT])
    place.pod("pod")
    return lambda: place.change(f"/api/v1/nodes/{node}", {"spec": {"taints": None}})


def a_node_is_uncordoned(place: Place) -> Callable[[], object]:
    node = place.node(unschedulable=True)
    place.pod("pod")
    return lambda: place.change(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": False}})


def a_node_grows(place: Place) -> Callable[[], object]:
    node = place.node(cpu="1")
    place.pod("pod", cpu="2")
    room = {"status": {"allocatable": {"cpu": "3"}, "capacity": {"cpu": "3"}}}
    return lambda: place.change(f"/api/v1/nodes/{node}/status", room)


def a_pod_goes(place: Place) -> Callable[[], object]:
    node = place.node(cpu="1")
    place.pod("there", cpu="800m", nodeName=node)
    place.pod("pod", cpu="800m")
    return lambda: place.delete("there")


def a_pod_tolerates(place: Place) -> Callable[[], object]:
    place.node(taints=[TAINT])
    place.pod("pod")
    more = {"spec": {"tolerations": [{"key": "keep", "operator": "Exists"}]}}
    return lambda: place.change(f"{place.pods}/pod", more)


def a_neighbor_comes(place: Place) -> Callable[[], object]:
    node = place.node(labels={"kubernetes.io/hostname": "h"})
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"wanted": place.name}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    place.pod("pod", affinity=affinity)
    return lambda: place.pod("neighbor", labels={"wanted": place.name}, nodeName=node)


def a_claim_is_bound(place: Place) -> Callable[[], object]:
    place.node()
    claims = f"/api/v1/namespaces/{place.name}/persistentvolumeclaims"
    amount = {"storage": "1Gi"}
    modes = ["ReadWriteOnce"]
    claim = {"accessModes": modes, "resources": {"requests": amount}, "storageClassName": ""}
    place.api.post(claims, {"metadata": {"name": "claim"}, "spec": claim}).must(201)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
    place.pod("pod", volumes=volumes)

    def bind() -> None:
        # The volume controller binds them.
        ref = {"kind": "PersistentVolumeClaim", "name": "claim", "namespace": place.name}
        spec = {
            "capacity": amount,
            "accessModes": modes,
            "hostPath": {"path": "/data"},
            "claimRef": {**ref, "apiVersion": "v1"},
        }
        volume = {"metadata": {"name": f"{place.name}-volume"}, "spec": spec}
        place.api.post("/api/v1/persistentvolumes", volume).must(201)

    return bind


@pytest.mark.parametrize(
    "frees",
    [
        a_node_comes,
        a_label_changes,
        a_taint_goes,
        a_node_is_uncordoned,
        a_node_grows,
        a_pod_goes,
        a_pod_tolerates,
        a_neighbor_comes,
        a_claim_is_bound,
    ],
)
def test_an_unschedulable_pod_is_bound_after_a_change(
    cluster: Cluster, place: Place, frees: Callable[[Place], Callable[[], object]]
) -> None:
    free = frees(place)
    rejected(cluster, place, "pod")
    cluster.first.until(lambda: place.notes("pod", "FailedScheduling") != [], "it has an event")
    # The watches are not ordered: the two may come from different attempts.
    for text in (place.condition("pod")["message"], *place.notes("pod", "FailedScheduling")):
        assert " nodes are available: " in text
    free()
    # Much less than the five minutes after which it is retried anyway.
    cluster.first.until(lambda: bool(place.node_of("pod")), "the pod is bound", timeout_s=20)


def test_a_gated_pod_waits_without_events(cluster: Cluster, place: Place) -> None:
    place.node()
    gates = [{"name": "example.com/wait"}]
    place.pod("gated", schedulingGates=gates)
    place.pod("later")
    bound(cluster, place, "later")
    assert place.node_of("gated") == ""
    assert place.events("gated") == []
    assert place.condition("gated")["reason"] == "SchedulingGated"
    place.change(f"{place.pods}/gated", {"spec": {"schedulingGates": None}})
    bound(cluster, place, "gated")
    assert place.notes("gated", "FailedScheduling") == []


# -- preemption ------------------------------------------------------------------------------------


def test_preemption_respects_priorities_and_budgets(
    cluster: Cluster, place: Place, api: Api
) -> None:
    nodes = {
        name: place.node(name, cpu="1", labels={"kubernetes.io/hostname": name})
        for name in ("guarded", "free")
    }
    for name, node in nodes.items():
        place.pod(name, cpu="800m", labels={"app": name}, nodeName=node)
    budgets = f"/apis/policy/v1/namespaces/{place.name}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    api.post(budgets, {"metadata": {"name": "budget"}, "spec": spec}).must(201)
    place.pod("important", cpu="800m", priorityClassName="live-high")
    bound(cluster, place, "important")
    assert place.node_of("important") == nodes["free"]
    assert place.node_of("guarded") == nodes["guarded"]
    assert place.read("free") == {}
    uid = place.read("important")["metadata"]["uid"]
    cluster.first.until(lambda: place.notes("free", "Preempted") != [], "the eviction has an event")
    (note,) = place.notes("free", "Preempted")
    assert note == f"Preempted by pod {uid} on node {nodes['free']}"
    assert "nominatedNodeName" not in place.read("important")["status"]


# -- other schedulers ------------------------------------------------------------------------------


def test_each_scheduler_binds_only_its_own_pods(cluster: Cluster, place: Place) -> None:
    node = place.node()
    for name in ("default-scheduler", "second", "third", "nobody"):
        place.pod(name, schedulerName=name)
    bound(cluster, place, "default-scheduler", "second", "third")
    for name in ("default-scheduler", "second", "third"):
        assert place.node_of(name) == node
        cluster.first.until(lambda name=name: reporters(place, name) != [], "it has an event")  # type: ignore[misc]  # bound at once
        assert reporters(place, name) == [name]
    assert place.read("nobody")["status"].get("conditions") is None
    assert place.events("nobody") == []
    assert place.key("nobody") not in cluster.first.log + cluster.other.log
    about_third = cluster.first.messages_about(place.key("third"))
    assert set(about_third) <= {"Add event for scheduled pod"}, "it only counts there"
    cluster.other.until(
        lambda: place.key("third") in _bound_by(cluster.other), "its own log says so"
    )
    assert _bound_by(cluster.other) == [place.key("third")]


def reporters(place: Place, name: str) -> list[str]:
    """Return the reporter of a pod's Scheduled event."""
    return [
        event["reportingController"]
        for event in place.events(name)
        if event["reason"] == "Scheduled"
    ]


def _bound_by(scheduler: Scheduler) -> list[str]:
    return [
        f"{line['pod']['namespace']}/{line['pod']['name']}"
        for line in json_lines(scheduler.log)
        if line["msg"] == "Successfully bound pod to node"
    ]


# -- logs, cache, rights and metrics ---------------------------------------------------------------


def test_the_log_of_a_pod_that_fails_and_is_bound(cluster: Cluster, place: Place) -> None:
    place.pod("pod")
    rejected(cluster, place, "pod")
    place.node()
    bound(cluster, place, "pod")
    key = place.key("pod")
    cluster.first.until(
        lambda: "Successfully bound pod to node" in cluster.first.messages_about(key),
        "the log is written",
    )
    assert in_order(
        cluster.first.messages_about(key),
        "Add event for unscheduled pod",
        "Attempting to schedule pod",
        "Unable to schedule pod; no fit; waiting",
        "Updating pod condition and nominated node name",
        "Attempting to schedule pod",
        "Attempting to bind pod to node",
        "Successfully bound pod to node",
    ), cluster.first.messages_about(key)
    (line,) = [line for line in cluster.first.lines("Successfully bound") if key in line]
    nodes = len(place.api.get("/api/v1/nodes").json["items"])
    assert f'node="{place.name}-node" evaluatedNodes=' in line
    assert line.endswith(" feasibleNodes=1")
    assert 1 <= int(line.partition("evaluatedNodes=")[2].split()[0]) <= nodes


def test_every_line_of_a_json_log_is_an_object(cluster: Cluster) -> None:
    cluster.other.until(
        lambda: "Caches populated" in cluster.other.log, "its log has lines of higher levels"
    )
    for line in json_lines(cluster.other.log):
        assert {"ts", "caller", "msg"} <= set(line)
        assert "v" in line or "err" in line or "stacktrace" in line or line["msg"]


def test_the_cache_equals_the_server(cluster: Cluster, place: Place) -> None:
    place.node()
    place.pod("pod")
    place.pod("stuck", nodeSelector={"nowhere": "yes"})
    bound(cluster, place, "pod")
    rejected(cluster, place, "stuck")
    cluster.first.send_signal(signal.SIGUSR2)
    cluster.first.until_logged("Dump of scheduling queue")
    assert "Cache mismatch" not in cluster.first.log
    _, _, dump = cluster.first.log.rpartition("Dump of cached NodeInfo")
    nodes, _, queue = dump.partition("Dump of scheduling queue")
    assert f"Node name: {place.name}-node" in nodes
    assert f"name: stuck, namespace: {place.name}" in queue


def test_the_user_of_the_scheduler_has_every_right_it_needs(cluster: Cluster, place: Place) -> None:
    place.node()
    place.pod("pod")
    bound(cluster, place, "pod")
    assert cluster.first.metric("rest_client_requests_total") > 0
    assert cluster.first.metric("rest_client_requests_total", code="403") == 0
    assert cluster.first.lines("Missing permission") == []
    assert cluster.first.page("/readyz") == (200, "ok")


def test_metrics_after_scheduling(cluster: Cluster, place: Place) -> None:
    name: dict[str, Any] = {"profile": "second"}
    before = cluster.first.metric("scheduler_schedule_attempts_total", result="scheduled", **name)
    place.node()
    place.pod("pod", schedulerName="second")
    bound(cluster, place, "pod")
    cluster.first.until(
        lambda: (
            cluster.first.metric("scheduler_schedule_attempts_total", result="scheduled", **name)
            == before + 1
        ),
        "the attempt is counted",
    )
