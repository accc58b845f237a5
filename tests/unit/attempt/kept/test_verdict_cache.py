"""Verdicts are kept for signatures that occur again, and no longer than they are valid."""

import gc
from typing import Any
from weakref import finalize

import pytest

from kubesched.attempt.kept import verdict_cache
from kubesched.attempt.kept.verdict_cache import VerdictCache, cache_of
from kubesched.attempt.kept.verdicts import KeptVerdicts
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.attempt.select_host import ORDER_BITS
from kubesched.cache.cache import Cache
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import error
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_cache, a_pod, a_profile, a_wire_node, a_wire_pod


class Emptiest:
    """Prefers nodes with few pods; fails on one with three."""

    name = "Emptiest"

    def reads(self, pod: Any) -> Reads | None:
        return Reads(usage=True)

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> IntColumn | Any:
        if len(nodes) == 1 and nodes.pod_count == 3:
            return error("three")
        return 10 - nodes.pod_count


@pytest.fixture
def cluster() -> Cache:
    return a_cache("n1", "n2")


@pytest.fixture
def profile() -> Profile:
    return a_profile(Emptiest())


@pytest.fixture
def verdicts(profile: Profile) -> VerdictCache:
    found = cache_of(profile)
    assert found is not None
    return found


def of_template(cluster: Cache, app: str) -> PodInfo:
    return cluster.pod_info(a_wire_pod(app, labels={"app": app}))


def kept_of(verdicts: VerdictCache, cluster: Cache, app: str) -> KeptVerdicts:
    found = verdicts.lookup(cluster.snapshot(), of_template(cluster, app))
    assert found is not None
    return found[0]


def test_with_room_verdicts_are_kept_from_the_first_pod_on(
    verdicts: VerdictCache, cluster: Cache
) -> None:
    kept = [kept_of(verdicts, cluster, app) for app in "abc"]
    assert kept == [kept_of(verdicts, cluster, app) for app in "abc"]


def test_without_room_a_signature_seen_once_is_replaced_by_the_next(
    verdicts: VerdictCache, cluster: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_cache, "BYTES_MAX", 0)  # Keeps at most four entries.
    kept = [kept_of(verdicts, cluster, app) for app in "abcd"]
    for app in "efghij":
        kept_of(verdicts, cluster, app)
    assert len(verdicts) == 5
    assert kept == [kept_of(verdicts, cluster, app) for app in "abcd"]


def test_from_the_second_pod_on_verdicts_are_kept(verdicts: VerdictCache, cluster: Cache) -> None:
    for _ in range(2):
        for app in "abc":
            kept_of(verdicts, cluster, app)
    assert len(verdicts) == 3
    kept = [kept_of(verdicts, cluster, app) for app in "abc"]
    assert kept == [kept_of(verdicts, cluster, app) for app in "abc"]


def test_a_signature_seen_twice_in_a_row_is_kept_at_once(
    verdicts: VerdictCache, cluster: Cache
) -> None:
    first = kept_of(verdicts, cluster, "a")
    assert kept_of(verdicts, cluster, "a") is first
    kept_of(verdicts, cluster, "b")
    assert kept_of(verdicts, cluster, "a") is first


def test_verdicts_that_a_new_node_invalidates_are_rebuilt_and_kept(
    verdicts: VerdictCache, cluster: Cache
) -> None:
    for app in "aabb":
        kept_of(verdicts, cluster, app)
    cluster.add_node(a_wire_node("n3"))
    rebuilt = [kept_of(verdicts, cluster, app) for app in "ab"]
    assert [len(kept.rows) for kept in rebuilt] == [3, 3]
    assert [kept_of(verdicts, cluster, app) for app in "ab"] == rebuilt


def test_the_least_recently_used_verdicts_are_dropped_first(
    verdicts: VerdictCache, cluster: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_cache, "BYTES_MAX", 0)  # Keeps at most four entries.
    for _ in range(2):
        for app in "abcd":
            kept_of(verdicts, cluster, app)
    used, oldest = (
        kept_of(verdicts, cluster, "a"),
        verdicts._entries[of_template(cluster, "b").template],
    )
    for app in "ee":
        kept_of(verdicts, cluster, app)
    assert len(verdicts) == 4
    assert kept_of(verdicts, cluster, "a") is used
    assert kept_of(verdicts, cluster, "b") is not oldest


def test_the_number_of_remembered_signatures_is_bounded(
    verdicts: VerdictCache, cluster: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_cache, "SEEN_ONCE_MAX", 2)
    monkeypatch.setattr(verdict_cache, "BYTES_MAX", 0)
    for app in "abcdefgh":
        kept_of(verdicts, cluster, app)
    assert len(verdicts._seen_once) == 2


def test_verdicts_are_dropped_if_a_plugin_fails(verdicts: VerdictCache, cluster: Cache) -> None:
    first = kept_of(verdicts, cluster, "a")
    for name in ("p1", "p2", "p3"):
        cluster.add_pod(a_pod(name, nodeName="n1"))
    assert verdicts.lookup(cluster.snapshot(), of_template(cluster, "a")) is None
    cluster.remove_pod(a_pod("p3", nodeName="n1"))
    second = kept_of(verdicts, cluster, "a")
    assert second is not first
    assert (second.totals >> ORDER_BITS).tolist() == [8, 10]


def test_dropped_verdicts_are_freed_without_a_collection(
    profile: Profile, verdicts: VerdictCache, cluster: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_cache, "BYTES_MAX", 0)  # Keeps at most four entries.
    freed: list[str] = []
    gc.disable()
    try:
        for app in "wxyzab":
            attempt = schedule_pod(
                profile,
                cluster.snapshot(),
                CycleState(),
                of_template(cluster, app),
                Search(all_nodes=True),
            )
            run_without_extenders(attempt)
            kept = list(verdicts._entries.values())[-1]
            finalize(kept, freed.append, app)
            del kept
        assert freed == ["a"]
    finally:
        gc.enable()


def test_another_cluster_has_verdicts_of_its_own(verdicts: VerdictCache, cluster: Cache) -> None:
    first = kept_of(verdicts, cluster, "a")
    other = Cache()
    other.add_node(a_wire_node("n1"))
    assert len(kept_of(verdicts, other, "a").rows) == 1
    assert kept_of(verdicts, cluster, "a") is not first
