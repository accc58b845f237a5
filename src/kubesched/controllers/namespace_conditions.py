"""How far the deletion of a namespace is, as its status says it.

Owns the five conditions and their texts. Never deletes anything.
Upstream: pkg/controller/namespace/deletion/status_condition_utils.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubesched.client.cached.documents import Document
from kubesched.client.resources import Resource

DISCOVERY_FAILURE: Final = "NamespaceDeletionDiscoveryFailure"
PARSING_FAILURE: Final = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
CONTENT_REMAINING: Final = "NamespaceContentRemaining"
FINALIZERS_REMAINING: Final = "NamespaceFinalizersRemaining"

_FINE: Final[Mapping[str, tuple[str, str]]] = {
    DISCOVERY_FAILURE: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING_FAILURE: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT_FAILURE: (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    CONTENT_REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS_REMAINING: (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


@dataclass(slots=True)
class Progress:
    """What one look at the content of a namespace found."""

    discovery_failures: dict[str, str] = field(default_factory=dict)
    """Why a group and version could not be asked for its kinds."""
    content_failures: list[str] = field(default_factory=list)
    remaining: dict[Resource, int] = field(default_factory=dict)
    """How many objects are left of a kind."""
    finalizers: dict[str, int] = field(default_factory=dict)
    """How many objects a finalizer holds."""
    wait_s: int = 0
    """How long what is left is expected to take."""

    @property
    def has_failed(self) -> bool:
        """Return whether something went wrong that may go well next time."""
        return bool(self.discovery_failures or self.content_failures)


def updated_conditions(
    conditions: Sequence[Document], progress: Progress, now: str, *, pods_only: bool
) -> list[Document] | None:
    """Return the conditions that follow from a look; None if they are what they were.

    Args:
        conditions: Those there are.
        progress: What was found.
        now: The time, as documents have it.
        pods_only: Whether the look ended at the pods, which are deleted first. What is left is not
            told then, as on upstream.
    """
    # Parity: status_condition_utils.go Update, v1.36.
    troubles = _troubles(progress, pods_only=pods_only)
    result = [dict(one) for one in conditions]
    has_changed = False
    for type_, fine in _FINE.items():
        status = "True" if type_ in troubles else "False"
        reason, message = troubles.get(type_, fine)
        told = {"status": status, "reason": reason, "message": message}
        known = next((one for one in result if one.get("type") == type_), None)
        if known is None:
            result.append({"type": type_, "lastTransitionTime": now, **told})
            has_changed = True
        elif any(known.get(part) != value for part, value in told.items()):
            if known.get("status") != status:
                known["lastTransitionTime"] = now
            known.update(told)
            has_changed = True
    return result if has_changed else None


def _troubles(progress: Progress, *, pods_only: bool) -> dict[str, tuple[str, str]]:
    """Return reason and message of the conditions that are not fine."""
    found: dict[str, tuple[str, str]] = {}
    if progress.discovery_failures:
        found[DISCOVERY_FAILURE] = ("DiscoveryFailed", _discovery_text(progress))
    if progress.content_failures:
        texts = sorted(progress.content_failures)
        found[CONTENT_FAILURE] = (
            "ContentDeletionFailed",
            f"Failed to delete all resource types, {len(texts)} remaining: {', '.join(texts)}",
        )
    if pods_only:
        return found
    if progress.remaining:
        left = sorted(
            f"{one.plural}.{one.group} has {number} resource instances"
            for one, number in progress.remaining.items()
        )
        found[CONTENT_REMAINING] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(left)}",
        )
    if progress.finalizers:
        held = sorted(
            f"{name} in {number} resource instances" for name, number in progress.finalizers.items()
        )
        found[FINALIZERS_REMAINING] = (
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: " + ", ".join(held),
        )
    return found


def _discovery_text(progress: Progress) -> str:
    failures = progress.discovery_failures
    listed = ", ".join(f"{name}: {failures[name]}" for name in sorted(failures))
    return (
        f"Discovery failed for some groups, {len(failures)} failing: unable to retrieve the "
        f"complete list of server APIs: {listed}"
    )
