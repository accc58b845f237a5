"""Strategies of the group resource.k8s.io.

CEL expressions are not compiled.
Upstream: pkg/apis/resource/v1/defaults.go, pkg/apis/resource/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.cluster.apiserver.documents import Document, dig
from kubesched.cluster.apiserver.errors import (
    InOrder,
    Problem,
    duplicate,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import IMMUTABLE, POSITIVE
from kubesched.cluster.apiserver.names import label_problems, subdomain_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

_GROUP = "resource.k8s.io"
_EXACT, _ALL = "ExactCount", "All"
_EXACT_FIELDS = (
    ("deviceClassName", "DeviceClassName", ""),
    ("selectors", "Selectors", None),
    ("allocationMode", "AllocationMode", ""),
    ("count", "Count", 0),
    ("adminAccess", "AdminAccess", None),
    ("tolerations", "Tolerations", None),
    ("capacity", "Capacity", None),
)
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def device_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of the group."""
    return {
        (_GROUP, "resourceclaims"): ResourceClaimStrategy(("spec",)),
        (_GROUP, "resourceclaimtemplates"): ResourceClaimStrategy(("spec", "spec")),
        (_GROUP, "resourceslices"): ResourceSliceStrategy(),
        (_GROUP, "deviceclasses"): DeviceClassStrategy(),
    }


class ResourceClaimStrategy(Strategy):
    """Strategy of ResourceClaims and ResourceClaimTemplates."""

    returns_deleted_object = True
    bumps_generation = False

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path
        self.has_status = len(path) == 1

    def default(self, document: Document) -> None:
        for _, request in _exact_requests(dig(document, *self._path) or {}, ""):
            request["allocationMode"] = request.get("allocationMode") or _EXACT
            if request["allocationMode"] == _EXACT and not request.get("count"):
                request["count"] = 1

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        spec, path = dig(document, *self._path) or {}, ".".join(self._path)
        names: list[str] = []
        for index, one in enumerate(dig(spec, "devices", "requests") or ()):
            child, name = f"{path}.devices.requests[{index}]", one.get("name") or ""
            out.extend(invalid(f"{child}.name", name, text) for text in label_problems(name))
            kinds = (one.get("exactly") is not None) + bool(one.get("firstAvailable"))
            text = "exactly one of `exactly` or `firstAvailable` is required"
            if kinds == 0:
                out.append(required(child, text))
            elif kinds > 1:
                out.append(invalid(child, None, f"{text}, but multiple fields are set"))
            if name in names:
                out.append(duplicate(child, name))
            names.append(name)
        for child, exact in _exact_requests(spec, path):
            _check_exact(exact, child, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        spec = new.get("spec")
        if spec != old.get("spec"):
            internal = _internal_claim(spec or {}) if len(self._path) == 1 else spec
            out.append(invalid("spec", internal, IMMUTABLE))
        return out


def _exact_requests(spec: Document, path: str) -> Iterator[tuple[str, Document]]:
    """Yield path and content of each request for devices of one class."""
    for index, one in enumerate(dig(spec, "devices", "requests") or ()):
        child = f"{path}.devices.requests[{index}]"
        if one.get("exactly") is not None:
            yield f"{child}.exactly", one["exactly"]
        for place, below in enumerate(one.get("firstAvailable") or ()):
            yield f"{child}.firstAvailable[{place}]", below


def _check_exact(exact: Document, path: str, out: list[Problem]) -> None:
    name = exact.get("deviceClassName") or ""
    child = f"{path}.deviceClassName"
    if not name:
        out.append(required(child))
    else:
        out.extend(invalid(child, name, text) for text in subdomain_problems(name))
    mode, count = exact.get("allocationMode"), exact.get("count") or 0
    if mode == _ALL:
        if count:
            text = f"must not be specified when allocationMode is '{_ALL}'"
            out.append(invalid(f"{path}.count", count, text))
    elif mode == _EXACT:
        if count <= 0:
            out.append(invalid(f"{path}.count", count, POSITIVE))
    else:
        out.append(not_supported(f"{path}.allocationMode", mode, [_ALL, _EXACT]))


def _internal_claim(spec: Document) -> InOrder:
    # Parity: upstream prints the internal type, whose fields have no JSON names.
    requests = []
    for one in dig(spec, "devices", "requests") or ():
        exact = one.get("exactly")
        exactly = None
        if exact is not None:
            exactly = InOrder({go: exact.get(key, zero) for key, go, zero in _EXACT_FIELDS})
        requests.append(
            InOrder(
                {
                    "Name": one.get("name", ""),
                    "Exactly": exactly,
                    "FirstAvailable": one.get("firstAvailable"),
                }
            )
        )
    devices = InOrder({
        "Requests": requests or None,
        "Constraints": dig(spec, "devices", "constraints"),
        "Config": dig(spec, "devices", "config"),
    })  # fmt: skip
    return InOrder({"Devices": devices})


class ResourceSliceStrategy(Strategy):
    """Strategy of resource slices."""

    returns_deleted_object = True
    has_status = False

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        spec = document.get("spec") or {}
        fields = [f"`{field}`" for field in _PLACES if spec.get(field)]
        if not fields:
            listed = ", ".join(f"`{field}`" for field in _PLACES)
            out.append(required("spec", f"exactly one of {listed} is required"))
        elif len(fields) > 1:
            listed = ", ".join(f"`{field}`" for field in _PLACES)
            text = f"exactly one of {listed} is required, but multiple fields are set"
            out.append(invalid("spec", f"{{{', '.join(fields)}}}", text))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self.validate_create(new, request)


class DeviceClassStrategy(Strategy):
    """Strategy of device classes."""

    has_status = False
    returns_deleted_object = True
