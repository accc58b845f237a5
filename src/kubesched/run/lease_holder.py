"""The holder of a leader election lease, and whether it is a kubesched in a pod.

Only reads; `run.doctor` evaluates.
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
class LeaseHolder:
    """The holder of a lease, the time since its last renewal, and the lease duration."""

    identity: str
    age_s: float
    lease_s: float

    @property
    def is_alive(self) -> bool:
        """Return whether the lease was renewed in time."""
        return self.age_s <= self.lease_s

    @property
    def host(self) -> str:
        """Return the host name in its identity: its pod's name, or its node's with hostNetwork.

        Parity: cmd/kube-scheduler/app/options/options.go makeLeaderElectionConfig, v1.36.
        """
        return self.identity.rpartition("_")[0]


async def holder_of(client: Client, clock: Clock, namespace: str, name: str) -> LeaseHolder | None:
    """Return the holder of a lease; None if it has none, or does not exist."""
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
    duration_s = float(spec.get("leaseDurationSeconds") or _DURATION_S)
    return LeaseHolder(spec["holderIdentity"], age_s, duration_s)


async def kubesched_pod(client: Client, holder: LeaseHolder) -> str:
    """Return `namespace/name` of the holder's pod if it runs kubesched; empty otherwise.

    The host name is that of the pod, or of its node if the pod uses hostNetwork.
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
    """Return whether an image, a command or an argument names kubesched."""
    return any(
        _OURS in word
        for container in pod["spec"]["containers"]
        for word in (
            container.get("image", ""),
            *(container.get("command") or ()),
            *(container.get("args") or ()),
        )
    )
