"""Inverted indexes for pod affinity: candidates of a selector, and of a pod's labels.

`ClassPostings` lists label classes by label value, `TermPostings` term sets by a required label.
They only exclude what cannot match; whether a candidate matches is for the caller to check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubesched.api.label_selectors import Operator, Requirement, Selector
from kubesched.snapshot.affinity_terms import TermSet
from kubesched.snapshot.interning import Interner
from kubesched.snapshot.pod_columns import LabelClass


def _lists_values(requirement: Requirement) -> bool:
    return requirement.operator is Operator.EQUALS or requirement.operator is Operator.IN


class ClassPostings:
    """Label classes by label value, for each key that a selector has used."""

    def __init__(self, classes: Interner[LabelClass]) -> None:
        self._classes = classes
        self._by_key: dict[str, dict[str, list[int]]] = {}
        self._known = 0

    def candidates(self, selector: Selector) -> Sequence[int]:
        """Return the ids of all classes that the selector may match."""
        self._follow()
        if not selector.selectable:
            return ()
        shortest: Sequence[int] | None = None
        for requirement in selector.requirements:
            if _lists_values(requirement):
                classes = self._with_values(requirement)
                if shortest is None or len(classes) < len(shortest):
                    shortest = classes
        return range(self._known) if shortest is None else shortest

    def _with_values(self, requirement: Requirement) -> Sequence[int]:
        by_value = self._by_key.get(requirement.key)
        if by_value is None:
            by_value = self._by_key[requirement.key] = {}
            self._post(requirement.key, by_value, 0)
        if len(requirement.values) == 1:
            return by_value.get(requirement.values[0], ())
        return [set_id for value in requirement.values for set_id in by_value.get(value, ())]

    def _follow(self) -> None:
        if self._known < len(self._classes):
            begin, self._known = self._known, len(self._classes)
            for key, by_value in self._by_key.items():
                self._post(key, by_value, begin)

    def _post(self, key: str, by_value: dict[str, list[int]], begin: int) -> None:
        for set_id in range(begin, self._known):
            for label, value in self._classes.values[set_id].items:
                if label == key:
                    by_value.setdefault(value, []).append(set_id)


class TermPostings:
    """Term sets by a label that one of their terms requires, and which roles occur at all."""

    def __init__(self, term_sets: Interner[TermSet]) -> None:
        self._term_sets = term_sets
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._anywhere: list[int] = []
        self._known = 0
        self.has_preferred = self.has_required_affinity = self.has_required_anti_affinity = False

    def follow(self) -> TermPostings:
        """Add new term sets."""
        count = len(self._term_sets.values)
        while self._known < count:
            self._post(self._known, self._term_sets.values[self._known])
            self._known += 1
        return self

    def candidates(self, labels: Mapping[str, str]) -> list[int]:
        """Return the ids of all term sets that may match a pod with these labels, in order."""
        self.follow()
        term_sets = set(self._anywhere)
        for label in labels.items():
            term_sets.update(self._by_label.get(label, ()))
        return sorted(term_sets)

    def _post(self, set_id: int, term_set: TermSet) -> None:
        preferred = (*term_set.preferred_affinity, *term_set.preferred_anti_affinity)
        self.has_preferred |= bool(preferred)
        self.has_required_affinity |= bool(term_set.required_affinity)
        self.has_required_anti_affinity |= bool(term_set.required_anti_affinity)
        for term in (*term_set.required_affinity, *term_set.required_anti_affinity, *preferred):
            required_label = next(filter(_lists_values, term.selector.requirements), None)
            if required_label is None:
                self._anywhere.append(set_id)
            else:
                for value in required_label.values:
                    self._by_label.setdefault((required_label.key, value), []).append(set_id)
