"""Whether the claims of a StatefulSet go with their pod, with their set, or stay.

Owns the owner references that a retention policy asks for. Never deletes a claim: garbage
collection does, by those references.
Upstream: pkg/controller/statefulset/stateful_set_utils.go
"""

from __future__ import annotations

from typing import Final

from kubesched.client.cached.documents import Document, controller_ref, name_of, uid_of
from kubesched.controllers.stateful_set_identity import is_in_range

_RETAIN: Final = "Retain"
_DELETE: Final = "Delete"


def retention_policy(stateful_set: Document) -> tuple[str, str]:
    """Return what happens to claims when the set is scaled down, and when it is deleted."""
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenScaled") or _RETAIN, policy.get("whenDeleted") or _RETAIN


def has_stale_owner(claim: Document, owner: Document) -> bool:
    """Return whether a claim names an owner that was here before this one of the same name."""
    for reference in _references(claim):
        if _means(reference, owner):
            return bool(reference.get("uid") != uid_of(owner))
    return False


def has_unexpected_controller(claim: Document, stateful_set: Document, pod: Document) -> bool:
    """Return whether somebody else controls a claim that a policy of ours is for."""
    if retention_policy(stateful_set) == (_RETAIN, _RETAIN):
        return False
    for reference in _references(claim):
        if _means(reference, stateful_set) or _means(reference, pod):
            owner = stateful_set if _means(reference, stateful_set) else pod
            if reference.get("uid") != uid_of(owner):
                return True
        elif reference.get("controller"):
            return True
    return False


def is_owner_up_to_date(claim: Document, stateful_set: Document, pod: Document) -> bool:
    """Return whether the owners of a claim are what the policy asks for.

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
    wanted = _wanted_owner(stateful_set, pod)
    return owned_by_set == (wanted is stateful_set) and owned_by_pod == (wanted is pod)


def owners_of(claim: Document, stateful_set: Document, pod: Document) -> list[Document]:
    """Return the owner references that a claim should have.

    Parity: stateful_set_utils.go updateClaimOwnerRefForSetAndPod, v1.36.
    """
    others = [
        one for one in _references(claim) if not _means(one, stateful_set) and not _means(one, pod)
    ]
    if has_unexpected_controller(claim, stateful_set, pod):
        return others
    wanted = _wanted_owner(stateful_set, pod)
    return others if wanted is None else [*others, controller_ref(wanted)]


def _wanted_owner(stateful_set: Document, pod: Document) -> Document | None:
    """Return with whom a claim goes: the pod, the set, or nobody."""
    when_scaled, when_deleted = retention_policy(stateful_set)
    if when_scaled == _DELETE and not is_in_range(pod, stateful_set):
        return pod
    return stateful_set if when_deleted == _DELETE else None


def _references(claim: Document) -> list[Document]:
    return list(claim["metadata"].get("ownerReferences") or ())


def _means(reference: Document, owner: Document) -> bool:
    return (
        reference.get("apiVersion") == owner["apiVersion"]
        and reference.get("kind") == owner["kind"]
        and reference.get("name") == name_of(owner)
    )


def _is_owned(claim: Document, owner: Document) -> bool:
    return any(one.get("uid") == uid_of(owner) for one in _references(claim))


def _has_owner_without_control(claim: Document, stateful_set: Document, pod: Document) -> bool:
    uids = (uid_of(stateful_set), uid_of(pod))
    return any(one.get("uid") in uids and not one.get("controller") for one in _references(claim))
