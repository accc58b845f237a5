"""Node selectors and preferred terms: compiled once, matched often.

They match labels and a name rather than a Node, so that columns can use them too.
Upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubesched.api import affinity
from kubesched.api.field_errors import Typed, aggregate_text, child, invalid, not_supported
from kubesched.api.label_selectors import (
    Operator,
    Requirement,
    Selector,
    requirement_errors,
    sorted_selector,
)
from kubesched.api.wire import NilStrings

_OPERATORS: Final = {
    "In": Operator.IN, "NotIn": Operator.NOT_IN, "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST, "Gt": Operator.GREATER_THAN, "Lt": Operator.LESS_THAN,
}  # fmt: skip
_FIELD_OPERATORS: Final = ("In", "NotIn")
_NAME_FIELD: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """A node field that must, or must not, have one value."""

    field: str
    value: str
    negated: bool = False

    def matches(self, node_name: str) -> bool:
        """Return whether a node matches; its only field is the name."""
        actual = node_name if self.field == _NAME_FIELD else ""
        return (actual == self.value) is not self.negated


@dataclass(frozen=True, slots=True)
class NodeSelectorTermMatcher:
    """A compiled term: labels and fields that must all match; with errors it never matches."""

    labels: Selector | None = None
    fields: tuple[FieldRequirement, ...] = ()
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether a node with these labels and this name matches the term."""
        # Parity: nodeaffinity.go nodeSelectorTerm.match, v1.36
        if self.errors or (self.labels is not None and not self.labels.matches(labels)):
            return False
        # A node without a name has no fields; upstream does not evaluate them.
        return not node_name or all(requirement.matches(node_name) for requirement in self.fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Compiled terms of which one must match; without terms nothing matches."""

    terms: tuple[NodeSelectorTermMatcher, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether a node with these labels and this name is selected."""
        return any(term.matches(labels, node_name) for term in self.terms)

    @property
    def errors(self) -> tuple[str, ...]:
        """Return the errors of its terms, in upstream's order."""
        return tuple(error for term in self.terms for error in term.errors)


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """Compiled preferences: pairs of weight and term."""

    terms: tuple[tuple[int, NodeSelectorTermMatcher], ...] = ()

    def score(self, labels: Mapping[str, str], node_name: str) -> int:
        """Return the sum of the weights of the terms that match."""
        return sum(weight for weight, term in self.terms if term.matches(labels, node_name))


def compile_node_selector(selector: affinity.NodeSelector, path: str = "") -> NodeSelector:
    """Compile a wire selector; malformed terms stay in it with their errors and never match."""
    # Parity: nodeaffinity.go NewLazyErrorNodeSelector, v1.36
    terms_path = child(path, "nodeSelectorTerms")
    return NodeSelector(
        tuple(
            compile_node_selector_term(term, f"{terms_path}[{index}]")
            for index, term in enumerate(selector.node_selector_terms)
            if not _is_empty(term)
        )
    )


def compile_preferred_terms(
    terms: Sequence[affinity.PreferredSchedulingTerm], path: str = ""
) -> PreferredTerms:
    """Compile preferences, or raise ValueError with upstream's text of all errors."""
    # Parity: nodeaffinity.go NewPreferredSchedulingTerms, v1.36
    compiled = _preferred_matchers(terms, path)
    errors = [error for _, term in compiled for error in term.errors]
    if errors:
        raise ValueError(aggregate_text(errors))
    return PreferredTerms(compiled)


def node_selector_errors(selector: affinity.NodeSelector, path: str = "") -> list[str]:
    """Return the errors of NewNodeSelector, below a path."""
    return list(compile_node_selector(selector, path).errors)


def preferred_terms_errors(
    terms: Sequence[affinity.PreferredSchedulingTerm], path: str = ""
) -> list[str]:
    """Return the errors of NewPreferredSchedulingTerms, below a path."""
    return [error for _, term in _preferred_matchers(terms, path) for error in term.errors]


def compile_node_selector_term(
    term: affinity.NodeSelectorTerm, path: str = ""
) -> NodeSelectorTermMatcher:
    """Compile one term; the caller leaves out empty terms."""
    errors: list[str] = []
    labels = None
    if term.match_expressions:
        labels = _compile_labels(term.match_expressions, child(path, "matchExpressions"), errors)
    fields = _compile_fields(term.match_fields, child(path, "matchFields"), errors)
    if errors:
        return NodeSelectorTermMatcher(errors=tuple(errors))
    return NodeSelectorTermMatcher(labels, fields)


def _preferred_matchers(
    terms: Sequence[affinity.PreferredSchedulingTerm], path: str
) -> tuple[tuple[int, NodeSelectorTermMatcher], ...]:
    return tuple(
        (term.weight, compile_node_selector_term(term.preference, f"{path}[{index}]"))
        for index, term in enumerate(terms)
        if term.weight != 0 and not _is_empty(term.preference)
    )


def _is_empty(term: affinity.NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _compile_labels(
    expressions: Sequence[affinity.NodeSelectorRequirement], path: str, errors: list[str]
) -> Selector:
    requirements: list[Requirement] = []
    for index, expression in enumerate(expressions):
        where = f"{path}[{index}]"
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            errors.append(
                not_supported(f"{where}.operator", Typed(expression.operator), _OPERATORS)
            )
            continue
        values = _or_nil(expression.values)
        errors.extend(requirement_errors(expression.key, operator, values, where))
        requirements.append(Requirement(expression.key, operator, tuple(expression.values)))
    return sorted_selector(requirements)


def _compile_fields(
    expressions: Sequence[affinity.NodeSelectorRequirement], path: str, errors: list[str]
) -> tuple[FieldRequirement, ...]:
    requirements: list[FieldRequirement] = []
    for index, expression in enumerate(expressions):
        where = f"{path}[{index}]"
        if expression.operator not in _FIELD_OPERATORS:
            wrong = not_supported(f"{where}.operator", Typed(expression.operator), _FIELD_OPERATORS)
            errors.append(wrong)
        elif len(expression.values) != 1:
            values = _or_nil(expression.values)
            errors.append(invalid(f"{where}.values", values, "must have one element"))
        else:
            negated = expression.operator == "NotIn"
            value = expression.values[0]
            requirements.append(FieldRequirement(expression.key, value, negated=negated))
    return tuple(requirements)


def _or_nil(values: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return None for an absent list, which messages print as null."""
    return None if isinstance(values, NilStrings) else values
