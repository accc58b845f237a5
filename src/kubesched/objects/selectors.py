"""Selectors: of labels, and of nodes.

Owns the names under which the rest of the package finds them. Never holds logic: label_selectors
and node_selectors do.
Upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go,
staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go
"""

from kubesched.objects.label_selectors import (
    MATCH_EVERYTHING,
    MATCH_NOTHING,
    Operator,
    Requirement,
    Selector,
    label_selector,
    parse_int64,
    selector_from_set,
)
from kubesched.objects.node_selectors import (
    FieldRequirement,
    NodeSelector,
    NodeSelectorTermMatcher,
    PreferredTerms,
    compile_node_selector,
    compile_node_selector_term,
    compile_preferred_terms,
    node_selector_errors,
    preferred_terms_errors,
)

__all__ = [
    "MATCH_EVERYTHING",
    "MATCH_NOTHING",
    "FieldRequirement",
    "NodeSelector",
    "NodeSelectorTermMatcher",
    "Operator",
    "PreferredTerms",
    "Requirement",
    "Selector",
    "compile_node_selector",
    "compile_node_selector_term",
    "compile_preferred_terms",
    "label_selector",
    "node_selector_errors",
    "parse_int64",
    "preferred_terms_errors",
    "selector_from_set",
]
