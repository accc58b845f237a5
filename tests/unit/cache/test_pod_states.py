"""The states of a pod in the cache: assumed, confirmed, forgotten, nominated."""

from typing import Any

import pytest

from kubesched.cache.cache import Cache, CacheError
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_cache, a_pod


@pytest.fixture
def cache() -> Cache:
    return a_cache("n1", "n2")


def a_web(**spec: Any) -> PodInfo:
    return a_pod("web", requests={"cpu": "1"}, **spec)


def cpu_by_node(cache: Cache) -> dict[str, int]:
    nodes = cache.snapshot().all_nodes()
    return dict(zip(nodes.names, nodes.requested["cpu"].tolist(), strict=True))


def nominated(cache: Cache, node_name: str) -> list[str]:
    view = cache.snapshot()
    return [view.bound_pod(i).name for i in view.nominated_on(view.row_of(node_name))]


def test_an_assumed_pod_counts_and_confirming_it_changes_nothing(cache: Cache) -> None:
    cache.assume_pod(a_web(), "n1")
    assert cpu_by_node(cache) == {"n1": 1000, "n2": 0}
    assert cache.is_assumed(a_web())
    cache.add_pod(a_web(nodeName="n1"))
    assert cpu_by_node(cache) == {"n1": 1000, "n2": 0}
    assert not cache.is_assumed(a_web())
    assert cache.is_bound(a_web())


def test_a_pod_bound_to_another_node_than_assumed_moves_there(
    cache: Cache,
) -> None:
    cache.assume_pod(a_web(), "n1")
    cache.add_pod(a_web(nodeName="n2"))
    assert cpu_by_node(cache) == {"n1": 0, "n2": 1000}


def test_a_forgotten_pod_counts_nowhere(cache: Cache) -> None:
    cache.assume_pod(a_web(), "n1")
    cache.forget_pod(a_web())
    assert cpu_by_node(cache) == {"n1": 0, "n2": 0}
    assert not cache.is_assumed(a_web())


@pytest.mark.parametrize("method", ["assume", "add"])
def test_a_pod_that_counts_cannot_be_assumed(cache: Cache, method: str) -> None:
    if method == "assume":
        cache.assume_pod(a_web(), "n1")
    else:
        cache.add_pod(a_web(nodeName="n1"))
    with pytest.raises(CacheError, match="is in the cache, so can't be assumed"):
        cache.assume_pod(a_web(), "n2")
    assert cpu_by_node(cache) == {"n1": 1000, "n2": 0}


def test_only_an_assumed_pod_can_be_forgotten(cache: Cache) -> None:
    cache.add_pod(a_web(nodeName="n1"))
    with pytest.raises(CacheError, match="wasn't assumed so cannot be forgotten"):
        cache.forget_pod(a_web())
    assert cpu_by_node(cache) == {"n1": 1000, "n2": 0}


def test_a_confirmed_pod_cannot_be_forgotten(cache: Cache) -> None:
    cache.assume_pod(a_web(), "n1")
    cache.add_pod(a_web(nodeName="n1"))
    with pytest.raises(CacheError):
        cache.forget_pod(a_web())


def test_an_update_replaces_the_requests_of_the_pod(cache: Cache) -> None:
    cache.add_pod(a_web(nodeName="n1"))
    cache.update_pod(a_pod("web", requests={"cpu": "3"}, nodeName="n1"))
    assert cpu_by_node(cache) == {"n1": 3000, "n2": 0}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminated_pod_does_not_count(cache: Cache, phase: str) -> None:
    cache.add_pod(a_web(nodeName="n1"))
    cache.update_pod(a_web(nodeName="n1", status={"phase": phase}))
    assert cpu_by_node(cache) == {"n1": 0, "n2": 0}
    assert not cache.is_bound(a_web())


def test_removing_a_pod_twice_is_no_error(cache: Cache) -> None:
    cache.add_pod(a_web(nodeName="n1"))
    cache.remove_pod(a_web())
    cache.remove_pod(a_web())
    assert cpu_by_node(cache) == {"n1": 0, "n2": 0}


def test_a_deleted_assumed_pod_is_neither_assumed_nor_counted(cache: Cache) -> None:
    cache.assume_pod(a_web(), "n1")
    cache.remove_pod(a_web())
    assert not cache.is_assumed(a_web())
    with pytest.raises(CacheError):
        cache.forget_pod(a_web())


def test_a_nomination_can_move_and_be_removed(cache: Cache) -> None:
    cache.nominate_pod(a_web(), "n1")
    cache.nominate_pod(a_web(), "n2")
    assert (nominated(cache, "n1"), nominated(cache, "n2")) == ([], ["web"])
    cache.nominate_pod(a_web(), "")
    assert nominated(cache, "n2") == []


def test_assuming_a_pod_ends_its_nomination(cache: Cache) -> None:
    cache.nominate_pod(a_web(), "n1")
    cache.assume_pod(a_web(), "n2")
    assert nominated(cache, "n1") == []
    assert cpu_by_node(cache) == {"n1": 0, "n2": 1000}


def test_a_pod_that_counts_cannot_be_nominated(cache: Cache) -> None:
    cache.add_pod(a_web(nodeName="n1"))
    with pytest.raises(CacheError, match="counts on a node, so can't be nominated"):
        cache.nominate_pod(a_web(), "n2")


def test_whole_pods_are_kept_only_on_request() -> None:
    pod = a_web(nodeName="n1", terminationGracePeriodSeconds=7)
    keeping, dropping = Cache(keep_whole_pods=True), Cache()
    for cache in (keeping, dropping):
        cache.add_pod(pod)
    kept = keeping.bound_pod(pod.uid)
    assert kept is not None
    assert kept.object.spec.termination_grace_period_seconds == 7
    dropped = dropping.bound_pod(pod.uid)
    assert dropped is not None
    with pytest.raises(LookupError, match="pod default/web: whole bound pods are not kept; set"):
        assert dropped.object
