"""Postings exclude only label classes and term sets that cannot match."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.label_selectors import MATCH_NOTHING, Operator, Requirement, Selector
from kubesched.snapshot.affinity_terms import AffinityTerm, TermSet
from kubesched.snapshot.interning import Interner
from kubesched.snapshot.pod_columns import LabelClass
from kubesched.snapshot.term_index import ClassPostings, TermPostings

KEYS = st.sampled_from(["app", "tier"])
VALUES = st.sampled_from(["x", "y", "z"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=2)
REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: Requirement(key, operator, tuple(values)),
        KEYS,
        st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EQUALS]),
        st.lists(VALUES, min_size=1, max_size=2, unique=True),
    ),
    st.builds(Requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
)
SELECTORS = st.one_of(
    st.just(MATCH_NOTHING),
    st.builds(
        lambda requirements: Selector(tuple(requirements)), st.lists(REQUIREMENTS, max_size=2)
    ),
)


@given(first=st.lists(LABELS), then=st.lists(LABELS), selectors=st.lists(SELECTORS, max_size=4))
def test_every_matching_label_class_is_a_candidate(
    first: list[dict[str, str]], then: list[dict[str, str]], selectors: list[Selector]
) -> None:
    classes: Interner[LabelClass] = Interner()
    postings = ClassPostings(classes)
    for more in (first, then):
        for labels in more:
            classes.intern(LabelClass("default", tuple(sorted(labels.items()))))
        for selector in selectors:
            candidates = set(postings.candidates(selector))
            for place, label_class in enumerate(classes):
                assert place in candidates or not selector.matches(label_class.labels)


def test_a_label_class_without_the_required_value_is_no_candidate() -> None:
    classes: Interner[LabelClass] = Interner()
    for value in ("x", "y", "z"):
        classes.intern(LabelClass("default", (("app", value),)))
    selector = Selector((Requirement("app", Operator.IN, ("z", "x")),))
    assert sorted(ClassPostings(classes).candidates(selector)) == [0, 2]
    assert list(ClassPostings(classes).candidates(MATCH_NOTHING)) == []


def term(selector: Selector) -> AffinityTerm:
    return AffinityTerm(frozenset({"default"}), selector, "zone", MATCH_NOTHING)


@given(
    first=st.lists(st.tuples(st.integers(0, 3), SELECTORS)),
    then=st.lists(st.tuples(st.integers(0, 3), SELECTORS)),
    labels=LABELS,
)
def test_every_matching_term_set_is_a_candidate(
    first: list[tuple[int, Selector]], then: list[tuple[int, Selector]], labels: dict[str, str]
) -> None:
    term_sets: Interner[TermSet] = Interner()
    postings = TermPostings(term_sets)
    for more in (first, then):
        for role, selector in more:
            roles: list[Any] = [(), (), (), ()]
            roles[role] = (term(selector),)
            term_sets.intern(TermSet(*roles))
        candidates = postings.candidates(labels)
        assert candidates == sorted(set(candidates))
        for place, term_set in enumerate(term_sets):
            terms = (
                *term_set.required_affinity,
                *term_set.required_anti_affinity,
                *term_set.preferred_affinity,
                *term_set.preferred_anti_affinity,
            )
            if any(term.matches("default", labels, {}) for term in terms):
                assert place in candidates
        assert postings.has_required_affinity == any(t.required_affinity for t in term_sets)
        assert postings.has_required_anti_affinity == any(
            t.required_anti_affinity for t in term_sets
        )
        assert postings.has_preferred == any(
            t.preferred_affinity or t.preferred_anti_affinity for t in term_sets
        )
