"""Strategies of the group storage.k8s.io.

Upstream: pkg/apis/storage/validation/validation.go, pkg/apis/storage/v1/defaults.go,
pkg/registry/storage/*/strategy.go
"""

from __future__ import annotations

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.documents import Document, copy_of, dig, metadata_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.kinds.checks import (
    IMMUTABLE,
    NOT_NEGATIVE,
    check_not_negative,
    check_qualified_name,
)
from kubesched.cluster.apiserver.kinds.internal_form import internal_form
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector
from kubesched.cluster.apiserver.kinds.workload_rules import check_immutable, part_of, set_default
from kubesched.cluster.apiserver.names import subdomain_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

_GROUP = "storage.k8s.io"
_PARAMETER_BYTES_MAX, _PARAMETER_COUNT_MAX = 256 * 1024, 512
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")


def storage_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of the group."""
    return {
        (_GROUP, "storageclasses"): StorageClassStrategy(),
        (_GROUP, "volumeattachments"): VolumeAttachmentStrategy(),
        (_GROUP, "csinodes"): CsiNodeStrategy(),
        (_GROUP, "csidrivers"): CsiDriverStrategy(),
        (_GROUP, "csistoragecapacities"): CsiStorageCapacityStrategy(),
        (_GROUP, "volumeattributesclasses"): VolumeAttributesClassStrategy(),
    }


class StorageClassStrategy(Strategy):
    """Strategy of storage classes."""

    returns_deleted_object = True
    has_status = False
    bumps_generation = False

    def default(self, document: Document) -> None:
        set_default(document, "reclaimPolicy", "Delete")
        set_default(document, "volumeBindingMode", "Immediate")

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        _check_provisioner(document.get("provisioner") or "", "provisioner", out)
        _check_parameters(document.get("parameters") or {}, out, allow_none=True)
        policy = document.get("reclaimPolicy")
        if policy and policy not in {"Delete", "Retain"}:
            out.append(not_supported("reclaimPolicy", policy, ["Delete", "Retain"]))
        mode, modes = document.get("volumeBindingMode"), ["Immediate", "WaitForFirstConsumer"]
        if mode not in modes:
            out.append(not_supported("volumeBindingMode", mode, modes))
        seen: list[dict[str, frozenset[str]]] = []
        for index, term in enumerate(document.get("allowedTopologies") or ()):
            path = f"allowedTopologies[{index}].matchLabelExpressions"
            terms = _check_topology(term, path, out)
            if terms in seen:
                out.append(duplicate(path, ""))
            seen.append(terms)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            check_immutable(new.get(field), old.get(field), field, out)
        return out


class VolumeAttachmentStrategy(Strategy):
    """Strategy of volume attachments."""

    returns_deleted_object = True
    bumps_generation = False
    allows_unconditional_update = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        spec = document.get("spec") or {}
        _check_driver_name(spec.get("attacher") or "", "spec.attacher", out)
        source = spec.get("source") or {}
        volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        if volume is None and inline is None:
            out.append(required("spec.source", text))
        elif volume is not None and inline is not None:
            out.append(forbidden_field("spec.source", text))
        elif volume == "":
            child = "spec.source.persistentVolumeName"
            out.append(required(child, "must specify non empty persistentVolumeName"))
        node = spec.get("nodeName") or ""
        out.extend(invalid("spec.nodeName", node, text) for text in subdomain_problems(node))
        if volume:
            child = "spec.source.persistentVolumeName"
            out.extend(invalid(child, volume, text) for text in subdomain_problems(volume))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out = self.validate_create(new, request)
        if new.get("spec") != old.get("spec"):
            internal = internal_form("VolumeAttachmentSpec", new.get("spec") or {})
            out.append(invalid("spec", internal, IMMUTABLE))
        return out

    def prepare_for_status_update(self, new: Document, old: Document, request: Request) -> None:
        managed = dig(new, "metadata", "managedFields")
        new["metadata"] = copy_of(old.get("metadata") or {})
        if managed is not None:
            new["metadata"]["managedFields"] = managed


class CsiNodeStrategy(Strategy):
    """Strategy of CSI nodes."""

    returns_deleted_object = True
    has_status = False
    bumps_generation = False
    allows_unconditional_update = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        seen: list[str] = []
        for index, driver in enumerate(dig(document, "spec", "drivers") or ()):
            path = f"spec.drivers[{index}]"
            name, node_id = driver.get("name") or "", driver.get("nodeID") or ""
            _check_driver_name(name, f"{path}.name", out)
            if not node_id:
                out.append(required(f"{path}.nodeID"))
            elif len(node_id.encode()) > 256:
                text = "must be 256 characters or less"
                out.append(invalid(f"{path}.nodeID", node_id, text))
            count = dig(driver, "allocatable", "count")
            if count is not None:
                check_not_negative(count, f"{path}.allocatable.count", out)
            if name in seen:
                out.append(duplicate(f"{path}.name", name))
            seen.append(name)
            _check_topology_keys(driver.get("topologyKeys") or [], path, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out = self.validate_create(new, request)
        now = {one.get("name"): one for one in dig(new, "spec", "drivers") or ()}
        for before in dig(old, "spec", "drivers") or ():
            after = now.get(before.get("name"))
            if after is not None:
                kept = {key: value for key, value in before.items() if key != "allocatable"}
                changed = {key: value for key, value in after.items() if key != "allocatable"}
                if changed != kept:
                    internal = internal_form("CSINodeDriver", changed)
                    out.append(invalid("spec.drivers", internal, IMMUTABLE))
        return out


class CsiDriverStrategy(Strategy):
    """Strategy of CSI drivers."""

    returns_deleted_object = True
    has_status = False
    allows_unconditional_update = False

    def prepare_for_create(self, document: Document, request: Request) -> None:
        # Parity: upstream starts the generation with the first change.
        metadata_of(document).pop("generation", None)

    def default(self, document: Document) -> None:
        spec = part_of(document, "spec")
        set_default(spec, "attachRequired", True)
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            set_default(spec, field, False)
        set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType")
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        spec = document.get("spec") or {}
        policy = spec.get("fsGroupPolicy")
        if policy is not None and policy not in _FS_GROUP_POLICIES:
            out.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES))
        _check_token_requests(spec.get("tokenRequests") or [], out)
        for mode in spec.get("volumeLifecycleModes") or ():
            if mode not in {"Persistent", "Ephemeral"}:
                known = ["Persistent", "Ephemeral"]
                out.append(not_supported("spec.volumeLifecycleModes", mode, known))
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < 10:
            child = "spec.nodeAllocatableUpdatePeriodSeconds"
            text = "must be greater than or equal to 10 seconds"
            out.append(invalid(child, period, text))
        in_secrets = spec.get("serviceAccountTokenInSecrets")
        if in_secrets is not None and not spec.get("tokenRequests"):
            text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            out.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, text))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out = self.validate_create(new, request)
        # Parity: upstream misspells the field in the path.
        check_immutable(dig(new, "spec", "attachRequired"), dig(old, "spec", "attachRequired"),
                        "spec.attachedRequired", out)  # fmt: skip
        modes = "volumeLifecycleModes"
        check_immutable(dig(new, "spec", modes), dig(old, "spec", modes), f"spec.{modes}", out)
        return out


class CsiStorageCapacityStrategy(Strategy):
    """Strategy of CSI storage capacities."""

    has_status = False
    bumps_generation = False
    allows_unconditional_update = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        check_label_selector(document.get("nodeTopology"), "nodeTopology", out)
        name = document.get("storageClassName") or ""
        out.extend(invalid("storageClassName", name, text) for text in subdomain_problems(name))
        capacity = document.get("capacity")
        if capacity is not None and parse_quantity(capacity).sign() < 0:
            out.append(invalid("capacity", str(capacity), NOT_NEGATIVE))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        for field in ("nodeTopology", "storageClassName"):
            check_immutable(new.get(field), old.get(field), field, out)
        return out


class VolumeAttributesClassStrategy(Strategy):
    """Strategy of volume attributes classes."""

    returns_deleted_object = True
    has_status = False
    bumps_generation = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        _check_provisioner(document.get("driverName") or "", "driverName", out)
        _check_parameters(document.get("parameters") or {}, out, allow_none=False)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        for field in ("driverName", "parameters"):
            if new.get(field) != old.get(field):
                out.append(forbidden_field(field, f"updates to {field} are forbidden."))  # noqa: PERF401
        return out


def _check_provisioner(name: str, path: str, out: list[Problem]) -> None:
    if not name:
        out.append(required(path))
    else:
        check_qualified_name(name.lower(), path, out)


def _check_parameters(parameters: dict[str, str], out: list[Problem], *, allow_none: bool) -> None:
    if len(parameters) > _PARAMETER_COUNT_MAX:
        out.append(too_long("parameters", _PARAMETER_COUNT_MAX))
        return
    if "" in parameters:
        out.append(invalid("parameters", "", "field can not be empty."))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items())
    if size > _PARAMETER_BYTES_MAX:
        out.append(too_long("parameters", _PARAMETER_BYTES_MAX))
    if not allow_none and not parameters:
        out.append(required("parameters", "must contain at least one key/value pair"))


def _check_driver_name(name: str, path: str, out: list[Problem]) -> None:
    if not name:
        out.append(required(path))
        return
    if len(name.encode()) > 63:
        out.append(too_long(path, 63))
    out.extend(invalid(path, name, text) for text in subdomain_problems(name.lower()))


def _check_topology_keys(keys: list[str], path: str, out: list[Problem]) -> None:
    for index, key in enumerate(keys):
        if not key:
            out.append(required(path, key))
        if key in keys[:index]:
            out.append(duplicate(path, key))
        check_qualified_name(key, path, out)


def _check_token_requests(requests: list[Document], out: list[Problem]) -> None:
    seen: list[str] = []
    for index, one in enumerate(requests):
        path, audience = f"spec.tokenRequests[{index}]", one.get("audience") or ""
        if audience in seen:
            out.append(duplicate(f"{path}.audience", audience))
            continue
        seen.append(audience)
        lifetime = one.get("expirationSeconds")
        if lifetime is not None and lifetime < 600:
            text = "may not specify a duration less than 10 minutes"
            out.append(invalid(f"{path}.expirationSeconds", lifetime, text))
        if lifetime is not None and lifetime > 1 << 32:
            text = "may not specify a duration larger than 2^32 seconds"
            out.append(invalid(f"{path}.expirationSeconds", lifetime, text))


def _check_topology(term: Document, path: str, out: list[Problem]) -> dict[str, frozenset[str]]:
    """Validate one term; return its keys and values."""
    found: dict[str, frozenset[str]] = {}
    for index, expression in enumerate(term.get("matchLabelExpressions") or ()):
        child = f"{path}[{index}]"
        key, values = expression.get("key") or "", expression.get("values") or []
        if not values:
            out.append(required(f"{child}.values"))
        for place, value in enumerate(values):
            if value in values[:place]:
                out.append(duplicate(f"{child}.values[{place}]", value))
        if key in found:
            out.append(duplicate(f"{child}.key", key))
        check_qualified_name(key, f"{child}.key", out)
        found[key] = frozenset(values)
    return found
