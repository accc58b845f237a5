"""Retention policy of a StatefulSet's claims.

Owns the owner references that the policy requires. Never deletes a claim: the garbage collector
does, by these references.
Upstream: pkg/controller/statefulset/stateful_set_utils.go
"""

from __future__ import annotations

from typing import Final

from kubesched.api.documents import Document, controller_ref, name_of, uid_of
from kubesched.cluster.controllers.stateful_set.identity import is_in_range

_RETAIN: Final = "Retain"
_DELETE: Final = "Delete"


def retention_policy(stateful_set: Document) -> tuple[str, str]:
    """Return the policies for scaling down and for deletion of the set."""
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenScaled") or _RETAIN, policy.get("whenDeleted") or _RETAIN


def has_stale_owner(claim: Document, owner: Document) -> bool:
    """Return whether a claim names a previous object with the owner's name."""
    for reference in _references(claim):
        if _refers_to(reference, owner):
            return bool(reference.get("uid") != uid_of(owner))
    return False


def has_unexpected_controller(claim: Document, stateful_set: Document, pod: Document) -> bool:
    """Return whether another controller owns a claim that has a policy."""
    if retention_policy(stateful_set) == (_RETAIN, _RETAIN):
        return False
    for reference in _references(claim):
        if _refers_to(reference, stateful_set) or _refers_to(reference, pod):
            owner = stateful_set if _refers_to(reference, stateful_set) else pod
            if reference.get("uid") != uid_of(owner):
                return True
        elif reference.get("controller"):
            return True
    return False


def is_owner_up_to_date(claim: Document, stateful_set: Document, pod: Document) -> bool:
    """Return whether the owners of a claim match the policy.

    Parity: stateful_set_utils.go isClaimOwnerUpToDate, v1.36: a claim of owners that are gone is
    left alone.
    """
    if has_stale_owner(claim, stateful_set) or has_stale_owner(claim, pod):
        return True
    owned_by_set, owned_by_pod = _is_owned(claim, stateful_set), _is_owned(claim, pod)
    if has_unexpected_controller(claim, stateful_set, pod):
        return not owned_by_set and not owned_by_pod
    if _has_owner_without_control(claim, stateful_set, pod):
        return False
    desired_owner = _desired_owner(stateful_set, pod)
    return owned_by_set == (desired_owner is stateful_set) and owned_by_pod == (
        desired_owner is pod
    )


def desired_owner_references(
    claim: Document, stateful_set: Document, pod: Document
) -> list[Document]:
    """Return the owner references that a claim should have.

    Parity: stateful_set_utils.go updateClaimOwnerRefForSetAndPod, v1.36.
    """
    others = [
        reference
        for reference in _references(claim)
        if not _refers_to(reference, stateful_set) and not _refers_to(reference, pod)
    ]
    if has_unexpected_controller(claim, stateful_set, pod):
        return others
    desired_owner = _desired_owner(stateful_set, pod)
    return others if desired_owner is None else [*others, controller_ref(desired_owner)]


def _desired_owner(stateful_set: Document, pod: Document) -> Document | None:
    """Return the desired owner of a claim: the pod, the set, or None."""
    when_scaled, when_deleted = retention_policy(stateful_set)
    if when_scaled == _DELETE and not is_in_range(pod, stateful_set):
        return pod
    return stateful_set if when_deleted == _DELETE else None


def _references(claim: Document) -> list[Document]:
    return list(claim["metadata"].get("ownerReferences") or ())


def _refers_to(reference: Document, owner: Document) -> bool:
    return (
        reference.get("apiVersion") == owner["apiVersion"]
        and reference.get("kind") == owner["kind"]
        and reference.get("name") == name_of(owner)
    )


def _is_owned(claim: Document, owner: Document) -> bool:
    return any(reference.get("uid") == uid_of(owner) for reference in _references(claim))


def _has_owner_without_control(claim: Document, stateful_set: Document, pod: Document) -> bool:
    uids = (uid_of(stateful_set), uid_of(pod))
    return any(
        reference.get("uid") in uids and not reference.get("controller")
        for reference in _references(claim)
    )
