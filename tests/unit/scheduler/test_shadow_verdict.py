"""One pod decided twice: what counts as the same, and how differences are explained."""

from typing import Any

import pytest

from kubesched.cache.cache import Cache
from kubesched.engine.search import Search
from kubesched.framework.profile import Profile
from kubesched.framework.status import error, unresolvable, unschedulable
from kubesched.scheduler.shadow_verdict import Outcome, Verdict, compare
from tests.unit.builders import a_profile, a_wire_node, a_wire_pod
from tests.unit.framework.small_plugins import ColumnRefusal, PreFilter, Score


def verdict(
    profile: Profile, theirs: str, *, names: tuple[str, ...] = ("n1", "n2", "n3"), message: str = ""
) -> Verdict:
    cache = Cache()
    for name in names:
        cache.add_node(a_wire_node(name))
    outcome = Outcome(cache.pod_info(a_wire_pod("p")), theirs, message)
    return compare(profile, cache.snapshot(), outcome, Search())


def test_the_best_node_is_the_same() -> None:
    found = verdict(a_profile(Score("S", {"n1": 1, "n2": 5, "n3": 2})), "n2")
    assert (found.result, found.ours, found.agrees, found.why) == ("same", "n2", True, "")
    assert (found.pod, found.theirs) == ("default/p", "n2")


def test_a_node_of_the_same_total_is_a_tie() -> None:
    profile = a_profile(Score("S", {"n1": 1, "n2": 5, "n3": 5}))
    results = {verdict(profile, name).result for name in ("n2", "n3")}
    assert results == {"same", "tie"}
    assert verdict(profile, "n3").agrees


def test_without_scores_every_fitting_node_is_as_good() -> None:
    profile = a_profile(ColumnRefusal("F", {"n1": unschedulable("no")}))
    assert {verdict(profile, name).result for name in ("n2", "n3")} == {"same", "tie"}
    assert verdict(profile, "n1").result == "different_node"


def test_another_node_is_explained_plugin_by_plugin() -> None:
    profile = a_profile(
        Score("A", {"n1": 10, "n2": 50, "n3": 0}), Score("B", {"n1": 4, "n2": 1, "n3": 0})
    )
    found = verdict(profile, "n1")
    assert (found.result, found.ours) == ("different_node", "n2")
    assert (found.our_total, found.their_total) == (51, 14)
    assert dict(found.points) == {"A": 40, "B": -3}
    assert found.why == "n2 has 51 points, n1 has 14: A +40, B -3"
    assert not found.agrees


def test_a_node_that_does_not_fit_is_explained_by_who_refuses_it() -> None:
    refusals = {"n1": unschedulable("too small", "too old")}
    profile = a_profile(ColumnRefusal("F", refusals), Score("S", {"n2": 1, "n3": 2}))
    found = verdict(profile, "n1")
    assert (found.result, found.ours) == ("different_node", "n3")
    assert found.why == "n1 would have been refused by F: too small, too old"


def test_a_node_nobody_knows() -> None:
    found = verdict(a_profile(Score("S", {"n1": 1, "n2": 5, "n3": 2})), "gone")
    assert (found.result, found.why) == ("different_node", "gone is no node that is known")


def test_a_pod_that_fits_nowhere_in_our_eyes() -> None:
    refusals = dict.fromkeys(("n1", "n2", "n3"), unschedulable("full"))
    found = verdict(a_profile(ColumnRefusal("F", refusals)), "n2")
    assert (found.result, found.ours, found.theirs) == ("we_refuse", "", "n2")
    assert found.our_message == "0/3 nodes are available: 3 full."
    assert found.why == (
        "n2 would have been refused by F: full; we say: 0/3 nodes are available: 3 full."
    )


def test_a_pod_that_is_refused_as_a_whole_in_our_eyes() -> None:
    found = verdict(a_profile(PreFilter("P", unresolvable("no claim"))), "n2")
    assert found.result == "we_refuse"
    assert found.why.startswith("n2 would have been refused by P: no claim; we say: ")


def test_an_error_of_ours_is_a_refusal_of_ours() -> None:
    found = verdict(a_profile(PreFilter("P", error("broken"))), "n2")
    assert found.result == "we_refuse"
    assert found.our_message == 'running PreFilter plugin "P": broken'


def test_a_pod_that_only_they_refuse() -> None:
    found = verdict(a_profile(Score("S", {"n1": 1, "n2": 5, "n3": 2})), "", message="0/3: all full")
    assert (found.result, found.ours, found.theirs) == ("they_refuse", "n2", "")
    assert found.why == "n2 fits; they say: 0/3: all full"


@pytest.mark.parametrize(
    ("message", "result"),
    [
        ("0/3 nodes are available: 3 full.", "same"),
        ("0/3 nodes are available: 3 Full.", "text"),
    ],
)
def test_refusals_are_compared_word_for_word(message: str, result: str) -> None:
    refusals = dict.fromkeys(("n1", "n2", "n3"), unschedulable("full"))
    found = verdict(a_profile(ColumnRefusal("F", refusals)), "", message=message)
    assert found.result == result
    if result == "text":
        ours = "0/3 nodes are available: 3 full."
        assert (found.their_message, found.our_message) == (message, ours)
        assert found.why == f"they say: {message}; we say: {ours}"


def among(count: int, **scores: int) -> tuple[Any, tuple[str, ...]]:
    """Return a profile over so many nodes of 1 point, and of more where told."""
    names = tuple(f"n{number}" for number in range(count))
    return a_profile(Score("S", dict.fromkeys(names, 1) | scores)), names


def test_where_few_nodes_are_looked_at_the_best_among_neighbours_is_as_good() -> None:
    # Of 200 nodes 100 are wanted: a search that begins behind n50 never meets it.
    profile, names = among(200, n50=9)
    found = verdict(profile, "n120", names=names)
    assert found.result == "tie"
    assert found.why.endswith("only a part is looked at, where theirs may be best")


def test_where_better_neighbours_are_met_in_any_case_there_is_a_difference() -> None:
    profile, names = among(200, n50=9, n149=9)
    assert verdict(profile, "n120", names=names).result == "different_node"
    profile, names = among(200, n50=9, n151=9)
    assert verdict(profile, "n120", names=names).result == "tie"


def test_around_the_ring() -> None:
    profile, names = among(200, n30=9, n180=9)
    assert verdict(profile, "n10", names=names).result == "different_node"
    assert verdict(profile, "n100", names=names).result == "tie"
