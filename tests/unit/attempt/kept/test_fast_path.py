"""Attempts with kept verdicts decide as attempts without them, also in rare cases."""

from typing import Any

import numpy as np
import pytest

from kubesched.attempt.diagnosis import FitError, SchedulingError
from kubesched.attempt.request import ScheduleResult, Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads, Rejected
from kubesched.framework.normalize import default_normalize
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import error, pending, unschedulable
from kubesched.snapshot.node_columns import IntColumn
from tests.unit.builders import a_pod, a_profile, a_wire_node, a_wire_pod

NAMES = ("n1", "n2", "n3")


@pytest.fixture
def cluster() -> Cache:
    cache = Cache()
    for name in NAMES:
        cache.add_node(a_wire_node(name))
    return cache


def attempt(profile: Profile, cluster: Cache, search: Search | None = None) -> ScheduleResult:
    search = search or Search(all_nodes=True)
    pod = cluster.pod_info(a_wire_pod())  # Pods of one template share a shape through the cache.
    run = schedule_pod(profile, cluster.snapshot(), CycleState(), pod, search)
    return run_without_extenders(run)


def place(cluster: Cache, node_name: str, *names: str) -> None:
    for name in names:
        cluster.add_pod(a_pod(name, nodeName=node_name))


class Local:
    name = "Local"

    def reads(self, pod: Any) -> Reads | None:
        return Reads(usage=True)


class Even(Local):
    """All nodes are equally good, and stay so."""

    name = "Even"

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return nodes.pod_count * 0


class Emptiest(Local):
    """The emptiest node relative to the fullest: one row's change may move all scores."""

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return nodes.pod_count

    def normalize_scores(self, state: Any, pod: Any, scores: IntColumn) -> IntColumn:
        return default_normalize(scores, reverse=True)


class Third(Local):
    """Prefers the third node by a little."""

    name = "Third"

    def reads(self, pod: Any) -> Reads | None:
        return Reads(nodes=True)

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.array([20 if name == "n3" else 0 for name in nodes.names])


@pytest.mark.parametrize("attempts", [1, 3], ids=["new verdicts", "ranked verdicts"])
def test_the_search_continues_where_the_last_one_stopped(cluster: Cache, attempts: int) -> None:
    profile = a_profile(Even())
    for _ in range(attempts):
        found = attempt(profile, cluster, Search(next_start_index=1))
        assert found.suggested_host == "n2"


def test_a_change_of_one_row_changes_normalized_scores(cluster: Cache) -> None:
    place(cluster, "n3", "a")
    profile = a_profile(Emptiest(), Third())
    for _ in range(3):
        assert attempt(profile, cluster).suggested_host == "n1"  # 100 against 0 + 20
    place(cluster, "n1", *"bcdefghi")
    # Relative to eight pods n3 has 88 + 20, n2 has 100.
    place(cluster, "n2", "j")
    assert attempt(profile, cluster).suggested_host == "n3"
    cluster.remove_pod(a_pod("j"))
    assert attempt(profile, cluster).suggested_host == "n3"
    for name in "bcdefghi":
        cluster.remove_pod(a_pod(name))
    assert attempt(profile, cluster).suggested_host == "n1"


class Faulty(Local):
    """Returns an error for a node with a pod."""

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Rejected]:
        return [Rejected(nodes.pod_count == 1, error("bad"))]


class Raising(Local):
    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Rejected]:
        if np.any(nodes.pod_count == 1):
            raise ValueError("bad")
        return []


@pytest.mark.parametrize(
    ("plugin", "text"), [(Faulty, "bad"), (Raising, "ValueError: bad")], ids=["returned", "raised"]
)
def test_an_error_about_a_row_that_changed_ends_the_attempt(
    cluster: Cache, plugin: Any, text: str
) -> None:
    profile = a_profile(plugin(), Even())
    for _ in range(2):
        attempt(profile, cluster)
    place(cluster, "n2", "a")
    for _ in range(2):
        with pytest.raises(SchedulingError) as caught:
            attempt(profile, cluster)
        assert str(caught.value) == f'running "Local" filter plugin: {text}'
    cluster.remove_pod(a_pod("a"))
    assert attempt(profile, cluster).feasible_node_count == 3


class Waiting(Local):
    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Rejected]:
        return [
            Rejected(nodes.pod_count == 1, pending("soon")),
            Rejected(nodes.pod_count == 0, unschedulable("empty")),
        ]


@pytest.mark.parametrize("attempts", [1, 3], ids=["new verdicts", "ranked verdicts"])
def test_a_rejection_that_waits_for_an_external_event_is_pending(
    cluster: Cache, attempts: int
) -> None:
    place(cluster, "n2", "a")
    profile = a_profile(Waiting(), Even())
    for _ in range(attempts):
        with pytest.raises(FitError) as caught:
            attempt(profile, cluster)
        assert caught.value.diagnosis.unschedulable_plugins == {"Local"}
        assert caught.value.diagnosis.pending_plugins == {"Local"}
        assert str(caught.value) == "0/3 nodes are available: 1 soon, 2 empty."


class Filling(Local):
    """A node takes one pod."""

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Rejected]:
        return [Rejected(nodes.pod_count > 0, unschedulable("taken"))]


def test_pods_placed_one_after_the_other_fill_the_nodes_in_order(cluster: Cache) -> None:
    profile = a_profile(Filling(), Even())
    for expected in NAMES:
        assert attempt(profile, cluster).suggested_host == expected
        place(cluster, expected, f"on-{expected}")
    with pytest.raises(FitError, match=r"^0/3 nodes are available: 3 taken\.$"):
        attempt(profile, cluster)


def test_an_added_node_is_evaluated(cluster: Cache) -> None:
    profile = a_profile(Filling(), Even())
    for name in NAMES:
        place(cluster, name, f"on-{name}")
    for _ in range(2):
        with pytest.raises(FitError):
            attempt(profile, cluster)
    cluster.add_node(a_wire_node("n4"))
    assert attempt(profile, cluster).suggested_host == "n4"


def test_a_plugin_without_reads_is_called_in_every_attempt(cluster: Cache) -> None:
    calls: list[int] = []

    class Recording:
        name = "Recording"

        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Rejected]:
            calls.append(len(nodes))
            return []

    profile = a_profile(Recording(), Even())
    for _ in range(3):
        attempt(profile, cluster)
    assert calls == [3, 3, 3]


def test_a_plugin_with_reads_is_called_for_changed_rows_only(
    cluster: Cache,
) -> None:
    calls: list[Any] = []

    class Recording(Filling):
        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Rejected]:
            calls.append(np.size(nodes.pod_count))
            return super().filter_nodes(state, pod, nodes)

    profile = a_profile(Recording(), Even())
    for _ in range(3):
        attempt(profile, cluster)
    assert calls == [3]
    place(cluster, "n2", "a")
    attempt(profile, cluster)
    assert calls == [3, 1]


class OnSsd(Local):
    """Rejects nodes without a fast disk; all pods share its verdicts."""

    def reads(self, pod: Any) -> Reads | None:
        return Reads(nodes=True)

    def fragment(self, pod: Any) -> str:
        return "any pod"

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Rejected]:
        return [Rejected(nodes.has_label("disk", "hdd"), unschedulable("slow"))]


@pytest.mark.parametrize("reverse", [False, True])
def test_shared_columns_are_not_shared_by_clusters(reverse: bool) -> None:
    profile = a_profile(OnSsd(), Even())
    for fast in ("n2", "n1", "n2"):
        cluster = Cache()
        for name in sorted(("n1", "n2"), reverse=reverse):
            disk = "ssd" if name == fast else "hdd"
            cluster.add_node(a_wire_node(name, labels={"disk": disk}))
        assert attempt(profile, cluster).suggested_host == fast
        assert attempt(profile, cluster).suggested_host == fast


def test_shared_columns_are_dropped_when_nodes_change() -> None:
    profile, cluster = a_profile(OnSsd(), Even()), Cache()
    for name, disk in (("n1", "hdd"), ("n2", "ssd")):
        cluster.add_node(a_wire_node(name, labels={"disk": disk}))
    assert attempt(profile, cluster).suggested_host == "n2"
    cluster.add_node(a_wire_node("n1", labels={"disk": "ssd"}))
    cluster.add_node(a_wire_node("n2", labels={"disk": "hdd"}))
    assert attempt(profile, cluster).suggested_host == "n1"
