"""The owner graph, and which objects a change enqueues."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.client.resources import CONFIG_MAPS, NODES, PODS, REPLICA_SETS, Resource
from kubesched.cluster.controllers.garbage_collector.owner_graph import Node, OwnerGraph, OwnerState

Document = dict[str, Any]
GOING = "2026-01-01T00:00:00Z"


def meta(name: str, *owners: Document, namespace: str = "ns", **more: Any) -> Document:
    found: Document = {"name": name, "uid": f"uid-{name}", **more}
    if namespace:
        found["namespace"] = namespace
    if owners:
        found["ownerReferences"] = list(owners)
    return found


def ref(name: str, resource: Resource = REPLICA_SETS, **more: Any) -> Document:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": f"uid-{name}",
        **more,
    }


def going(name: str, finalizer: str, *owners: Document) -> Document:
    return meta(name, *owners, deletionTimestamp=GOING, finalizers=[finalizer])


@pytest.fixture
def graph() -> OwnerGraph:
    """Return a graph of a ReplicaSet and its two pods, of which one blocks it."""
    made = OwnerGraph()
    made.put(REPLICA_SETS, meta("rs"))
    made.put(PODS, meta("one", ref("rs", blockOwnerDeletion=True)))
    made.put(PODS, meta("two", ref("rs")))
    return made


def names(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_dependents_are_found_by_their_owner(graph: OwnerGraph) -> None:
    assert names(graph.dependents_of("uid-rs")) == ["one", "two"]
    assert graph.is_blocked("uid-rs")
    assert not graph.has_dependents("uid-one")
    assert len(graph) == 3


def test_an_object_with_an_existing_owner_is_not_processed(graph: OwnerGraph) -> None:
    assert graph.put(PODS, meta("three", ref("rs"))) == []


def test_a_dependent_seen_before_its_owner_is_processed(graph: OwnerGraph) -> None:
    assert graph.put(PODS, meta("early", ref("late"))) == ["uid-early"]
    assert graph.put(REPLICA_SETS, meta("late")) == []
    assert names(graph.dependents_of("uid-late")) == ["early"]


def test_changes_unrelated_to_ownership_are_ignored(graph: OwnerGraph) -> None:
    changed = meta("one", ref("rs", blockOwnerDeletion=True), labels={"a": "b"})
    assert graph.put(PODS, changed) == []


def test_dependents_of_a_deleted_owner_are_processed(graph: OwnerGraph) -> None:
    assert graph.remove("uid-rs") == ["uid-one", "uid-two"]
    node = graph.get("uid-one")
    assert node is not None
    assert graph.owner_state(node.owners[0], node) is OwnerState.DANGLING


def test_a_dependent_of_a_deleted_owner_has_a_dangling_reference(graph: OwnerGraph) -> None:
    graph.remove("uid-rs")
    assert graph.put(PODS, meta("late", ref("rs"))) == ["uid-late"]


def test_removing_twice_has_no_effect(graph: OwnerGraph) -> None:
    assert graph.remove("uid-two") == []
    assert graph.remove("uid-two") == []
    assert names(graph.dependents_of("uid-rs")) == ["one"]


def test_dependents_of_a_waiting_owner_are_processed(graph: OwnerGraph) -> None:
    looked_at = graph.put(REPLICA_SETS, going("rs", "foregroundDeletion"))
    assert looked_at == ["uid-rs", "uid-one", "uid-two"]
    node = graph.get("uid-one")
    assert node is not None
    assert graph.owner_state(node.owners[0], node) is OwnerState.WAITING


def test_a_waiting_owner_is_processed_after_its_last_blocker(
    graph: OwnerGraph,
) -> None:
    graph.put(PODS, meta("three", ref("rs", blockOwnerDeletion=True)))
    graph.put(REPLICA_SETS, going("rs", "foregroundDeletion"))
    assert graph.remove("uid-one") == []
    assert graph.remove("uid-three") == ["uid-rs"]
    assert not graph.is_blocked("uid-rs")
    assert graph.has_dependents("uid-rs")


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param([ref("rs", blockOwnerDeletion=False)], id="it no longer blocks"),
        pytest.param([ref("other")], id="it has another owner"),
        pytest.param([], id="it has no owner"),
    ],
)
def test_a_waiting_owner_without_blockers_is_processed(
    graph: OwnerGraph, owners: list[Document]
) -> None:
    graph.put(REPLICA_SETS, meta("other"))
    graph.put(REPLICA_SETS, going("rs", "foregroundDeletion"))
    assert "uid-rs" in graph.put(PODS, meta("one", *owners))
    assert not graph.is_blocked("uid-rs")


def test_an_orphaning_owner_is_processed_alone(graph: OwnerGraph) -> None:
    assert graph.put(REPLICA_SETS, going("rs", "orphan")) == ["uid-rs"]


def test_a_deletion_with_foreign_finalizers_is_ignored(graph: OwnerGraph) -> None:
    assert graph.put(REPLICA_SETS, going("rs", "example.com/hold")) == []


def test_owners_may_be_cluster_scoped() -> None:
    graph = OwnerGraph()
    graph.put(NODES, meta("n", namespace=""))
    assert graph.put(PODS, meta("p", ref("n", NODES))) == []


@pytest.mark.parametrize(
    ("reference", "namespace"),
    [
        pytest.param(ref("rs"), "elsewhere", id="from another namespace"),
        pytest.param({**ref("rs"), "name": "another"}, "ns", id="by another name"),
        pytest.param({**ref("rs"), "kind": "Deployment"}, "ns", id="as another kind"),
        pytest.param({**ref("rs"), "apiVersion": "v1"}, "ns", id="as of another group"),
    ],
)
def test_a_mismatched_reference_is_looked_up(
    graph: OwnerGraph, reference: Document, namespace: str
) -> None:
    assert graph.put(PODS, meta("astray", reference, namespace=namespace)) == ["uid-astray"]
    node = graph.get("uid-astray")
    assert node is not None
    assert graph.owner_state(reference, node) is OwnerState.UNKNOWN
    graph.record_absent(reference, node)
    assert graph.owner_state(reference, node) is OwnerState.DANGLING
    # The dependent with a correct reference is unaffected.
    right = graph.get("uid-one")
    assert right is not None
    assert graph.owner_state(right.owners[0], right) is OwnerState.SOLID


def test_another_version_of_the_group_is_the_same_object(graph: OwnerGraph) -> None:
    older = {**ref("rs"), "apiVersion": "apps/v1beta2"}
    assert graph.put(PODS, meta("old", older)) == []


def test_dependents_with_mismatched_references_are_processed() -> None:
    graph = OwnerGraph()
    graph.put(PODS, meta("wrong", {**ref("rs"), "name": "another"}))
    graph.put(PODS, meta("right", ref("rs")))
    assert graph.put(REPLICA_SETS, meta("rs")) == ["uid-wrong"]


def test_dependents_of_a_removed_resource_are_looked_up(
    graph: OwnerGraph,
) -> None:
    assert graph.drop(REPLICA_SETS) == ["uid-one", "uid-two"]
    node = graph.get("uid-one")
    assert node is not None
    assert graph.owner_state(node.owners[0], node) is OwnerState.UNKNOWN
    assert graph.drop(CONFIG_MAPS) == []
