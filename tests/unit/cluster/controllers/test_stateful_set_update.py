"""Pods that one sync of a StatefulSet creates and deletes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from kubesched.api.times import parse_time
from kubesched.cluster.controllers.controller_revisions import template_patch
from kubesched.cluster.controllers.stateful_set.pods import StatefulPodControl
from kubesched.cluster.controllers.stateful_set.status import StatefulSetStatus
from kubesched.cluster.controllers.stateful_set.update import Revisions, StatefulSetSync
from tests.unit.cluster.controllers.workload_documents import (
    Document,
    a_pod,
    a_stateful_set,
    a_template,
)

_NOW_S = parse_time("2026-01-01T00:01:00Z")


@dataclass
class _Written:
    """Records the writes."""

    writes: list[str] = field(default_factory=list)
    stale: bool = False

    async def create(self, _: Document, pod: Document) -> None:
        revision = pod["metadata"]["labels"]["controller-revision-hash"]
        self.writes.append(f"create {pod['metadata']['name']} {revision}")

    async def delete(self, _: Document, pod: Document) -> None:
        self.writes.append(f"delete {pod['metadata']['name']}")

    async def correct(self, _: Document, pod: Document) -> None:
        self.writes.append(f"correct {pod['metadata']['name']}")

    async def correct_claims(self, _: Document, pod: Document) -> None: ...

    async def create_missing_claims(self, _: Document, pod: Document) -> None:
        self.writes.append(f"claims of {pod['metadata']['name']}")

    def claims_match(self, *_: Document) -> bool:
        return True

    def has_stale_claim(self, *_: Document) -> bool:
        return self.stale


def _step(
    stateful_set: Document, *pods: Document, stale: bool = False
) -> tuple[list[str], StatefulSetStatus]:
    written = _Written(stale=stale)
    old: Document = {"metadata": {"name": "old"}, "data": template_patch(a_stateful_set())}
    new: Document = {"metadata": {"name": "new"}, "data": template_patch(stateful_set)}
    step = StatefulSetSync(
        stateful_set, Revisions(old, new, 0), pods, cast(StatefulPodControl, written), _NOW_S
    )
    asyncio.run(step.run())
    return written.writes, step.status


def _pod(ordinal: int, revision: str = "new", **more: Any) -> Document:
    name = f"web-{ordinal}"
    pod = a_pod(name, controller_revision_hash=revision, **more)
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name
    return pod


def _set(replicas: int = 3, **spec: Any) -> Document:
    return a_stateful_set(replicas, template=a_template("two"), **spec)


def test_pods_are_created_one_after_the_other() -> None:
    assert _step(_set())[0] == ["create web-0 new"]
    assert _step(_set(), _pod(0))[0] == ["create web-1 new"]


def test_each_pod_waits_until_the_previous_one_is_ready() -> None:
    assert _step(_set(), _pod(0, ready=False))[0] == []
    assert _step(_set(), _pod(0, phase="Pending"))[0] == ["claims of web-0"]
    assert _step(_set(), _pod(0, going=True))[0] == []


def test_each_pod_waits_until_the_previous_one_is_available() -> None:
    slow = _set(minReadySeconds=30)
    assert _step(slow, _pod(0, ready_since="2026-01-01T00:00:31Z"))[0] == []
    assert _step(slow, _pod(0, ready_since="2026-01-01T00:00:30Z"))[0] == ["create web-1 new"]


def test_parallel_pods_are_created_together() -> None:
    writes, _ = _step(_set(podManagementPolicy="Parallel"), _pod(1, ready=False))
    assert writes == ["create web-0 new", "create web-2 new"]


def test_finished_pods_are_deleted() -> None:
    for phase in ("Failed", "Succeeded"):
        assert _step(_set(), _pod(0, phase=phase), _pod(1))[0] == ["delete web-0"]
    assert _step(_set(), _pod(0, phase="Failed", going=True))[0] == []


def test_a_stale_claim_delays_the_new_pod() -> None:
    assert _step(_set(), stale=True)[0] == []


def test_a_pod_that_lost_its_label_is_corrected() -> None:
    pod = _pod(0)
    del pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    assert _step(_set(1), pod)[0] == ["correct web-0"]


def test_scaling_down_deletes_one_pod_from_the_end() -> None:
    pods = [_pod(n) for n in range(4)]
    assert _step(_set(1), *pods)[0] == ["delete web-3"]
    pods[3] = _pod(3, going=True)
    assert _step(_set(1), *pods)[0] == []


def test_scaling_down_waits_for_an_unhealthy_pod() -> None:
    assert _step(_set(1), _pod(0, ready=False), _pod(1), _pod(2))[0] == []
    # Of the surplus pods, only the first unhealthy one may be deleted before it is healthy.
    assert _step(_set(1), _pod(0), _pod(1, ready=False), _pod(2))[0] == ["delete web-2"]
    assert _step(_set(1), _pod(0), _pod(1), _pod(2, ready=False))[0] == ["delete web-2"]
    both = [_pod(1, ready=False), _pod(2, ready=False)]
    assert _step(_set(1), _pod(0), *both)[0] == []


def test_parallel_pods_are_deleted_together() -> None:
    pods = [_pod(0, ready=False), _pod(1, ready=False), _pod(2), _pod(3, going=True)]
    writes, _ = _step(_set(1, podManagementPolicy="Parallel"), *pods)
    assert writes == ["delete web-2", "delete web-1"]


def test_an_update_replaces_the_last_pod_first() -> None:
    pods = [_pod(n, "old") for n in range(3)]
    writes, status = _step(_set(), *pods)
    assert writes == ["delete web-2"]
    assert (status.current_replicas, status.updated_replicas) == (2, 0)
    pods[2] = _pod(2, ready=False)
    assert _step(_set(), *pods)[0] == []
    pods[2] = _pod(2)
    assert _step(_set(), *pods)[0] == ["delete web-1"]


def test_an_update_stops_at_its_partition() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    pods = [_pod(0, "old"), _pod(1, "old"), _pod(2)]
    assert _step(_set(updateStrategy=strategy), *pods)[0] == []
    # A missing pod below the partition gets its old revision.
    assert _step(_set(updateStrategy=strategy), *pods[1:])[0] == ["create web-0 old"]


def test_on_delete_replaces_nothing() -> None:
    by_hand = _set(updateStrategy={"type": "OnDelete"})
    assert _step(by_hand, *[_pod(n, "old") for n in range(3)])[0] == []
    assert _step(by_hand, _pod(0, "old"), _pod(2, "old"))[0] == ["create web-1 new"]


def test_moved_ordinals_create_before_they_delete() -> None:
    moved = _set(2, ordinals={"start": 1})
    assert _step(moved, _pod(0), _pod(1))[0] == ["create web-2 new"]
    assert _step(moved, _pod(0), _pod(1), _pod(2))[0] == ["delete web-0"]


def test_a_terminating_set_only_counts() -> None:
    going = _set()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    writes, status = _step(going, _pod(0))
    assert writes == []
    assert status.replicas == 1
