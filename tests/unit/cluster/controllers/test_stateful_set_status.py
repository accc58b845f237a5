from __future__ import annotations

from kubesched.api.times import parse_time
from kubesched.cluster.controllers.stateful_set.status import StatefulSetStatus
from tests.unit.cluster.controllers.workload_documents import Document, a_pod, a_stateful_set

_NOW_S = parse_time("2026-01-01T00:01:00Z")


def _status(**counts: int) -> StatefulSetStatus:
    return StatefulSetStatus(2, "old", "new", 0, **counts)


def test_pods_are_counted_by_state() -> None:
    status = _status()
    status.count(
        [
            a_pod("web-0", controller_revision_hash="old"),
            a_pod("web-1", controller_revision_hash="new", ready_since="2026-01-01T00:00:55Z"),
            a_pod("web-2", controller_revision_hash="new", ready=False),
            a_pod("web-3", controller_revision_hash="new", going=True),
            a_pod("web-4", phase="", controller_revision_hash="new"),
        ],
        10,
        _NOW_S,
    )
    assert status.document() == {
        "observedGeneration": 2,
        "replicas": 4,
        "readyReplicas": 3,
        "availableReplicas": 2,
        "currentReplicas": 1,
        "updatedReplicas": 2,
        "currentRevision": "old",
        "updateRevision": "new",
        "collisionCount": 0,
    }


def test_an_update_is_complete_when_all_replicas_have_it_and_are_ready() -> None:
    status = _status(replicas=3, ready_replicas=2, updated_replicas=3)
    status.complete_rolling_update(a_stateful_set(3))
    assert status.current_revision == "old"
    status.ready_replicas = 3
    status.complete_rolling_update(a_stateful_set(3, updateStrategy={"type": "OnDelete"}))
    assert status.current_revision == "old"
    status.complete_rolling_update(a_stateful_set(3))
    assert (status.current_revision, status.current_replicas) == ("new", 3)


def test_an_unchanged_status_is_not_written() -> None:
    known: Document = {
        "observedGeneration": 2,
        "replicas": 1,
        "availableReplicas": 0,
        "currentRevision": "old",
        "updateRevision": "new",
        "collisionCount": 7,
    }
    assert not _status(replicas=1).differs_from(a_stateful_set(status=known))
    assert _status(replicas=2).differs_from(a_stateful_set(status=known))
    assert _status(replicas=1).differs_from(a_stateful_set(status={**known, "readyReplicas": 1}))
    assert _status(replicas=1).differs_from(
        a_stateful_set(status={**known, "observedGeneration": 1})
    )
    assert _status(replicas=1).differs_from(a_stateful_set(status={**known, "updateRevision": "x"}))
