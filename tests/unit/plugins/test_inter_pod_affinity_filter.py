"""InterPodAffinity rejects nodes that violate a required term, of the pod or of existing pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.config.types import InterPodAffinityArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable
from tests.unit.plugins.builders import statuses_of
from tests.unit.plugins.growing_cluster import (
    GrowingCluster,
    Wire,
    a_namespace,
    in_words,
    node,
    pod,
)

FAR = "UU node(s) didn't match pod affinity rules"
NEAR = "U node(s) didn't match pod anti-affinity rules"
UNWANTED = "U node(s) didn't satisfy existing pods anti-affinity rules"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(key: str = "zone", *, app: str = "foo", **more: Any) -> Wire:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def affinity(*terms: Wire) -> Wire:
    return {"podAffinity": {REQUIRED: list(terms)}}


def anti_affinity(*terms: Wire) -> Wire:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def incoming(pod_affinity: Wire | None = None, *, app: str = "foo", **more: Any) -> PodInfo:
    return pod("incoming", {"app": app}, affinity=pod_affinity or {}, **more)


def plugin_for(cluster: GrowingCluster) -> InterPodAffinity:
    return InterPodAffinity(InterPodAffinityArgs(), cluster.handle)


def rejected(
    plugin: InterPodAffinity, state: CycleState, incoming_pod: PodInfo, nodes: NodeTable
) -> dict[str, Status]:
    return statuses_of(plugin.filter_nodes(state, incoming_pod, nodes), nodes.names)


def judged(cluster: GrowingCluster, incoming_pod: PodInfo) -> dict[str, str]:
    plugin, state = plugin_for(cluster), CycleState()
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    return in_words(rejected(plugin, state, incoming_pod, cluster.nodes))


def zones(*objects: Any) -> GrowingCluster:
    """Nodes a1 and a2 in zone a, b1 in zone b, and one in none."""
    return GrowingCluster(
        node("a1", {"zone": "a", "host": "a1"}),
        node("a2", {"zone": "a", "host": "a2"}),
        node("b1", {"zone": "b", "host": "b1"}),
        node("bare"),
        *objects,
    )


def foo(name: str, at: str, **more: Any) -> PodInfo:
    return pod(name, {"app": "foo"}, at=at, **more)


# -- affinity -------------------------------------------------------------------------------------


def test_affinity_requires_a_matching_pod_in_the_domain() -> None:
    assert judged(zones(foo("p", "a1")), incoming(affinity(term()))) == {"b1": FAR, "bare": FAR}


def test_a_terminating_pod_still_attracts() -> None:
    cluster = zones(foo("p", "a1", terminating=True))
    assert judged(cluster, incoming(affinity(term()))) == {"b1": FAR, "bare": FAR}


def test_one_pod_must_match_all_terms() -> None:
    cluster = zones(foo("p", "a1"), pod("q", {"tier": "web"}, at="a2"))
    tier = term("host", labelSelector={"matchLabels": {"tier": "web"}})
    incoming_pod = incoming(affinity(term(), tier))
    assert set(judged(cluster, incoming_pod).values()) == {FAR}
    cluster.add(pod("r", {"app": "foo", "tier": "web"}, at="a2"))
    assert judged(cluster, incoming_pod) == {"a1": FAR, "b1": FAR, "bare": FAR}


def test_the_first_pod_of_a_series_fits_where_all_keys_exist() -> None:
    assert judged(zones(), incoming(affinity(term()))) == {"bare": FAR}
    assert judged(zones(), incoming(affinity(term()), app="other")) == {
        "a1": FAR,
        "a2": FAR,
        "b1": FAR,
        "bare": FAR,
    }


def test_a_matching_pod_on_an_unlabelled_node_does_not_end_the_exception() -> None:
    assert judged(zones(foo("p", "bare")), incoming(affinity(term()))) == {"bare": FAR}


def test_a_pod_of_a_deleted_node_counts_nowhere() -> None:
    cluster = zones(foo("p", "a1"), foo("q", "b1"))
    cluster.remove_node("a1")
    assert judged(cluster, incoming(affinity(term()))) == {"a2": FAR, "bare": FAR}


# -- anti-affinity --------------------------------------------------------------------------------


def test_anti_affinity_rejects_the_domain_of_a_matching_pod() -> None:
    assert judged(zones(foo("p", "a1")), incoming(anti_affinity(term()))) == {
        "a1": NEAR,
        "a2": NEAR,
    }


def test_each_anti_term_counts_by_itself() -> None:
    cluster = zones(foo("p", "a1"), pod("q", {"app": "bar"}, at="b1"))
    incoming_pod = incoming(anti_affinity(term("host"), term(app="bar")))
    assert judged(cluster, incoming_pod) == {"a1": NEAR, "b1": NEAR}


def test_existing_pods_keep_others_away() -> None:
    cluster = zones(pod("p", {"app": "bar"}, at="a1", affinity=anti_affinity(term())))
    assert judged(cluster, incoming()) == {"a1": UNWANTED, "a2": UNWANTED}
    status = plugin_for(cluster).pre_filter(CycleState(), incoming(app="x"), cluster.nodes)
    assert status == SKIP


def test_own_affinity_is_reported_before_own_anti_affinity_and_that_before_others() -> None:
    cluster = zones(foo("p", "a1", affinity=anti_affinity(term())))
    both = {**affinity(term(app="none")), **anti_affinity(term())}
    assert set(judged(cluster, incoming(both)).values()) == {FAR}
    assert judged(cluster, incoming(anti_affinity(term()))) == {"a1": NEAR, "a2": NEAR}


# -- namespaces -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "met"),
    [
        pytest.param({}, ["own"], id="no list and no selector: the pod's own"),
        pytest.param({"namespaces": ["blue"]}, ["blue"], id="a list replaces the own"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "red"}}}, ["red"], id="a selector"
        ),
        pytest.param(
            {"namespaces": ["blue"], "namespaceSelector": {"matchLabels": {"team": "red"}}},
            ["blue", "red"],
            id="a list and a selector add up",
        ),
        pytest.param(
            {"namespaceSelector": {}}, ["blue", "own", "red"], id="an empty selector means all"
        ),
        pytest.param(
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]
                }
            },
            ["blue", "own", "red"],
            id="a selector that no labels satisfy means all, as upstream has it",
        ),
    ],
)
def test_namespaces_of_own_terms(scope: Wire, met: list[str]) -> None:
    cluster = zones(
        a_namespace("default", {}),
        a_namespace("red", {"team": "red"}),
        a_namespace("blue", {"team": "blue"}),
    )
    places = {"own": "default", "red": "red", "blue": "blue"}
    found = []
    for word, namespace in sorted(places.items()):
        cluster.add(pod(word, {"app": "foo"}, namespace=namespace, at="a1"))
        if "a1" in judged(cluster, incoming(anti_affinity(term(**scope)))):
            found.append(word)
        cluster = zones(
            a_namespace("default", {}),
            a_namespace("red", {"team": "red"}),
            a_namespace("blue", {"team": "blue"}),
        )
    assert found == met


@pytest.mark.parametrize(
    ("labels", "meant"),
    [
        pytest.param({"team": "red"}, True, id="the pod's namespace is selected"),
        pytest.param({"team": "blue"}, False, id="the pod's namespace is not selected"),
        pytest.param(None, False, id="the pod's namespace is not known"),
    ],
)
def test_namespaces_of_existing_pods_terms(labels: dict[str, str] | None, meant: bool) -> None:
    scope: Wire = {"namespaceSelector": {"matchLabels": {"team": "red"}}}
    cluster = zones(
        pod("p", at="a1", namespace="other", affinity=anti_affinity(term("host", **scope)))
    )
    if labels is not None:
        cluster.add(a_namespace("default", labels))
    plugin, state = plugin_for(cluster), CycleState()
    status = plugin.pre_filter(state, incoming(), cluster.nodes)
    assert (status is None) == meant
    if meant:
        assert list(rejected(plugin, state, incoming(), cluster.nodes)) == ["a1"]


# -- edges ----------------------------------------------------------------------------------------


def test_a_pod_without_relevant_required_terms_skips_the_filter() -> None:
    cluster = zones(foo("p", "bare", affinity=anti_affinity(term())))
    assert plugin_for(cluster).pre_filter(CycleState(), incoming(), cluster.nodes) == SKIP


def test_terms_that_do_not_parse_reject_the_pod() -> None:
    faulty = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    both = {
        **affinity(term(labelSelector=faulty)),
        **anti_affinity(term(namespaceSelector=faulty)),
    }
    wrong = '"Near" is not a valid label selector operator'
    cluster = zones()
    plugin = plugin_for(cluster)
    faulty_affinity = incoming(affinity(term(labelSelector=faulty)))
    assert plugin.pre_filter(CycleState(), faulty_affinity, cluster.nodes) == unresolvable(
        f"parsing pod: requiredAffinityTerms: {wrong}"
    )
    assert plugin.pre_filter(CycleState(), incoming(both), cluster.nodes) == unresolvable(
        f"parsing pod: [requiredAffinityTerms: {wrong}, requiredAntiAffinityTerms: {wrong}]"
    )


def test_the_filter_without_its_pre_filter_is_an_error_on_every_node() -> None:
    cluster = zones()
    found = rejected(plugin_for(cluster), CycleState(), incoming(), cluster.nodes)
    text = 'error reading "PreFilterInterPodAffinity" from cycleState: not found'
    assert found == dict.fromkeys(["a1", "a2", "b1", "bare"], error(text))


# -- trials ---------------------------------------------------------------------------------------


def test_each_row_of_a_trial_has_only_its_own_change() -> None:
    cluster = zones(foo("p", "a1"), foo("q", "b1"))
    plugin, state, incoming_pod = plugin_for(cluster), CycleState(), incoming(anti_affinity(term()))
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    trial_state, trial = state.clone(), cluster.trial("a1", "a2", "b1")
    removed = trial.remove(cluster.indices("p", None, "q"))
    assert plugin.remove_pods(trial_state, incoming_pod, removed, trial.nodes) is None
    # Removing p frees zone a on the row of that change, and on no other.
    assert in_words(rejected(plugin, trial_state, incoming_pod, trial.nodes)) == {"a2": NEAR}
    added = trial.add(cluster.indices(None, None, "p"))
    assert plugin.add_pods(trial_state, incoming_pod, added, trial.nodes) is None
    assert in_words(rejected(plugin, trial_state, incoming_pod, trial.nodes)) == {
        "a2": NEAR,
        "b1": NEAR,
    }
    assert sorted(rejected(plugin, state, incoming_pod, cluster.nodes)) == ["a1", "a2", "b1"]


def test_a_series_may_start_again_after_its_last_match_is_removed() -> None:
    cluster = zones(foo("p", "a1"))
    plugin, state, incoming_pod = plugin_for(cluster), CycleState(), incoming(affinity(term()))
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    trial = cluster.trial("a1", "b1")
    assert in_words(rejected(plugin, state, incoming_pod, trial.nodes)) == {"b1": FAR}
    removed = trial.remove(cluster.indices("p", None))
    plugin.remove_pods(state, incoming_pod, removed, trial.nodes)
    assert in_words(rejected(plugin, state, incoming_pod, trial.nodes)) == {"b1": FAR}
    added = trial.add(cluster.indices(None, "p"))
    plugin.add_pods(state, incoming_pod, added, trial.nodes)
    assert rejected(plugin, state, incoming_pod, trial.nodes) == {}


def test_the_anti_affinity_of_a_nominated_pod_with_another_key_counts() -> None:
    cluster = zones(
        foo("p", "a1", affinity=anti_affinity(term())),
        pod("n", nominated="b1", affinity=anti_affinity(term("host"))),
    )
    plugin, state, incoming_pod = plugin_for(cluster), CycleState(), incoming()
    assert plugin.pre_filter(state, incoming_pod, cluster.nodes) is None
    trial = cluster.trial("b1", "bare")
    added = trial.add(cluster.indices("n", "n"))
    plugin.add_pods(state, incoming_pod, added, trial.nodes)
    assert in_words(rejected(plugin, state, incoming_pod, trial.nodes)) == {"b1": UNWANTED}


LABELS = [{"app": "foo"}, {"app": "bar"}, {"app": "foo", "tier": "web"}]
TERMS = [
    term(),
    term("host"),
    term(app="bar"),
    term("host", labelSelector={"matchLabels": {"tier": "web"}}),
]
A_TERM_LIST = st.lists(st.sampled_from(TERMS), max_size=2)
A_POD = st.tuples(st.sampled_from(LABELS), A_TERM_LIST)


@given(
    incoming_spec=st.tuples(st.sampled_from(LABELS), A_TERM_LIST, A_TERM_LIST),
    placed=st.lists(st.tuples(A_POD, st.sampled_from(["a1", "a2", "b1", "bare"])), max_size=6),
    coming=st.lists(A_POD, max_size=3),
    row=st.sampled_from(["a1", "a2", "b1", "bare"]),
    leaving=st.integers(0, 6),
)
def test_a_trial_equals_the_cluster_after_the_same_changes(
    incoming_spec: Any, placed: Any, coming: Any, row: str, leaving: int
) -> None:
    labels, near, far = incoming_spec
    incoming_pod = pod("incoming", labels, affinity={**affinity(*near), **anti_affinity(*far)})
    cluster = zones(
        *(
            pod(f"p{i}", own, at=at, affinity=anti_affinity(*terms))
            for i, ((own, terms), at) in enumerate(placed)
        ),
        *(
            pod(f"c{i}", own, nominated=row, affinity=anti_affinity(*terms))
            for i, (own, terms) in enumerate(coming)
        ),
    )
    plugin, state = plugin_for(cluster), CycleState()
    if plugin.pre_filter(state, incoming_pod, cluster.nodes) == SKIP:
        return
    trial = cluster.trial(row)
    removed_names = [f"p{i}" for i, (_, at) in enumerate(placed) if at == row][:leaving]
    for name in removed_names:
        removed = trial.remove(cluster.indices(name))
        plugin.remove_pods(state, incoming_pod, removed, trial.nodes)
    for i in range(len(coming)):
        added = trial.add(cluster.indices(f"c{i}"))
        plugin.add_pods(state, incoming_pod, added, trial.nodes)
    in_trial = rejected(plugin, state, incoming_pod, trial.nodes)
    for name in removed_names:
        cluster.remove_pod(name)
    for i, (own, terms) in enumerate(coming):
        cluster.add(pod(f"new{i}", own, at=row, affinity=anti_affinity(*terms)))
    cluster_state = CycleState()
    if plugin.pre_filter(cluster_state, incoming_pod, cluster.nodes) == SKIP:
        assert in_trial == {}
    else:
        assert in_trial == rejected(plugin, cluster_state, incoming_pod, cluster.table(row))
