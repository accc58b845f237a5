"""Which claims a pod uses.

Owns the names of the claims of a pod's volumes, what those made for ephemeral ones look like, and
the index that finds pods by them. Never asks whether a claim exists.
Upstream: pkg/controller/volume/common/common.go,
staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kubesched.client.cached.documents import (
    Document,
    controller_ref,
    is_terminating,
    name_of,
    namespace_of,
    owner_of,
    uid_of,
)

if TYPE_CHECKING:
    # Who only asks what claims look like is spared the client.
    from kubesched.client.cached.informers import Informer

_INDEX: Final = "claims"


def index_by_claim(pods: Informer) -> None:
    """Have pods found by the keys of the claims they use."""
    pods.add_index(_INDEX, claim_keys)


def pods_with_claim(pods: Informer, key: str) -> list[Document]:
    """Return the pods that name a claim; `index_by_claim` has been called."""
    return pods.by(_INDEX, key)


def claim_keys(pod: Mapping[str, Any]) -> list[str]:
    """Return the keys of the claims of a pod's volumes."""
    namespace = namespace_of(pod)
    return [f"{namespace}/{name}" for _, name in _named_claims(pod)]


def ephemeral_volumes(pod: Mapping[str, Any]) -> Iterator[Document]:
    """Return the volumes of a pod whose claims are made for it."""
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("ephemeral") is not None:
            yield volume


def ephemeral_claim_name(pod: Mapping[str, Any], volume: Mapping[str, Any]) -> str:
    """Return how the claim of an ephemeral volume is called."""
    return f"{name_of(pod)}-{volume['name']}"


def ephemeral_claim(pod: Mapping[str, Any], volume: Mapping[str, Any]) -> Document:
    """Return the claim that is made for an ephemeral volume.

    Parity: pkg/controller/volume/ephemeral/controller.go handleVolume, v1.36.
    """
    template = copy.deepcopy(volume["ephemeral"].get("volumeClaimTemplate") or {})
    given = template.get("metadata") or {}
    metadata: Document = {
        "name": ephemeral_claim_name(pod, volume),
        "namespace": namespace_of(pod),
        "ownerReferences": [controller_ref(pod)],
    }
    for part in ("annotations", "labels"):
        if given.get(part):
            metadata[part] = given[part]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def is_made_for(claim: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Return whether a claim was made for an ephemeral volume of this very pod."""
    owner = owner_of(claim)
    return (
        owner is not None
        and owner["uid"] == uid_of(pod)
        and namespace_of(claim) == namespace_of(pod)
    )


def uses_claim(pod: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Return whether a claim has to stay as long as this pod is there.

    Parity: pkg/controller/volume/pvcprotection podUsesPVCForDeletion, v1.36: a pod without a node
    does not count, since no kubelet will start it with a claim that is being deleted.
    """
    if not pod["spec"].get("nodeName"):
        return False
    wanted = name_of(claim)
    for is_ephemeral, name in _named_claims(pod):
        if name != wanted:
            continue
        if not is_ephemeral or (not _is_shut_down(pod) and is_made_for(claim, pod)):
            return True
    return False


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether nothing of a pod runs, nor will."""
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
    """Return whether the kubelet is done with a pod, or nobody waits for it any more."""
    metadata = pod["metadata"]
    return is_terminating(pod) and metadata.get("deletionGracePeriodSeconds") == 0
