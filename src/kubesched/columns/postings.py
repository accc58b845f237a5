"""Which label classes can match a selector at all, without asking each of them.

Owns lists of label classes by the value of a key, made for the keys that selectors ask for. Never
decides a match: it only leaves out what cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.columns.interning import Interner
from kubesched.columns.pod_columns import LabelClass
from kubesched.objects.selectors import Operator, Requirement, Selector


def demanded_values(selector: Selector) -> Requirement | None:
    """Return a requirement that lists the values one key must have; the shortest such list."""
    listing = [
        requirement
        for requirement in selector.requirements
        if requirement.operator is Operator.EQUALS or requirement.operator is Operator.IN
    ]
    return min(listing, key=lambda requirement: len(requirement.values), default=None)


class ClassPostings:
    """Label classes by value, for each key that was asked for."""

    __slots__ = ("_by_key", "_classes", "_known")

    def __init__(self, classes: Interner[LabelClass]) -> None:
        self._classes = classes
        self._by_key: dict[str, dict[str, list[int]]] = {}
        self._known = 0

    def candidates(self, selector: Selector) -> Sequence[int]:
        """Return the ids of all classes the selector may match, and of some it does not."""
        self._follow()
        if not selector.selectable:
            return ()
        shortest: Sequence[int] | None = None
        for requirement in selector.requirements:
            if requirement.operator is Operator.EQUALS or requirement.operator is Operator.IN:
                found = self._with_values(requirement)
                if shortest is None or len(found) < len(shortest):
                    shortest = found
        return range(self._known) if shortest is None else shortest

    def _with_values(self, requirement: Requirement) -> Sequence[int]:
        by_value = self._by_key.get(requirement.key)
        if by_value is None:
            by_value = self._by_key[requirement.key] = {}
            self._post(requirement.key, by_value, 0)
        if len(requirement.values) == 1:
            return by_value.get(requirement.values[0], ())
        return [place for value in requirement.values for place in by_value.get(value, ())]

    def _follow(self) -> None:
        if self._known < len(self._classes):
            begin, self._known = self._known, len(self._classes)
            for key, by_value in self._by_key.items():
                self._post(key, by_value, begin)

    def _post(self, key: str, by_value: dict[str, list[int]], begin: int) -> None:
        for place in range(begin, self._known):
            for label, value in self._classes.values[place].items:
                if label == key:
                    by_value.setdefault(value, []).append(place)
