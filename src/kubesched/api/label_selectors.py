"""Label selectors: compiled once, matched often.

Upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kubesched.api.field_errors import (
    aggregate_text,
    child,
    invalid,
    label_key_errors,
    label_value_errors,
)
from kubesched.api.meta import LabelSelector
from kubesched.golang.strconv import go_quote

INT64_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?0*[0-9]{1,19}")


class Operator(StrEnum):
    """The operator of a requirement, with upstream's text.

    Upstream's "==" is missing: it occurs only in selectors written as text.
    """

    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_SIGNS: Final = {
    Operator.EQUALS: "=", Operator.NOT_EQUALS: "!=",
    Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<",
}  # fmt: skip
_LABEL_OPERATORS: Final = {
    "In": Operator.IN, "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS, "DoesNotExist": Operator.DOES_NOT_EXIST,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match."""
        # Parity: selector.go Requirement.Matches, v1.36
        # Compared by identity: hashing an enum member is a Python call, and this is a hot path.
        operator, value = self.operator, labels.get(self.key)
        if operator is Operator.EQUALS or operator is Operator.IN:
            return value is not None and value in self.values
        if operator is Operator.NOT_IN or operator is Operator.NOT_EQUALS:
            return value is None or value not in self.values
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        bound = parse_int64(self.values[0]) if len(self.values) == 1 else None
        number = parse_int64(value)
        if bound is None or number is None:
            return False
        return number > bound if self.operator is Operator.GREATER_THAN else number < bound

    def __str__(self) -> str:
        """Return upstream's text of the requirement."""
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        values = ",".join(sorted(self.values))
        if self.operator in _SIGNS:
            return f"{self.key}{_SIGNS[self.operator]}{values}"
        return f"{self.key} {self.operator} ({values})"


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all match, sorted by key; without any, everything matches.

    With `selectable` false it matches nothing, regardless of the requirements.
    """

    requirements: tuple[Requirement, ...] = ()
    selectable: bool = True

    @property
    def is_empty(self) -> bool:
        """Return whether everything matches."""
        return self.selectable and not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match."""
        return self.selectable and all(
            requirement.matches(labels) for requirement in self.requirements
        )

    def with_requirements(self, *more: Requirement) -> "Selector":
        """Return a selector with additional requirements."""
        return sorted_selector([*self.requirements, *more]) if self.selectable else self

    def __str__(self) -> str:
        """Return upstream's text of the selector."""
        return ",".join(map(str, self.requirements)) if self.selectable else ""


MATCH_EVERYTHING: Final = Selector()
MATCH_NOTHING: Final = Selector(selectable=False)


def label_selector(selector: LabelSelector | None) -> Selector:
    """Compile a wire selector, or raise ValueError with upstream's text.

    None matches nothing, an empty selector everything.
    """
    # Parity: helpers.go LabelSelectorAsSelector, v1.36. Upstream visits matchLabels in map order,
    # so which of several errors it reports is open; here the keys are sorted.
    if selector is None:
        return MATCH_NOTHING
    requirements = [
        new_requirement(key, Operator.EQUALS, (value,))
        for key, value in sorted(selector.match_labels.items())
    ]
    for expression in selector.match_expressions:
        operator = _LABEL_OPERATORS.get(expression.operator)
        if operator is None:
            quoted = go_quote(expression.operator)
            raise ValueError(f"{quoted} is not a valid label selector operator")
        requirements.append(new_requirement(expression.key, operator, tuple(expression.values)))
    return sorted_selector(requirements)


def selector_from_set(labels: Mapping[str, str]) -> Selector:
    """Compile labels that must all match; nothing is validated, as upstream."""
    return sorted_selector(
        [Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items()]
    )


def new_requirement(key: str, operator: Operator, values: tuple[str, ...]) -> Requirement:
    """Return a valid requirement, or raise ValueError with upstream's text."""
    errors = requirement_errors(key, operator, values or None, "")
    if errors:
        raise ValueError(aggregate_text(errors))
    return Requirement(key, operator, values)


def requirement_errors(
    key: str, operator: Operator, values: Sequence[str] | None, path: str
) -> list[str]:
    """Return the errors of a requirement, each once; None is a nil list."""
    # Parity: selector.go NewRequirement, v1.36
    errors: list[str] = []
    key_errors = label_key_errors(key)
    if key_errors:
        errors.append(invalid(child(path, "key"), key, "; ".join(key_errors)))
    value_path = child(path, "values")
    errors.extend(_value_count_errors(operator, values, value_path))
    for index, value in enumerate(values or ()):
        value_errors = label_value_errors(value)
        if value_errors:
            where = f"{value_path}[{index}][{key}]"
            errors.append(invalid(where, value, "; ".join(value_errors)))
    return list(dict.fromkeys(errors))


def _value_count_errors(operator: Operator, values: Sequence[str] | None, path: str) -> list[str]:
    count = len(values or ())
    if operator in {Operator.IN, Operator.NOT_IN}:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        return [invalid(path, values, detail)] if count == 0 else []
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST}:
        detail = "values set must be empty for exists and does not exist"
        return [invalid(path, values, detail)] if count else []
    if operator in _SIGNS and operator not in {Operator.GREATER_THAN, Operator.LESS_THAN}:
        detail = "exact-match compatibility requires one single value"
        return [invalid(path, values, detail)] if count != 1 else []
    errors: list[str] = []
    if count != 1:
        detail = "for 'Gt', 'Lt' operators, exactly one value is required"
        errors.append(invalid(path, values, detail))
    detail = "for 'Gt', 'Lt' operators, the value must be an integer"
    errors.extend(
        invalid(f"{path}[{index}]", value, detail)
        for index, value in enumerate(values or ())
        if parse_int64(value) is None
    )
    return errors


def parse_int64(text: str) -> int | None:
    """Return the number as strconv.ParseInt reads it; None if it fails."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text[:1].strip("0123456789") + text.lstrip("+-").lstrip("0").zfill(1))
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


def sorted_selector(requirements: Sequence[Requirement]) -> Selector:
    """Return the selector of requirements in any order."""
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))
