"""Conditions of a terminating namespace."""

from __future__ import annotations

from kubesched.client.resources import CONFIG_MAPS, PODS, REPLICA_SETS
from kubesched.cluster.controllers.namespace.conditions import DeletionProgress, updated_conditions

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
FINE = [
    ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions"),
    ("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
    ("NamespaceContentRemaining", "False", "ContentRemoved"),
    ("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers"),
]


def test_conditions_without_remaining_content() -> None:
    conditions = updated_conditions([], DeletionProgress(), NOW, pods_only=False)
    assert conditions is not None
    assert [
        (condition["type"], condition["status"], condition["reason"]) for condition in conditions
    ] == FINE
    assert {condition["lastTransitionTime"] for condition in conditions} == {NOW}


def test_unchanged_conditions_are_not_written() -> None:
    first = updated_conditions([], DeletionProgress(), THEN, pods_only=False)
    assert first is not None
    assert updated_conditions(first, DeletionProgress(), NOW, pods_only=False) is None


def test_remaining_content_is_sorted() -> None:
    progress = DeletionProgress(
        remaining={REPLICA_SETS: 2, PODS: 1, CONFIG_MAPS: 3}, finalizers={"b.c/d": 1, "a.b/c": 4}
    )
    conditions = updated_conditions([], progress, NOW, pods_only=False)
    assert conditions is not None
    reported = {condition["type"]: condition for condition in conditions}
    assert reported["NamespaceContentRemaining"]["reason"] == "SomeResourcesRemain"
    assert reported["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 3 resource instances, "
        "pods. has 1 resource instances, replicasets.apps has 2 resource instances"
    )
    assert reported["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "a.b/c in 4 resource instances, b.c/d in 1 resource instances"
    )


def test_remaining_pods_are_not_reported() -> None:
    progress = DeletionProgress(remaining={PODS: 1}, finalizers={"a.b/c": 1})
    conditions = updated_conditions([], progress, NOW, pods_only=True)
    assert conditions is not None
    assert [
        (condition["type"], condition["status"], condition["reason"]) for condition in conditions
    ] == FINE


def test_failures_are_reported_and_unchanged_conditions_keep_their_time() -> None:
    before = updated_conditions([], DeletionProgress(), THEN, pods_only=False)
    assert before is not None
    progress = DeletionProgress(content_failures=["second", "first"])
    after = updated_conditions(before, progress, NOW, pods_only=False)
    assert after is not None
    reported = {condition["type"]: condition for condition in after}
    assert reported["NamespaceDeletionContentFailure"] == {
        "type": "NamespaceDeletionContentFailure",
        "status": "True",
        "reason": "ContentDeletionFailed",
        "message": "Failed to delete all resource types, 2 remaining: first, second",
        "lastTransitionTime": NOW,
    }
    others = [
        condition
        for name, condition in reported.items()
        if name != "NamespaceDeletionContentFailure"
    ]
    assert {condition["lastTransitionTime"] for condition in others} == {THEN}


def test_discovery_failures_are_reported() -> None:
    progress = DeletionProgress(discovery_failures={"metrics.k8s.io/v1": "not there"})
    conditions = updated_conditions([], progress, NOW, pods_only=False)
    assert conditions is not None
    assert conditions[0]["reason"] == "DiscoveryFailed"
    assert conditions[0]["message"] == (
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of "
        "server APIs: metrics.k8s.io/v1: not there"
    )
