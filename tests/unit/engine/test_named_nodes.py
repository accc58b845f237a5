"""Pods that name one node, as those of a DaemonSet do: what plugins said of one holds for all."""

from typing import Any

import pytest

from kubesched.app.build import Built
from kubesched.cache.cache import Cache
from kubesched.engine.diagnosis import FitError
from kubesched.engine.schedule_pod import run_without_extenders, schedule_pod
from kubesched.engine.search import ScheduleResult, Search
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import decode_object
from tests.unit.builders import a_wire_node, a_wire_pod, built_with

NAME = "default-scheduler"
NAMESPACE = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}'


class Counting:
    """Counts for which pods pre-filter was asked."""

    name = "Counting"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def reads(self, pod: PodInfo) -> Reads | None:
        return Reads()

    def pre_filter(self, state: Any, pod: PodInfo, nodes: Any) -> None:
        self.asked.append(pod.name)


@pytest.fixture
def cluster() -> Cache:
    cache = Cache()
    for name in ("n1", "n2", "n3"):
        cache.add_node(a_wire_node(name, allocatable={"cpu": "1", "memory": "1Gi", "pods": "10"}))
    return cache


@pytest.fixture
def built() -> Built:
    return built_with(Counting)


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


def asked(built: Built) -> list[str]:
    plugin = built.profiles[NAME].plugins["Counting"]
    assert isinstance(plugin, Counting)
    return plugin.asked


def test_plugins_are_asked_once_about_pods_that_differ_in_the_node_they_name(
    built: Built, cluster: Cache
) -> None:
    for name, node in (("a", "n2"), ("b", "n1"), ("c", "n3")):
        pod = named(cluster, name, node)
        assert attempt(built, cluster, pod).suggested_host == node
        cluster.assume_pod(pod, node)
    assert asked(built) == ["a"]


def test_they_are_asked_again_about_pods_that_differ_in_more(built: Built, cluster: Cache) -> None:
    attempt(built, cluster, named(cluster, "a", "n1"))
    attempt(built, cluster, named(cluster, "b", "n1", labels={"app": "b"}))
    attempt(built, cluster, named(cluster, "c", "n1", requests={"cpu": "1"}))
    assert asked(built) == ["a", "b", "c"]


@pytest.mark.parametrize("change", ["a node", "an object"])
def test_they_are_asked_again_when_what_they_may_have_read_has_changed(
    built: Built, cluster: Cache, change: str
) -> None:
    attempt(built, cluster, named(cluster, "a", "n1"))
    if change == "a node":
        cluster.add_node(a_wire_node("n4"))
    else:
        cluster.put(decode_object(NAMESPACE))
    attempt(built, cluster, named(cluster, "b", "n1"))
    assert asked(built) == ["a", "b"]


def test_a_node_without_room_is_told_of_in_the_usual_words(built: Built, cluster: Cache) -> None:
    first = named(cluster, "a", "n1")
    attempt(built, cluster, first)
    cluster.assume_pod(first, "n1")
    with pytest.raises(FitError) as failure:
        attempt(built, cluster, named(cluster, "b", "n1"))
    assert str(failure.value) == (
        "0/3 nodes are available: 1 Insufficient cpu, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_a_node_that_is_not_there_is_none(built: Built, cluster: Cache) -> None:
    with pytest.raises(FitError, match=r"3 node\(s\) didn't satisfy plugin\(s\) \[NodeAffinity\]"):
        attempt(built, cluster, named(cluster, "a", "gone"))


def test_the_search_goes_on_after_the_one_node(built: Built, cluster: Cache) -> None:
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
    # The API server shows it as it was assumed: nothing changes.
    cluster.add_pod(named(cluster, "a", "n2", nodeName="n2"))
    assert view.stamp == before


@pytest.mark.parametrize(
    ("node", "cpu", "asked_about"),
    [
        pytest.param("n3", "900m", ["a"], id="of another node leaves the answers kept"),
        pytest.param("n1", "400m", ["a"], id="with room for both leaves them kept too"),
        pytest.param("n1", "500m", ["a", "b"], id="without room for both is told the usual way"),
    ],
)
def test_a_promise(
    built: Built, cluster: Cache, node: str, cpu: str, asked_about: list[str]
) -> None:
    promised = a_wire_pod("promised", requests={"cpu": cpu}, priority=10)
    cluster.nominate_pod(cluster.pod_info(promised), node)
    attempt(built, cluster, named(cluster, "a", "n2"))
    try:
        host = attempt(built, cluster, named(cluster, "b", "n1")).suggested_host
    except FitError as failure:
        host = str(failure).partition(":")[2].partition(",")[0].strip()
    assert asked(built) == asked_about
    assert host == ("n1" if asked_about == ["a"] else "1 Insufficient cpu")


def test_a_promise_to_a_less_important_pod_does_not_count(built: Built, cluster: Cache) -> None:
    promised = a_wire_pod("promised", requests={"cpu": "900m"}, priority=10)
    cluster.nominate_pod(cluster.pod_info(promised), "n1")
    pod = named(cluster, "a", "n1", priority=11)
    assert attempt(built, cluster, pod).suggested_host == "n1"
    assert asked(built) == ["a"]
