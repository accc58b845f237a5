"""Node selectors and preferred terms: compiled once, matched often.

Owns the compiled forms and the errors of malformed ones. Never reads a Node struct: it is given
labels and a name, so that columns can ask it too.
Upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubesched.objects import affinity
from kubesched.objects.field_errors import aggregate_text, child, invalid_list, not_supported
from kubesched.objects.label_selectors import (
    Operator,
    Requirement,
    Selector,
    requirement_errors,
    sorted_selector,
)
from kubesched.objects.wire import NilStrings

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
        """Tell whether the node's fields meet it; a node has one field, its name."""
        actual = node_name if self.field == _NAME_FIELD else ""
        return (actual == self.value) is not self.negated


@dataclass(frozen=True, slots=True)
class NodeSelectorTermMatcher:
    """One compiled term: labels and fields that must all hold; with errors it never matches."""

    labels: Selector | None = None
    fields: tuple[FieldRequirement, ...] = ()
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Tell whether a node with these labels and this name meets the term."""
        # Parity: nodeaffinity.go nodeSelectorTerm.match, v1.36
        if self.errors or (self.labels is not None and not self.labels.matches(labels)):
            return False
        # A node without a name has no fields, and then upstream does not ask about them.
        return not node_name or all(one.matches(node_name) for one in self.fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Compiled terms of which one must hold; none at all match nothing."""

    terms: tuple[NodeSelectorTermMatcher, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Tell whether a node with these labels and this name is selected."""
        return any(term.matches(labels, node_name) for term in self.terms)

    @property
    def errors(self) -> tuple[str, ...]:
        """Return what is wrong with its terms, in upstream's order."""
        return tuple(error for term in self.terms for error in term.errors)


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """Compiled preferences: pairs of weight and term."""

    terms: tuple[tuple[int, NodeSelectorTermMatcher], ...] = ()

    def score(self, labels: Mapping[str, str], node_name: str) -> int:
        """Return the sum of the weights of the terms that hold."""
        return sum(weight for weight, term in self.terms if term.matches(labels, node_name))


def compile_node_selector(selector: affinity.NodeSelector, path: str = "") -> NodeSelector:
    """Compile a wire selector; terms in error stay in it, match nothing and tell why."""
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
    """Return what NewNodeSelector finds wrong, one text each, below the given path."""
    return list(compile_node_selector(selector, path).errors)


def preferred_terms_errors(
    terms: Sequence[affinity.PreferredSchedulingTerm], path: str = ""
) -> list[str]:
    """Return what NewPreferredSchedulingTerms finds wrong, one text each, below the given path."""
    return [error for _, term in _preferred_matchers(terms, path) for error in term.errors]


def compile_node_selector_term(
    term: affinity.NodeSelectorTerm, path: str = ""
) -> NodeSelectorTermMatcher:
    """Compile one term; mind that an empty term must be left out by who calls this."""
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
            errors.append(not_supported(f"{where}.operator", expression.operator, _OPERATORS))
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
            wrong = not_supported(f"{where}.operator", expression.operator, _FIELD_OPERATORS)
            errors.append(wrong)
        elif len(expression.values) != 1:
            values = _or_nil(expression.values)
            errors.append(invalid_list(f"{where}.values", values, "must have one element"))
        else:
            negated = expression.operator == "NotIn"
            value = expression.values[0]
            requirements.append(FieldRequirement(expression.key, value, negated=negated))
    return tuple(requirements)


def _or_nil(values: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return None for a list that was not written at all, which messages print as null."""
    return None if isinstance(values, NilStrings) else values
