"""Strategy of Nodes.

Upstream: pkg/registry/core/node/strategy.go, pkg/apis/core/validation/validation.go ValidateNode
"""

from __future__ import annotations

import re

from kubesched.cluster.apiserver.documents import Document, name_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    ProblemType,
    duplicate,
    forbidden_field,
    invalid,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import (
    check_cidr,
    check_positive,
    cidr_warnings,
    is_dual_stack,
    key_problems,
    parse_cidr_sloppily,
    value_problems,
)
from kubesched.cluster.apiserver.kinds.internal_form import internal_form
from kubesched.cluster.apiserver.kinds.placement import check_effect
from kubesched.cluster.apiserver.kinds.quantities import check_amount, round_list
from kubesched.cluster.apiserver.strategy import Request, Strategy
from kubesched.golang.strconv import go_quote

_FEATURE = re.compile("[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_CIDR_KEPT = 'node updates may not change podCIDR except from "" to valid'


class NodeStrategy(Strategy):
    """Strategy of nodes."""

    bumps_generation = False
    keeps_status_on_create = True

    def default(self, document: Document) -> None:
        """Default allocatable, and keep podCIDR and podCIDRs consistent."""
        status = document.setdefault("status", {})
        if status.get("allocatable") is None and status.get("capacity"):
            status["allocatable"] = dict(status["capacity"])
        round_list(status.get("capacity"))
        round_list(status.get("allocatable"))
        _mirror_cidrs(document.setdefault("spec", {}))

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Drop removed fields."""
        document["spec"].pop("configSource", None)
        (document.get("status") or {}).pop("config", None)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Drop removed fields."""
        if (old.get("spec") or {}).get("configSource") is None:
            (new.get("spec") or {}).pop("configSource", None)

    def prepare_for_status_update(self, new: Document, old: Document, request: Request) -> None:
        """Drop removed fields."""
        if (old.get("status") or {}).get("config") is None:
            (new.get("status") or {}).pop("config", None)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a node; return the errors."""
        out: list[Problem] = []
        _check_node(document, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a node."""
        out: list[Problem] = []
        _check_node(new, out)
        _check_change(new, old, out)
        return out

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Validate a status update."""
        out: list[Problem] = []
        _check_change(new, old, out)
        return out

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about a node."""
        spec = document.get("spec") or {}
        found = []
        if spec.get("configSource") is not None:
            found.append("spec.configSource: the feature is removed")
        if spec.get("externalID"):
            text = "this field is deprecated, and is unused by Kubernetes"
            found.append(f"spec.externalID: {text}")
        for index, value in enumerate(spec.get("podCIDRs") or ()):
            found.extend(cidr_warnings(value, f"spec.podCIDRs[{index}]"))
        return found

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        is_off = (document.get("spec") or {}).get("unschedulable")
        return {
            "metadata.name": name_of(document),
            "spec.unschedulable": "true" if is_off else "false",
        }


def _mirror_cidrs(spec: Document) -> None:
    # Parity: pkg/apis/core/v1/conversion.go Convert_v1_NodeSpec_To_core_NodeSpec and back, v1.36
    first, listed = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not listed or listed[0] != first):
        spec["podCIDRs"] = [first]
    elif listed and not first:
        spec["podCIDR"] = listed[0]


def _check_node(node: Document, out: list[Problem]) -> None:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    # Parity: upstream's path is below metadata.
    check_taints(spec.get("taints") or [], "metadata.taints", out)
    _check_resources(status, out)
    swap = ((status.get("nodeInfo") or {}).get("swap") or {}).get("capacity")
    if swap is not None:
        check_positive(swap, "metadata.nodeSwapStatus.capacity", out)
    _check_features(status.get("declaredFeatures") or [], out)
    ranges = spec.get("podCIDRs") or []
    for index, value in enumerate(ranges):
        check_cidr(value, f"spec.podCIDRs[{index}]", out)
    if len(ranges) > 1:
        _check_families(ranges, out)


def _check_families(ranges: list[str], out: list[Problem]) -> None:
    parsed = [parse_cidr_sloppily(value) for value in ranges]
    wrong = next((index for index, found in enumerate(parsed) if not found), None)
    if wrong is not None:
        text = (
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR"
            f"[{wrong}]: <nil> (invalid CIDR address: {ranges[wrong]})"
        )
        out.append(Problem(ProblemType.INTERNAL, "spec.podCIDRs", None, text))
    families = [found[0].version for found in parsed if found]
    if wrong is not None or not is_dual_stack(families):
        text = "may specify no more than one CIDR for each IP family"
        out.append(invalid("spec.podCIDRs", ranges, text))


def check_taints(taints: list[Document], path: str, out: list[Problem]) -> None:
    """Validate taints, adding errors."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here, key = f"{path}[{index}]", taint.get("key") or ""
        value, effect = taint.get("value") or "", taint.get("effect") or ""
        out.extend(invalid(f"{here}.key", key, text) for text in key_problems(key))
        if texts := value_problems(value):
            out.append(invalid(f"{here}.value", value, ";".join(texts)))
        if not effect:
            out.append(required(f"{here}.effect"))
        else:
            check_effect(effect, f"{here}.effect", out)
        if (key, effect) in seen:
            internal = internal_form("Taint", taint)
            text = "taints must be unique by key and effect pair"
            out.append(Problem(ProblemType.DUPLICATE, here, internal, text))
        seen.add((key, effect))


def _check_resources(status: Document, out: list[Problem]) -> None:
    for which in ("capacity", "allocatable"):
        for name, text in (status.get(which) or {}).items():
            check_amount(name, text, f"status.{which}.{name}", out)


def _check_features(features: list[str], out: list[Problem]) -> None:
    path = "status.declaredFeatures"
    for index, feature in enumerate(features):
        start = f"invalid feature name {go_quote(feature)}: must"
        if len(feature.encode()) > 253:
            text = f"{start} be no more than 253 characters"
            out.append(invalid(f"{path}[{index}]", feature, text))
        elif not _FEATURE.fullmatch(feature):
            text = (
                f"{start} start with an UpperCamelCase segment, with subsequent segments "
                "separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only "
                "alphanumeric characters and slashes"
            )
            out.append(invalid(f"{path}[{index}]", feature, text))
        if index + 1 < len(features):
            following, here = features[index + 1], f"{path}[{index + 1}]"
            if feature == following:
                out.append(duplicate(here, following))
            elif feature > following:
                out.append(invalid(here, following, "list must be sorted alphabetically"))


def _check_change(new: Document, old: Document, out: list[Problem]) -> None:
    spec, status = new.get("spec") or {}, new.get("status") or {}
    old_spec = old.get("spec") or {}
    _check_resources(status, out)
    _check_features(status.get("declaredFeatures") or [], out)
    seen: list[Document] = []
    for index, address in enumerate(status.get("addresses") or ()):
        if address in seen:
            internal = internal_form("NodeAddress", address)
            out.append(duplicate(f"status.addresses[{index}]", internal))
        seen.append(address)
    before, after = old_spec.get("podCIDRs") or [], spec.get("podCIDRs") or []
    if before and len(before) != len(after):
        out.append(forbidden_field("spec.podCIDRs", _CIDR_KEPT))
    else:
        changed = sum(one != other for one, other in zip(before, after, strict=False))
        out.extend(forbidden_field("spec.podCIDRs", _CIDR_KEPT) for _ in range(changed))
    provider = old_spec.get("providerID")
    if provider and provider != spec.get("providerID"):
        text = 'node updates may not change providerID except from "" to valid'
        out.append(forbidden_field("spec.providerID", text))
    check_taints(spec.get("taints") or [], "metadata.taints", out)
    if (spec.get("externalID") or "") != (old_spec.get("externalID") or ""):
        out.append(forbidden_field("spec.externalID", "may not be updated"))
