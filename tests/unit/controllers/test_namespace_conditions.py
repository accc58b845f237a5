"""What the status of a namespace says while it is deleted."""

from __future__ import annotations

from kubesched.client.resources import CONFIG_MAPS, PODS, REPLICA_SETS
from kubesched.controllers.namespace_conditions import Progress, updated_conditions

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
FINE = [
    ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions"),
    ("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
    ("NamespaceContentRemaining", "False", "ContentRemoved"),
    ("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers"),
]


def test_all_is_fine_when_nothing_is_left() -> None:
    conditions = updated_conditions([], Progress(), NOW, pods_only=False)
    assert conditions is not None
    assert [(one["type"], one["status"], one["reason"]) for one in conditions] == FINE
    assert {one["lastTransitionTime"] for one in conditions} == {NOW}


def test_what_is_the_same_is_not_written_again() -> None:
    first = updated_conditions([], Progress(), THEN, pods_only=False)
    assert first is not None
    assert updated_conditions(first, Progress(), NOW, pods_only=False) is None


def test_what_is_left_is_told_in_order() -> None:
    progress = Progress(
        remaining={REPLICA_SETS: 2, PODS: 1, CONFIG_MAPS: 3}, finalizers={"b.c/d": 1, "a.b/c": 4}
    )
    conditions = updated_conditions([], progress, NOW, pods_only=False)
    assert conditions is not None
    told = {one["type"]: one for one in conditions}
    assert told["NamespaceContentRemaining"]["reason"] == "SomeResourcesRemain"
    assert told["NamespaceContentRemaining"]["message"] == (
        "Some resources are remaining: configmaps. has 3 resource instances, "
        "pods. has 1 resource instances, replicasets.apps has 2 resource instances"
    )
    assert told["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "a.b/c in 4 resource instances, b.c/d in 1 resource instances"
    )


def test_pods_that_are_left_are_not_told_of() -> None:
    progress = Progress(remaining={PODS: 1}, finalizers={"a.b/c": 1})
    conditions = updated_conditions([], progress, NOW, pods_only=True)
    assert conditions is not None
    assert [(one["type"], one["status"], one["reason"]) for one in conditions] == FINE


def test_failures_are_told_and_only_what_changes_has_a_new_time() -> None:
    before = updated_conditions([], Progress(), THEN, pods_only=False)
    assert before is not None
    progress = Progress(content_failures=["second", "first"])
    after = updated_conditions(before, progress, NOW, pods_only=False)
    assert after is not None
    told = {one["type"]: one for one in after}
    assert told["NamespaceDeletionContentFailure"] == {
        "type": "NamespaceDeletionContentFailure",
        "status": "True",
        "reason": "ContentDeletionFailed",
        "message": "Failed to delete all resource types, 2 remaining: first, second",
        "lastTransitionTime": NOW,
    }
    others = [one for name, one in told.items() if name != "NamespaceDeletionContentFailure"]
    assert {one["lastTransitionTime"] for one in others} == {THEN}


def test_groups_that_do_not_answer_are_told_of() -> None:
    progress = Progress(discovery_failures={"metrics.k8s.io/v1": "not there"})
    conditions = updated_conditions([], progress, NOW, pods_only=False)
    assert conditions is not None
    assert conditions[0]["reason"] == "DiscoveryFailed"
    assert conditions[0]["message"] == (
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of "
        "server APIs: metrics.k8s.io/v1: not there"
    )
