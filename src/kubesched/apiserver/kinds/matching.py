"""Whether labels match a selector inside a document.

Owns the matching that actions and admission need.
Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector
"""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.apiserver.documents import Document


def selects(selector: Document | None, labels: Mapping[str, str]) -> bool:
    """Tell whether labels match; no selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
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
