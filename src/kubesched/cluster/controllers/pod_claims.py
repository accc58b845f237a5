"""Claims of a pod's volumes, and the index of pods by claim.

Never checks whether a claim exists.
Upstream: pkg/controller/volume/common/common.go,
staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    is_terminating,
    name_of,
    namespace_of,
    owner_of,
    uid_of,
)
from kubesched.cluster.informers.informer import Informer
from kubesched.workloads.volume_provisioning import ephemeral_claim_name

_INDEX: Final = "claims"


def index_by_claim(pods: Informer) -> None:
    """Index pods by the keys of their claims."""
    pods.add_index(_INDEX, claim_keys)


def pods_with_claim(pods: Informer, key: str) -> list[Document]:
    """Return the pods that use a claim; requires `index_by_claim`."""
    return pods.by_index(_INDEX, key)


def claim_keys(pod: Mapping[str, Any]) -> list[str]:
    """Return the keys of the claims of a pod's volumes."""
    namespace = namespace_of(pod)
    return [f"{namespace}/{name}" for _, name in _named_claims(pod)]


def ephemeral_volumes(pod: Mapping[str, Any]) -> Iterator[Document]:
    """Return the ephemeral volumes of a pod."""
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("ephemeral") is not None:
            yield volume


def is_made_for(claim: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Return whether a claim belongs to an ephemeral volume of this pod."""
    owner = owner_of(claim)
    return (
        owner is not None
        and owner["uid"] == uid_of(pod)
        and namespace_of(claim) == namespace_of(pod)
    )


def uses_claim(pod: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Return whether a pod protects a claim from deletion.

    Parity: pkg/controller/volume/pvcprotection podUsesPVCForDeletion, v1.36: a pod without a node
    does not count, since no kubelet will start it with a claim that is being deleted.
    """
    if not pod["spec"].get("nodeName"):
        return False
    claim_name = name_of(claim)
    for is_ephemeral, name in _named_claims(pod):
        if name != claim_name:
            continue
        if not is_ephemeral or (not _is_shut_down(pod) and is_made_for(claim, pod)):
            return True
    return False


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether no container of a pod runs or will run."""
    # Parity: pkg/volume/util/util.go IsPodTerminated, v1.36.
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    return is_terminating(pod) and not any(
        _is_running(one)
        for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for one in status.get(kind) or ()
    )


def _is_running(container: Mapping[str, Any]) -> bool:
    state = container.get("state") or {}
    return "terminated" not in state and "waiting" not in state


def _named_claims(pod: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    for volume in pod["spec"].get("volumes") or ():
        source = volume.get("persistentVolumeClaim")
        if source is not None:
            yield False, source["claimName"]
        elif volume.get("ephemeral") is not None:
            yield True, ephemeral_claim_name(pod, volume)


def _is_shut_down(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod was deleted without a remaining grace period."""
    metadata = pod["metadata"]
    return is_terminating(pod) and metadata.get("deletionGracePeriodSeconds") == 0
