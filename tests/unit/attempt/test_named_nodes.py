"""Pods that name their node, as those of a DaemonSet do."""

from typing import Any

import pytest

from kubesched.api.decode import decode_object
from kubesched.attempt.diagnosis import FitError
from kubesched.attempt.request import ScheduleResult, Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.framework.cycle_state import CycleState
from kubesched.profile.build import Built
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_wire_node, a_wire_pod, built_with

NAME = "default-scheduler"
NAMESPACE = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}'


@pytest.fixture
def cluster() -> Cache:
    cache = Cache()
    for name in ("n1", "n2", "n3"):
        cache.add_node(a_wire_node(name, allocatable={"cpu": "1", "memory": "1Gi", "pods": "10"}))
    return cache


@pytest.fixture
def built() -> Built:
    return built_with()


def named(cluster: Cache, name: str, node: str, **parts: Any) -> PodInfo:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    parts.setdefault("requests", {"cpu": "600m"})
    return cluster.pod_info(a_wire_pod(name, affinity=affinity, **parts))


def attempt(built: Built, cluster: Cache, pod: PodInfo, **search: Any) -> ScheduleResult:
    view = cluster.snapshot()
    built.handles[NAME].view = view
    profile = built.profiles[NAME]
    run = schedule_pod(profile, view, CycleState(), pod, Search(all_nodes=True, **search))
    return run_without_extenders(run)


def test_pods_go_to_the_node_they_name(built: Built, cluster: Cache) -> None:
    for name, node in (("a", "n2"), ("b", "n1"), ("c", "n3")):
        pod = named(cluster, name, node)
        assert attempt(built, cluster, pod).suggested_host == node
        cluster.assume_pod(pod, node)


@pytest.mark.parametrize("change", ["a node", "an object"])
def test_pods_go_to_the_node_they_name_after_a_change(
    built: Built, cluster: Cache, change: str
) -> None:
    attempt(built, cluster, named(cluster, "a", "n1"))
    if change == "a node":
        cluster.add_node(a_wire_node("n4"))
    else:
        cluster.put(decode_object(NAMESPACE))
    assert attempt(built, cluster, named(cluster, "b", "n1")).suggested_host == "n1"


def test_a_node_without_room_is_reported_in_upstreams_words(built: Built, cluster: Cache) -> None:
    first = named(cluster, "a", "n1")
    attempt(built, cluster, first)
    cluster.assume_pod(first, "n1")
    with pytest.raises(FitError) as failure:
        attempt(built, cluster, named(cluster, "b", "n1"))
    assert str(failure.value) == (
        "0/3 nodes are available: 1 Insufficient cpu, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_a_missing_named_node_is_no_node(built: Built, cluster: Cache) -> None:
    with pytest.raises(FitError, match=r"3 node\(s\) didn't satisfy plugin\(s\) \[NodeAffinity\]"):
        attempt(built, cluster, named(cluster, "a", "gone"))


def test_the_search_continues_after_the_named_node(built: Built, cluster: Cache) -> None:
    view, search = cluster.snapshot(), Search(next_start_index=2)
    built.handles[NAME].view = view
    for start in (0, 1, 2):
        pod = named(cluster, f"p{start}", "n2", requests={"cpu": "1m"})
        run = schedule_pod(built.profiles[NAME], view, CycleState(), pod, search)
        result = run_without_extenders(run)
        assert (result.feasible_node_count, result.evaluated_node_count) == (1, 1)
        assert search.next_start_index == start


def test_pods_of_a_daemon_set_are_one_shape_in_the_tables(cluster: Cache) -> None:
    view = cluster.snapshot()
    for name, node in (("a", "n2"), ("b", "n1")):
        cluster.assume_pod(named(cluster, name, node), node)
    assert len(view.pods.shapes) == 1
    before = view.stamp
    # The API server reports the pod as it was assumed: nothing changes.
    cluster.add_pod(named(cluster, "a", "n2", nodeName="n2"))
    assert view.stamp == before


@pytest.mark.parametrize(
    ("node", "cpu", "expected"),
    [
        pytest.param("n3", "900m", "n1", id="on another node"),
        pytest.param("n1", "400m", "n1", id="with room for both"),
        pytest.param("n1", "500m", "1 Insufficient cpu", id="without room for both"),
    ],
)
def test_a_nominated_pod(built: Built, cluster: Cache, node: str, cpu: str, expected: str) -> None:
    nominated = a_wire_pod("nominated", requests={"cpu": cpu}, priority=10)
    cluster.nominate_pod(cluster.pod_info(nominated), node)
    attempt(built, cluster, named(cluster, "a", "n2"))
    try:
        found = attempt(built, cluster, named(cluster, "b", "n1")).suggested_host
    except FitError as failure:
        found = str(failure).partition(":")[2].partition(",")[0].strip()
    assert found == expected


def test_a_nominated_pod_of_lower_priority_does_not_count(built: Built, cluster: Cache) -> None:
    nominated = a_wire_pod("nominated", requests={"cpu": "900m"}, priority=10)
    cluster.nominate_pod(cluster.pod_info(nominated), "n1")
    pod = named(cluster, "a", "n1", priority=11)
    assert attempt(built, cluster, pod).suggested_host == "n1"
