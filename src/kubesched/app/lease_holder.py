"""Who holds a lease, and whether that is a kubesched in a pod.

Owns what a lease and the pods of a cluster tell about its holder. Only reads; what it means is
app.doctor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from kubesched.client.errors import NotFoundError
from kubesched.client.resources import LEASES, PODS
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock

_OURS: Final = "kubesched"
_DURATION_S: Final = 15


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a lease, since when it was not renewed, and how long that may last."""

    identity: str
    age_s: float
    lease_s: float

    @property
    def is_alive(self) -> bool:
        """Return whether it renews the lease in time."""
        return self.age_s <= self.lease_s

    @property
    def host(self) -> str:
        """Return the host that its identity begins with: its pod's name, unless the pod has none.

        Parity: cmd/kube-scheduler/app/options/options.go makeLeaderElectionConfig, v1.36.
        """
        return self.identity.rpartition("_")[0]


async def holder_of(client: Client, clock: Clock, namespace: str, name: str) -> Holder | None:
    """Return who holds a lease; None if nobody does, or there is no such lease."""
    try:
        answer = await client.get(LEASES, name, namespace=namespace)
    except NotFoundError:
        return None
    spec = msgspec.json.decode(answer).get("spec") or {}
    if not spec.get("holderIdentity"):
        return None
    renewed = spec.get("renewTime")
    renewed_s = datetime.fromisoformat(renewed).timestamp() if renewed else 0.0
    age_s = max(clock.now_s() - renewed_s, 0.0)
    lasting_s = float(spec.get("leaseDurationSeconds") or _DURATION_S)
    return Holder(spec["holderIdentity"], age_s, lasting_s)


async def kubesched_pod(client: Client, holder: Holder) -> str:
    """Return the pod (`namespace/name`) in which a holder runs if that is a kubesched, or nothing.

    A pod is called as its host is, or has its node's network and so its node's name.
    """
    if not holder.host:
        return ""
    for selector in (f"metadata.name={holder.host}", f"spec.nodeName={holder.host}"):
        answer = await client.get(PODS, query={"fieldSelector": selector})
        for pod in msgspec.json.decode(answer).get("items") or ():
            if _is_on(pod, holder.host) and _is_kubesched(pod):
                return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    return ""


def _is_on(pod: dict[str, Any], host: str) -> bool:
    if pod["spec"].get("hostNetwork"):
        return bool(pod["spec"].get("nodeName") == host)
    return bool(pod["metadata"]["name"] == host)


def _is_kubesched(pod: dict[str, Any]) -> bool:
    """Return whether an image, a command or an argument names it."""
    return any(
        _OURS in word
        for container in pod["spec"]["containers"]
        for word in (
            container.get("image", ""),
            *(container.get("command") or ()),
            *(container.get("args") or ()),
        )
    )
