"""Computes a pod's QoS class.

Upstream: pkg/apis/core/helper/qos/qos.go
"""

from __future__ import annotations

from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.cluster.apiserver.documents import Document

_COUNTED = ("cpu", "memory")


def qos_class(spec: Document) -> str:
    """Return Guaranteed, Burstable or BestEffort."""
    whole = spec.get("resources")
    if whole is not None:
        requests = _positive(whole.get("requests"))
        limits = _positive(whole.get("limits"))
        is_guaranteed = not whole.get("limits") or len(limits) == 2
    else:
        requests, limits, is_guaranteed = _of_containers(spec)
    if not requests and not limits:
        return "BestEffort"
    if is_guaranteed and requests == limits:
        return "Guaranteed"
    return "Burstable"


def _positive(amounts: dict[str, str] | None) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    if amounts:
        for name in _COUNTED:
            text = amounts.get(name)
            if text is not None and parse_quantity(text).unscaled > 0:
                found[name] = parse_quantity(text)
    return found


def _of_containers(spec: Document) -> tuple[dict[str, Quantity], dict[str, Quantity], bool]:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    is_guaranteed = True
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container.get("resources") or {}
            own = _positive(resources.get("limits"))
            is_guaranteed = is_guaranteed and len(own) == 2
            _add(limits, own)
            _add(requests, _positive(resources.get("requests")))
    return requests, limits, is_guaranteed


def _add(total: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount
