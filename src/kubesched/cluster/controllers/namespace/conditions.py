"""Conditions of a namespace that is being deleted.

Owns the five conditions and their texts.
Upstream: pkg/controller/namespace/deletion/status_condition_utils.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubesched.api.documents import Document
from kubesched.client.resources import Resource

DISCOVERY_FAILURE: Final = "NamespaceDeletionDiscoveryFailure"
PARSING_FAILURE: Final = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
CONTENT_REMAINING: Final = "NamespaceContentRemaining"
FINALIZERS_REMAINING: Final = "NamespaceFinalizersRemaining"

_SUCCESS: Final[Mapping[str, tuple[str, str]]] = {
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
class DeletionProgress:
    """What one pass over the content of a namespace found."""

    discovery_failures: dict[str, str] = field(default_factory=dict)
    """Discovery errors by group version."""
    content_failures: list[str] = field(default_factory=list)
    remaining: dict[Resource, int] = field(default_factory=dict)
    """Remaining objects by resource."""
    finalizers: dict[str, int] = field(default_factory=dict)
    """Objects held by each finalizer."""
    wait_s: int = 0
    """Estimated time until the rest is gone."""

    @property
    def has_failed(self) -> bool:
        """Return whether there was an error that a retry may resolve."""
        return bool(self.discovery_failures or self.content_failures)


def updated_conditions(
    conditions: Sequence[Document], progress: DeletionProgress, now: str, *, pods_only: bool
) -> list[Document] | None:
    """Return the updated conditions; None if nothing changed.

    Args:
        conditions: The current conditions.
        progress: The result of the pass.
        now: The current time.
        pods_only: Whether only pods were deleted, which go first. As upstream,
            remaining content is not reported then.
    """
    # Parity: status_condition_utils.go Update, v1.36.
    failures = _failures(progress, pods_only=pods_only)
    result = [dict(condition) for condition in conditions]
    has_changed = False
    for type_, success in _SUCCESS.items():
        status = "True" if type_ in failures else "False"
        reason, message = failures.get(type_, success)
        update = {"status": status, "reason": reason, "message": message}
        existing = next((one for one in result if one.get("type") == type_), None)
        if existing is None:
            result.append({"type": type_, "lastTransitionTime": now, **update})
            has_changed = True
        elif any(existing.get(field) != value for field, value in update.items()):
            if existing.get("status") != status:
                existing["lastTransitionTime"] = now
            existing.update(update)
            has_changed = True
    return result if has_changed else None


def _failures(progress: DeletionProgress, *, pods_only: bool) -> dict[str, tuple[str, str]]:
    """Return reason and message of the failure conditions."""
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
        remaining_texts = sorted(
            f"{one.plural}.{one.group} has {number} resource instances"
            for one, number in progress.remaining.items()
        )
        found[CONTENT_REMAINING] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(remaining_texts)}",
        )
    if progress.finalizers:
        finalizer_texts = sorted(
            f"{name} in {number} resource instances" for name, number in progress.finalizers.items()
        )
        found[FINALIZERS_REMAINING] = (
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: " + ", ".join(finalizer_texts),
        )
    return found


def _discovery_text(progress: DeletionProgress) -> str:
    failures = progress.discovery_failures
    listed = ", ".join(f"{name}: {failures[name]}" for name in sorted(failures))
    return (
        f"Discovery failed for some groups, {len(failures)} failing: unable to retrieve the "
        f"complete list of server APIs: {listed}"
    )
