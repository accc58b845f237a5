"""NodeAffinity: pre-filter, filter, score, the profile's own affinity, hints."""

from typing import Any

import pytest

from kubesched.api.affinity import NodeAffinity as WireNodeAffinity
from kubesched.api.decode import decode_as
from kubesched.config.types import NodeAffinityArgs
from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult
from kubesched.framework.status import SKIP, Code, StatusError, unresolvable
from kubesched.plugins.node_affinity import NodeAffinity
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, made, statuses_of

POD_REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED_REASON = "node(s) didn't match scheduler-enforced node affinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def a_plugin(**added: Any) -> Any:
    affinity = decode_as(WireNodeAffinity, added) if added else None
    return made(NodeAffinity, NodeAffinityArgs(added_affinity=affinity))


def terms(*of_terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelectorTerms": list(of_terms)}


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names: str, operator: str = "In") -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


def wanting(
    required: dict[str, Any] | None = None, preferred: list[Any] | None = None, **spec: Any
) -> Any:
    affinity: dict[str, Any] = {}
    if required is not None:
        affinity[REQUIRED] = required
    if preferred is not None:
        affinity[PREFERRED] = preferred
    return a_pod(affinity={"nodeAffinity": affinity}, **spec)


def a_view() -> Any:
    return a_cluster(
        [
            a_node("a", labels={"zone": "x", "cores": "8"}),
            a_node("b", labels={"zone": "y", "cores": "16"}),
            a_node("c", labels={"cores": "many"}),
        ]
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod(), SKIP, id="no requirement"),
        pytest.param(wanting(preferred=[]), SKIP, id="only preferences"),
        pytest.param(a_pod(nodeSelector={"zone": "x"}), None, id="a node selector"),
        pytest.param(wanting(terms()), None, id="no terms at all"),
        pytest.param(wanting(terms(label("zone", "Exists"))), None, id="no names"),
        pytest.param(
            wanting(terms(named("a"), named("b"))),
            PreFilterResult(frozenset({"a", "b"})),
            id="names of several terms add up",
        ),
        pytest.param(
            wanting(terms(named("a"), label("zone", "Exists"))),
            None,
            id="a term without names opens all",
        ),
        pytest.param(
            wanting(
                terms({"matchFields": named("a", "b")["matchFields"] + named("b")["matchFields"]})
            ),
            PreFilterResult(frozenset({"b"})),
            id="names within a term narrow down",
        ),
        pytest.param(
            wanting(terms({"matchFields": named("a")["matchFields"] + named("b")["matchFields"]})),
            unresolvable("pod affinity terms conflict"),
            id="nothing is left of them",
        ),
        pytest.param(wanting(terms(named("a", operator="NotIn"))), None, id="NotIn names no node"),
    ],
)
def test_pre_filter(pod: Any, expected: Any) -> None:
    assert a_plugin().pre_filter(CycleState(), pod, a_view().all_nodes()) == expected


def test_pre_filter_does_not_skip_for_a_profile_with_its_own_affinity() -> None:
    plugin = a_plugin(**{REQUIRED: terms(label("zone", "Exists"))})
    assert plugin.pre_filter(CycleState(), a_pod(), a_view().all_nodes()) is None


@pytest.mark.parametrize(
    ("pod", "rejected"),
    [
        pytest.param(a_pod(nodeSelector={"zone": "x"}), "bc", id="node selector"),
        pytest.param(wanting(terms(label("zone", "In", "x", "z"))), "bc", id="In"),
        pytest.param(
            wanting(terms(label("zone", "NotIn", "x"))), "a", id="NotIn takes the unlabelled"
        ),
        pytest.param(wanting(terms(label("zone", "Exists"))), "c", id="Exists"),
        pytest.param(wanting(terms(label("zone", "DoesNotExist"))), "ab", id="DoesNotExist"),
        pytest.param(wanting(terms(label("cores", "Gt", "8"))), "ac", id="Gt, and no number never"),
        pytest.param(wanting(terms(label("cores", "Lt", "9"))), "bc", id="Lt"),
        pytest.param(wanting(terms(named("c"))), "ab", id="by name"),
        pytest.param(
            wanting(terms(label("zone", "In", "x"), named("c"))), "b", id="terms are alternatives"
        ),
        pytest.param(wanting(terms()), "abc", id="no terms match nothing"),
        pytest.param(wanting(terms({})), "abc", id="an empty term matches nothing"),
        pytest.param(
            wanting(terms(label("zone", "Near", "x"))), "abc", id="nor one that is malformed"
        ),
        pytest.param(
            wanting(terms(label("zone", "Exists")), nodeSelector={"cores": "8"}),
            "bc",
            id="both must hold",
        ),
    ],
)
def test_filter(pod: Any, rejected: Any) -> None:
    nodes = a_view().all_nodes()
    found = statuses_of(a_plugin().filter_nodes(CycleState(), pod, nodes), nodes.names)
    assert found == {name: unresolvable(POD_REASON) for name in rejected}


def test_the_profile_rejects_before_the_pod() -> None:
    plugin = a_plugin(**{REQUIRED: terms(label("zone", "Exists"))})
    nodes = a_view().all_nodes()
    pod = a_pod(nodeSelector={"zone": "x"})
    found = statuses_of(plugin.filter_nodes(CycleState(), pod, nodes), nodes.names)
    assert found == {"b": unresolvable(POD_REASON), "c": unresolvable(ENFORCED_REASON)}


def preference(weight: int, term: dict[str, Any]) -> dict[str, Any]:
    return {"weight": weight, "preference": term}


def test_weights_of_all_matching_preferences_add_up() -> None:
    plugin = a_plugin(**{PREFERRED: [preference(7, label("cores", "Exists"))]})
    own = [
        preference(20, label("zone", "In", "x")),
        preference(3, label("zone", "Exists")),
        preference(50, {}),
    ]
    pod, state, nodes = wanting(preferred=own), CycleState(), a_view().all_nodes()
    assert plugin.pre_score(state, pod, nodes) is None
    scores = plugin.score_nodes(state, pod, nodes)
    assert scores.tolist() == [30, 10, 7]
    assert plugin.normalize_scores(state, pod, scores).tolist() == [100, 33, 23]


@pytest.mark.parametrize("run_pre_score", [True, False], ids=["pre-score ran", "it is disabled"])
def test_score_does_not_need_pre_score(run_pre_score: Any) -> None:
    pod = wanting(preferred=[preference(5, label("zone", "In", "y"))])
    state, nodes = CycleState(), a_view().all_nodes()
    if run_pre_score:
        a_plugin().pre_score(state, pod, nodes)
    assert a_plugin().score_nodes(state, pod, nodes).tolist() == [0, 5, 0]


def test_without_preferences_the_score_is_skipped() -> None:
    assert a_plugin().pre_score(CycleState(), a_pod(), a_view().all_nodes()) is SKIP


def test_a_malformed_preference_is_an_error() -> None:
    pod = wanting(preferred=[preference(1, label("zone", "Near", "x"))])
    nodes = a_view().all_nodes()
    status = a_plugin().pre_score(CycleState(), pod, nodes)
    assert status.code is Code.ERROR
    assert status.message.startswith(
        '[0].matchExpressions[0].operator: Unsupported value: "Near": supported values: '
    )
    with pytest.raises(StatusError):
        a_plugin().score_nodes(CycleState(), pod, nodes)


ZONE_X = wanting(terms(label("zone", "In", "x")))
MALFORMED = wanting(terms(label("zone", "Near", "x")))


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(ZONE_X, None, "x", QueueingHint.QUEUE, id="a matching node came"),
        pytest.param(ZONE_X, None, "y", QueueingHint.QUEUE_SKIP, id="another came"),
        pytest.param(ZONE_X, "y", "x", QueueingHint.QUEUE, id="it matches now"),
        pytest.param(ZONE_X, "x", "x", QueueingHint.QUEUE_SKIP, id="it matched before"),
        pytest.param(ZONE_X, "x", "y", QueueingHint.QUEUE_SKIP, id="it no longer matches"),
        pytest.param(MALFORMED, "x", "y", QueueingHint.QUEUE, id="an undecidable event queues"),
        pytest.param(
            a_pod(nodeSelector={"zone": "x"}), "y", "x", QueueingHint.QUEUE, id="selector"
        ),
    ],
)
def test_hint_after_a_node_change(pod: Any, old: Any, new: Any, expected: Any) -> None:
    (registration,) = a_plugin().events_to_register()
    before = None if old is None else a_node(labels={"zone": old})
    assert registration.hint(pod, before, a_node(labels={"zone": new})) is expected


def test_hint_uses_the_profiles_affinity() -> None:
    (registration,) = a_plugin(**{REQUIRED: terms(label("pool", "Exists"))}).events_to_register()
    assert registration.hint(ZONE_X, None, a_node(labels={"zone": "x"})) is QueueingHint.QUEUE_SKIP


def test_malformed_arguments_are_rejected_with_the_path() -> None:
    with pytest.raises(
        ValueError, match=r"^addedAffinity\.requiredDuring\S*\.nodeSelectorTerms\[0\]"
    ):
        a_plugin(**{REQUIRED: terms(label("zone", "Near", "x"))})
