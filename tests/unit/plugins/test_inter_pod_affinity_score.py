"""InterPodAffinity scores nodes by preferred terms, the pod's own and those of existing pods."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.config.types import InterPodAffinityArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, StatusError, error
from kubesched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kubesched.plugins.inter_pod_affinity.scoring import scaled, scaled_one_by_one
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.plugins.growing_cluster import (
    GrowingCluster,
    Wire,
    a_namespace,
    by_name,
    node,
    pod,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(key: str = "zone", *, app: str = "foo", **more: Any) -> Wire:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def weighted(weight: int, **more: Any) -> Wire:
    return {"weight": weight, "podAffinityTerm": term(**more)}


def likes(*terms: Wire) -> Wire:
    return {"podAffinity": {PREFERRED: list(terms)}}


def dislikes(*terms: Wire) -> Wire:
    return {"podAntiAffinity": {PREFERRED: list(terms)}}


def incoming(pod_affinity: Wire | None = None, *, app: str = "foo") -> PodInfo:
    return pod("incoming", {"app": app}, affinity=pod_affinity or {})


def zones(*objects: Any) -> GrowingCluster:
    """Nodes a1 and a2 in zone a, b1 in zone b, and one in none."""
    return GrowingCluster(
        node("a1", {"zone": "a", "host": "a1"}),
        node("a2", {"zone": "a", "host": "a2"}),
        node("b1", {"zone": "b", "host": "b1"}),
        node("bare"),
        *objects,
    )


def plugin_for(cluster: GrowingCluster, **args: Any) -> InterPodAffinity:
    return InterPodAffinity(InterPodAffinityArgs(**args), cluster.handle)


def scored(
    cluster: GrowingCluster, incoming_pod: PodInfo, **args: Any
) -> tuple[dict[str, int], dict[str, int]]:
    plugin, state, nodes = plugin_for(cluster, **args), CycleState(), cluster.nodes
    assert plugin.pre_score(state, incoming_pod, nodes) is None
    raw = plugin.score_nodes(state, incoming_pod, nodes)
    return by_name(raw, nodes), by_name(plugin.normalize_scores(state, incoming_pod, raw), nodes)


def test_every_matching_pod_adds_the_weight_of_an_own_term_to_its_domain() -> None:
    cluster = zones(
        pod("p", {"app": "foo"}, at="a1"),
        pod("q", {"app": "foo"}, at="a2", terminating=True),
        pod("r", {"app": "foo"}, at="b1"),
        pod("s", {"app": "foo"}, at="bare"),
        pod("t", {"app": "foo"}, at="a1", namespace="other"),
    )
    raw, normal = scored(cluster, incoming(likes(weighted(5))))
    assert raw == {"a1": 10, "a2": 10, "b1": 5, "bare": 0}
    assert normal == {"a1": 100, "a2": 100, "b1": 50, "bare": 0}


def test_anti_affinity_terms_subtract() -> None:
    cluster = zones(pod("p", {"app": "foo"}, at="a1"))
    both = {**likes(weighted(2)), **dislikes(weighted(7, key="host"))}
    raw, normal = scored(cluster, incoming(both))
    assert raw == {"a1": -5, "a2": 2, "b1": 0, "bare": 0}
    # 100 × 5/7 is cut off, not rounded.
    assert normal == {"a1": 0, "a2": 100, "b1": 71, "bare": 71}


def test_terms_of_existing_pods_count_for_the_pods_they_select() -> None:
    cluster = zones(
        pod("p", at="a1", affinity=likes(weighted(3))),
        pod("q", at="b1", affinity=dislikes(weighted(4, key="host"), weighted(4, app="x"))),
        pod("r", at="a2", affinity={"podAffinity": {REQUIRED: [term("host")]}}),
    )
    assert scored(cluster, incoming())[0] == {"a1": 3, "a2": 4, "b1": -4, "bare": 0}
    raw, _ = scored(cluster, incoming(), hard_pod_affinity_weight=10)
    assert raw == {"a1": 3, "a2": 13, "b1": -4, "bare": 0}
    raw, _ = scored(cluster, incoming(), hard_pod_affinity_weight=0)
    assert raw == {"a1": 3, "a2": 3, "b1": -4, "bare": 0}


def test_terms_of_existing_pods_select_by_the_labels_of_the_pods_namespace() -> None:
    scope: Wire = {"namespaceSelector": {"matchLabels": {"team": "red"}}}
    cluster = zones(pod("p", at="a1", namespace="other", affinity=likes(weighted(3, **scope))))
    assert plugin_for(cluster).pre_score(CycleState(), incoming(), cluster.nodes) == SKIP
    cluster.add(a_namespace("default", {"team": "red"}))
    assert scored(cluster, incoming())[0] == {"a1": 3, "a2": 3, "b1": 0, "bare": 0}


def test_weights_that_cancel_out_are_not_skipped() -> None:
    cluster = zones(pod("p", {"app": "foo"}, at="a1"))
    both = {**likes(weighted(5)), **dislikes(weighted(5))}
    raw, normal = scored(cluster, incoming(both))
    assert set(raw.values()) == set(normal.values()) == {0}
    cluster = zones(pod("p", at="a1", affinity=both))
    assert plugin_for(cluster).pre_score(CycleState(), incoming(), cluster.nodes) is None


@pytest.mark.parametrize(
    ("objects", "pod_affinity", "args"),
    [
        pytest.param([], likes(weighted(5)), {}, id="no pod matches"),
        pytest.param(
            [pod("p", {"app": "foo"}, at="bare")], likes(weighted(5)), {}, id="no key on its node"
        ),
        pytest.param(
            [pod("p", at="a1", affinity=likes(weighted(3)))],
            None,
            {"ignore_preferred_terms_of_existing_pods": True},
            id="existing pods' terms are ignored and the pod has none of its own",
        ),
        pytest.param(
            [pod("p", at="a1", affinity={"podAffinity": {REQUIRED: [term()]}})],
            None,
            {"hard_pod_affinity_weight": 0},
            id="required terms of existing pods weigh nothing",
        ),
    ],
)
def test_the_score_is_skipped_if_no_term_applies(
    objects: list[Any], pod_affinity: Wire | None, args: Wire
) -> None:
    cluster = zones(*objects)
    status = plugin_for(cluster, **args).pre_score(
        CycleState(), incoming(pod_affinity), cluster.nodes
    )
    assert status == SKIP


def test_with_own_terms_those_of_existing_pods_are_never_ignored() -> None:
    cluster = zones(pod("p", {"app": "foo"}, at="a1", affinity=likes(weighted(3))))
    raw, _ = scored(
        cluster, incoming(likes(weighted(5))), ignore_preferred_terms_of_existing_pods=True
    )
    assert raw == {"a1": 8, "a2": 8, "b1": 0, "bare": 0}


def test_terms_that_do_not_parse_are_an_error() -> None:
    faulty = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}
    incoming_pod = incoming(likes(weighted(5, **faulty)))
    text = 'preferredAffinityTerms: "Near" is not a valid label selector operator'
    for ignores in (False, True):
        plugin = plugin_for(zones(), ignore_preferred_terms_of_existing_pods=ignores)
        status = plugin.pre_score(CycleState(), incoming_pod, zones().nodes)
        assert status == error(f"failed to parse pod: {text}")


def test_scoring_without_pre_score_is_an_error() -> None:
    cluster = zones()
    plugin = plugin_for(cluster)
    text = 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'
    with pytest.raises(StatusError) as raised:
        plugin.score_nodes(CycleState(), incoming(), cluster.nodes)
    assert raised.value.status == error(text)
    with pytest.raises(StatusError) as raised:
        plugin.normalize_scores(CycleState(), incoming(), np.zeros(4, dtype=np.int64))
    assert raised.value.status == error(text)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param(None, "want args to be of type InterPodAffinityArgs, got <nil>", id="none"),
        pytest.param(
            InterPodAffinityArgs(hard_pod_affinity_weight=101),
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
            id="a weight out of range",
        ),
    ],
)
def test_arguments_are_validated(args: object, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        InterPodAffinity(args, zones().handle)


@given(above=st.lists(st.integers(0, 2**40), min_size=1), width=st.integers(0, 2**40))
def test_a_few_scores_are_normalized_like_columns(above: list[int], width: int) -> None:
    assert scaled_one_by_one(above, width) == scaled(np.array(above), width).tolist()
