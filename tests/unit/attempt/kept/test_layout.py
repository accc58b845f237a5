"""Cached plugins prepare once per signature; those with nothing to do are skipped."""

from collections import Counter
from typing import Any

import pytest

from kubesched.attempt.kept.verdict_cache import cache_of
from kubesched.attempt.kept.verdicts import KeptVerdicts
from kubesched.cache.cache import Cache
from kubesched.framework.interface import Reads
from kubesched.framework.status import SKIP, Status
from kubesched.snapshot.node_columns import IntColumn
from tests.unit.builders import a_cache, a_profile, a_wire_node, a_wire_pod


class Counting:
    """Counts its calls."""

    declared = Reads(nodes=True)

    def __init__(self, name: str = "Counting") -> None:
        self.name = name
        self.calls: Counter[str] = Counter()
        self.profile = a_profile(self)

    def reads(self, pod: Any) -> Reads | None:
        self.calls["reads"] += 1
        return self.declared

    def fragment(self, pod: Any) -> str:
        return ""

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        self.calls["pre_filter"] += 1
        state.write(self.name, self.calls["pre_filter"])
        return None

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
        return []

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        self.calls["pre_score"] += 1
        return SKIP

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> IntColumn | Any:
        raise AssertionError("it is skipped")


class Idle(Counting):
    """Has nothing to do with any pod."""

    declared = Reads(idle=True)


@pytest.fixture
def cluster() -> Cache:
    return a_cache("n1", "n2")


def kept_of(plugin: Counting, cluster: Cache, cpu: str, **spec: Any) -> KeptVerdicts:
    cache = cache_of(plugin.profile)
    assert cache is not None
    pod = cluster.pod_info(a_wire_pod(cpu, requests={"cpu": cpu}, **spec))
    found = cache.lookup(cluster.snapshot(), pod)
    assert found is not None
    return found[0]


def test_plugins_prepare_once_per_signature(cluster: Cache) -> None:
    plugin = Counting()
    kept = [kept_of(plugin, cluster, cpu) for cpu in ("1", "2", "2")]
    assert plugin.calls == {"reads": 2, "pre_filter": 2, "pre_score": 2}
    assert [verdicts.state.read("Counting") for verdicts in kept] == [1, 2, 2]
    assert all(verdicts.state.skip_score_plugins == {"Counting"} for verdicts in kept)
    assert kept[0].layout is kept[2].layout


def test_a_changed_node_is_evaluated_again(cluster: Cache) -> None:
    plugin = Counting()
    kept_of(plugin, cluster, "1")
    cluster.add_node(a_wire_node("n3"))
    kept_of(plugin, cluster, "1")
    assert plugin.calls == {"reads": 2, "pre_filter": 2, "pre_score": 2}


def test_an_idle_plugin_is_skipped_without_a_call(cluster: Cache) -> None:
    plugin = Idle()
    kept = kept_of(plugin, cluster, "1")
    assert plugin.calls == {"reads": 1}
    assert kept.state.skip_filter_plugins == kept.state.skip_score_plugins == {"Counting"}
