"""Validates labels, label selectors and node selectors.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go,
pkg/apis/core/validation/validation.go ValidateNodeSelector and around it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import Problem, forbidden_field, invalid, required
from kubesched.cluster.apiserver.kinds.checks import key_problems, value_problems
from kubesched.cluster.apiserver.names import subdomain_problems

_NOT_AN_OPERATOR = "not a valid selector operator"


def check_labels(labels: dict[str, str] | None, path: str, out: list[Problem]) -> None:
    """Validate labels; like upstream's, the errors have the path of the map."""
    for key, value in (labels or {}).items():
        out.extend(invalid(path, key, text) for text in key_problems(key))
        out.extend(invalid(path, value, text) for text in value_problems(value))


def check_label_selector(
    selector: Document | None, path: str, out: list[Problem], *, allow_invalid_values: bool = False
) -> None:
    """Validate a label selector, adding errors."""
    if selector is None:
        return
    if selector.get("matchLabels"):
        check_labels(selector["matchLabels"], f"{path}.matchLabels", out)
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        _check_requirement(
            term,
            f"{path}.matchExpressions[{index}]",
            out,
            allow_invalid_values=allow_invalid_values,
        )


def _check_requirement(
    term: Document, path: str, out: list[Problem], *, allow_invalid_values: bool
) -> None:
    operator = term.get("operator") or ""
    values = term.get("values") or []
    if operator in {"In", "NotIn"}:
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            out.append(required(f"{path}.values", text))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            out.append(forbidden_field(f"{path}.values", text))
    else:
        out.append(invalid(f"{path}.operator", operator, _NOT_AN_OPERATOR))
    key = term.get("key") or ""
    out.extend(invalid(f"{path}.key", key, text) for text in key_problems(key))
    if not allow_invalid_values:
        _check_values(values, path, out)


def _check_values(values: list[str], path: str, out: list[Problem]) -> None:
    for index, value in enumerate(values):
        for text in value_problems(value):
            out.append(invalid(f"{path}.values[{index}]", value, text))  # noqa: PERF401


def check_node_selector(
    selector: Document, path: str, out: list[Problem], *, allow_invalid_values: bool = False
) -> None:
    """Validate a required node selector, adding errors."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        text = "must have at least one node selector term"
        out.append(required(f"{path}.nodeSelectorTerms", text))
    for index, term in enumerate(terms):
        check_node_selector_term(
            term,
            f"{path}.nodeSelectorTerms[{index}]",
            out,
            allow_invalid_values=allow_invalid_values,
        )


def check_node_selector_term(
    term: Document, path: str, out: list[Problem], *, allow_invalid_values: bool
) -> None:
    """Validate one term of a node selector, adding errors."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        child = f"{path}.matchExpressions[{index}]"
        _check_node_requirement(expression, child, out)
        if not allow_invalid_values:
            _check_values(expression.get("values") or [], child, out)
    for index, expression in enumerate(term.get("matchFields") or ()):
        _check_node_field(expression, f"{path}.matchFields[{index}]", out)


def _check_node_requirement(expression: Document, path: str, out: list[Problem]) -> None:
    operator = expression.get("operator") or ""
    values: list[Any] = expression.get("values") or []
    if operator in {"In", "NotIn"}:
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            out.append(required(f"{path}.values", text))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            out.append(forbidden_field(f"{path}.values", text))
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            out.append(required(f"{path}.values", text))
    else:
        out.append(invalid(f"{path}.operator", operator, _NOT_AN_OPERATOR))
    key = expression.get("key") or ""
    out.extend(invalid(f"{path}.key", key, text) for text in key_problems(key))


def _check_node_field(expression: Document, path: str, out: list[Problem]) -> None:
    operator = expression.get("operator") or ""
    values = expression.get("values") or []
    if operator in {"In", "NotIn"}:
        if len(values) != 1:
            text = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            out.append(required(f"{path}.values", text))
    else:
        out.append(invalid(f"{path}.operator", operator, _NOT_AN_OPERATOR))
    key = expression.get("key") or ""
    if key != "metadata.name":
        out.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        for text in subdomain_problems(value):
            out.append(invalid(f"{path}.values[{index}]", value, text))  # noqa: PERF401


def selects(selector: Document | None, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches labels; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    match_labels = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in match_labels.items()):
        return False
    return all(_meets(term, labels) for term in selector.get("matchExpressions") or ())


def _meets(term: Document, labels: Mapping[str, str]) -> bool:
    operator, key = term.get("operator"), term.get("key") or ""
    values = term.get("values") or ()
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator == "Exists":
        return key in labels
    return operator == "DoesNotExist" and key not in labels
