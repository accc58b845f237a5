"""Validates affinity, topology spread constraints and tolerations.

Upstream: pkg/apis/core/validation/validation.go validateAffinity, ValidateTolerations,
validateTopologySpreadConstraints
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import check_positive, key_problems, value_problems
from kubesched.cluster.apiserver.kinds.pod_options import PodOptions
from kubesched.cluster.apiserver.kinds.selectors import (
    check_label_selector,
    check_node_selector,
    check_node_selector_term,
)
from kubesched.cluster.apiserver.names import label_problems

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(affinity: Document, options: PodOptions, path: str, out: list[Problem]) -> None:
    """Validate a pod's affinity, adding errors."""
    node = affinity.get("nodeAffinity")
    if node is not None:
        _check_node_affinity(node, options, f"{path}.nodeAffinity", out)
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind)
        if part is None:
            continue
        child = f"{path}.{kind}.{_REQUIRED}"
        for index, term in enumerate(part.get(_REQUIRED) or ()):
            _check_pod_term(term, options, f"{child}[{index}]", out)
        child = f"{path}.{kind}.{_PREFERRED}"
        for index, weighted in enumerate(part.get(_PREFERRED) or ()):
            _check_weight(weighted, f"{child}[{index}]", out)
            term = weighted.get("podAffinityTerm") or {}
            _check_pod_term(term, options, f"{child}[{index}].podAffinityTerm", out)


def _check_weight(term: Document, path: str, out: list[Problem]) -> None:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        out.append(invalid(f"{path}.weight", weight, "must be in the range 1-100"))


def _check_node_affinity(
    affinity: Document, options: PodOptions, path: str, out: list[Problem]
) -> None:
    needed = affinity.get(_REQUIRED)
    if needed is not None:
        check_node_selector(
            needed,
            f"{path}.{_REQUIRED}",
            out,
            allow_invalid_values=options.invalid_node_affinity_values,
        )
    for index, term in enumerate(affinity.get(_PREFERRED) or ()):
        child = f"{path}.{_PREFERRED}[{index}]"
        _check_weight(term, child, out)
        preference = term.get("preference") or {}
        check_node_selector_term(preference, f"{child}.preference", out, allow_invalid_values=True)


def _check_pod_term(term: Document, options: PodOptions, path: str, out: list[Problem]) -> None:
    loose = options.invalid_affinity_values
    for name in ("labelSelector", "namespaceSelector"):
        check_label_selector(term.get(name), f"{path}.{name}", out, allow_invalid_values=loose)
    for namespace in term.get("namespaces") or ():
        texts = label_problems(namespace)
        out.extend(invalid(f"{path}.namespace", namespace, text) for text in texts)
    check_label_keys(
        term.get("matchLabelKeys") or (),
        term.get("mismatchLabelKeys") or (),
        term.get("labelSelector"),
        path,
        out,
    )
    topology = term.get("topologyKey") or ""
    if not topology:
        out.append(required(f"{path}.topologyKey", "can not be empty"))
    texts = key_problems(topology)
    out.extend(invalid(f"{path}.topologyKey", topology, text) for text in texts)


def check_label_keys(
    match: Sequence[str],
    mismatch: Sequence[str],
    selector: Document | None,
    path: str,
    out: list[Problem],
) -> None:
    """Validate matchLabelKeys and mismatchLabelKeys, adding errors."""
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            text = "must not be specified when labelSelector is not set"
            out.append(forbidden_field(f"{path}.{name}", text))
            continue
        for index, key in enumerate(keys):
            texts = key_problems(key)
            out.extend(invalid(f"{path}.{name}[{index}]", key, text) for text in texts)
    if match and selector is not None:
        _check_keys_not_selected(match, selector, path, out)
    for index, key in enumerate(match):
        if key in mismatch:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            out.append(invalid(f"{path}.matchLabelKeys[{index}]", key, text))


def _check_keys_not_selected(
    match: Sequence[str], selector: Document, path: str, out: list[Problem]
) -> None:
    # Each key was merged into the expressions already: one occurrence is expected, two are not.
    positions = {key: index for index, key in enumerate(match)}
    seen = set(selector.get("matchLabels") or {})
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key") or ""
        if key in positions and key in seen:
            text = "exists in both matchLabelKeys and labelSelector"
            out.append(invalid(f"{path}[{positions[key]}]", key, text))
        seen.add(key)


def check_spread(
    constraints: list[Document], options: PodOptions, path: str, out: list[Problem]
) -> None:
    """Validate topology spread constraints, adding errors."""
    for index, constraint in enumerate(constraints):
        child = f"{path}[{index}]"
        check_positive(constraint.get("maxSkew") or 0, f"{child}.maxSkew", out)
        key = constraint.get("topologyKey") or ""
        if not key:
            out.append(required(f"{child}.topologyKey", "can not be empty"))
        action = constraint.get("whenUnsatisfiable") or ""
        if action not in {"DoNotSchedule", "ScheduleAnyway"}:
            known = ("DoNotSchedule", "ScheduleAnyway")
            out.append(not_supported(f"{child}.whenUnsatisfiable", action, known))
        for other in constraints[index + 1 :]:
            if (other.get("topologyKey") or "") == key and (
                other.get("whenUnsatisfiable") or ""
            ) == action:
                where = f"{child}.{{topologyKey, whenUnsatisfiable}}"
                out.append(duplicate(where, f"{{{key}, {action}}}"))
                break
        _check_spread_details(constraint, action, options, child, out)


def _check_spread_details(
    constraint: Document, action: str, options: PodOptions, path: str, out: list[Problem]
) -> None:
    domains = constraint.get("minDomains")
    if domains is not None:
        check_positive(domains, f"{path}.minDomains", out)
        if action != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            out.append(invalid(f"{path}.minDomains", domains, text))
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(name)
        if policy is not None and policy not in {"Honor", "Ignore"}:
            out.append(not_supported(f"{path}.{name}", policy, ["Honor", "Ignore"]))
    selector = constraint.get("labelSelector")
    check_label_keys(constraint.get("matchLabelKeys") or (), (), selector, path, out)
    if not options.invalid_spread_selectors:
        check_label_selector(selector, f"{path}.labelSelector", out)


def check_effect(effect: str, path: str, out: list[Problem]) -> None:
    """Add an error for an unknown taint effect."""
    if effect not in EFFECTS:
        out.append(not_supported(path, effect, EFFECTS))


def check_tolerations(
    tolerations: list[Document], options: PodOptions, path: str, out: list[Problem]
) -> None:
    """Validate tolerations, adding errors."""
    for index, toleration in enumerate(tolerations):
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        effect = toleration.get("effect") or ""
        if key:
            texts = key_problems(key)
            out.extend(invalid(f"{path}[{index}].key", key, text) for text in texts)
        elif operator != "Exists":
            text = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            out.append(invalid(f"{path}[{index}].operator", operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            out.append(invalid(f"{path}[{index}].effect", effect, text))
        _check_operator(toleration, operator, options, f"{path}[{index}]", out)
        if effect:
            check_effect(effect, f"{path}[{index}].effect", out)


def _check_operator(
    toleration: Document, operator: str, options: PodOptions, path: str, out: list[Problem]
) -> None:
    value = toleration.get("value") or ""
    child = f"{path}.operator"
    if operator in {"Equal", ""}:
        if texts := value_problems(value):
            out.append(invalid(child, value, ";".join(texts)))
    elif operator == "Exists":
        if value:
            text = "value must be empty when `operator` is 'Exists'"
            out.append(invalid(child, value, text))
    elif operator in {"Lt", "Gt"}:
        if not options.toleration_comparisons:
            out.append(not_supported(child, operator, ["Equal", "Exists", "Lt", "Gt"]))
    else:
        out.append(not_supported(child, operator, ["Equal", "Exists"]))
