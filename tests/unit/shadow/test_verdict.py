"""Comparison of two decisions for one pod, and explanations of differences."""

from typing import Any

import pytest

from kubesched.attempt.request import Search
from kubesched.cache.cache import Cache
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import error, unresolvable, unschedulable
from kubesched.shadow.verdict import ComparedDecision, TheirDecision, compare
from tests.unit.builders import a_profile, a_wire_node, a_wire_pod
from tests.unit.framework.small_plugins import ColumnRejection, PreFilter, Score


def verdict(
    profile: Profile, theirs: str, *, names: tuple[str, ...] = ("n1", "n2", "n3"), message: str = ""
) -> ComparedDecision:
    cache = Cache()
    for name in names:
        cache.add_node(a_wire_node(name))
    outcome = TheirDecision(cache.pod_info(a_wire_pod("p")), theirs, message)
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


def test_without_scores_every_fitting_node_is_a_tie() -> None:
    profile = a_profile(ColumnRejection("F", {"n1": unschedulable("no")}))
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


def test_a_rejected_node_is_explained_by_its_plugin() -> None:
    rejections = {"n1": unschedulable("too small", "too old")}
    profile = a_profile(ColumnRejection("F", rejections), Score("S", {"n2": 1, "n3": 2}))
    found = verdict(profile, "n1")
    assert (found.result, found.ours) == ("different_node", "n3")
    assert found.why == "n1 is rejected by F: too small, too old"


def test_an_unknown_node() -> None:
    found = verdict(a_profile(Score("S", {"n1": 1, "n2": 5, "n3": 2})), "gone")
    assert (found.result, found.why) == ("different_node", "gone is unknown")


def test_a_pod_that_only_kubesched_rejects() -> None:
    rejections = dict.fromkeys(("n1", "n2", "n3"), unschedulable("full"))
    found = verdict(a_profile(ColumnRejection("F", rejections)), "n2")
    assert (found.result, found.ours, found.theirs) == ("we_reject", "", "n2")
    assert found.our_message == "0/3 nodes are available: 3 full."
    assert found.why == ("n2 is rejected by F: full; ours: 0/3 nodes are available: 3 full.")


def test_a_pod_that_only_kubesched_rejects_on_all_nodes() -> None:
    found = verdict(a_profile(PreFilter("P", unresolvable("no claim"))), "n2")
    assert found.result == "we_reject"
    assert found.why.startswith("n2 is rejected by P: no claim; ours: ")


def test_an_error_counts_as_our_rejection() -> None:
    found = verdict(a_profile(PreFilter("P", error("broken"))), "n2")
    assert found.result == "we_reject"
    assert found.our_message == 'running PreFilter plugin "P": broken'


def test_a_pod_that_only_the_other_scheduler_rejects() -> None:
    found = verdict(a_profile(Score("S", {"n1": 1, "n2": 5, "n3": 2})), "", message="0/3: all full")
    assert (found.result, found.ours, found.theirs) == ("they_reject", "n2", "")
    assert found.why == "n2 fits; theirs: 0/3: all full"


@pytest.mark.parametrize(
    ("message", "result"),
    [
        ("0/3 nodes are available: 3 full.", "same"),
        ("0/3 nodes are available: 3 Full.", "text"),
    ],
)
def test_rejections_are_compared_word_for_word(message: str, result: str) -> None:
    rejections = dict.fromkeys(("n1", "n2", "n3"), unschedulable("full"))
    found = verdict(a_profile(ColumnRejection("F", rejections)), "", message=message)
    assert found.result == result
    if result == "text":
        ours = "0/3 nodes are available: 3 full."
        assert (found.their_message, found.our_message) == (message, ours)
        assert found.why == f"theirs: {message}; ours: {ours}"


def among(count: int, **scores: int) -> tuple[Any, tuple[str, ...]]:
    """Return a profile that scores nodes 1, and some of them higher."""
    names = tuple(f"n{number}" for number in range(count))
    return a_profile(Score("S", dict.fromkeys(names, 1) | scores)), names


def test_the_best_node_of_a_possible_sample_is_a_tie() -> None:
    # A sample has 100 of 200 nodes: a search that starts after n50 does not reach it.
    profile, names = among(200, n50=9)
    found = verdict(profile, "n120", names=names)
    assert found.result == "tie"
    assert found.why.endswith("theirs may be the best node of a sample of the 200 nodes")


def test_a_node_that_no_sample_prefers_is_a_difference() -> None:
    profile, names = among(200, n50=9, n149=9)
    assert verdict(profile, "n120", names=names).result == "different_node"
    profile, names = among(200, n50=9, n151=9)
    assert verdict(profile, "n120", names=names).result == "tie"


def test_samples_wrap_around() -> None:
    profile, names = among(200, n30=9, n180=9)
    assert verdict(profile, "n10", names=names).result == "different_node"
    assert verdict(profile, "n100", names=names).result == "tie"
