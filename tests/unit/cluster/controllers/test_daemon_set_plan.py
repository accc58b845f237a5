"""Pods that one sync of a DaemonSet creates and deletes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kubesched.api.times import parse_time
from kubesched.cluster.controllers.daemon_set.controller import (
    FailedPodBackoff,
    batch_wait_s,
    concerns_placement,
)
from kubesched.cluster.controllers.daemon_set.plan import (
    DaemonPlan,
    Daemons,
    daemon_status,
    manage_plan,
    new_daemon_pod,
    new_daemons,
    rolling_update_plan,
)
from kubesched.workloads.daemon_set import DaemonPlacement, target_node
from tests.unit.cluster.controllers.workload_documents import (
    Document,
    a_daemon_set,
    a_node,
    a_pod,
    a_template,
    rolling,
)

_NOW_S = parse_time("2026-01-01T00:01:00Z")
_OWN = ("own", "NoSchedule")
_OUT = ("own", "NoExecute")


def _pod(name: str, node: str, revision: str = "new", **more: Any) -> Document:
    return a_pod(name, node=node, controller_revision_hash=revision, **more)


def _daemons(
    nodes: Iterable[Document],
    pods: Iterable[Document],
    daemon_set: Document | None = None,
) -> Daemons:
    daemon_set = daemon_set or a_daemon_set()
    return new_daemons(
        daemon_set, DaemonPlacement(daemon_set), nodes, pods, hash_="new", now_s=_NOW_S
    )


def _manage(daemons: Daemons) -> DaemonPlan:
    return manage_plan(daemons, lambda _: None)


def _deleted(plan: DaemonPlan) -> list[str]:
    return [pod["metadata"]["name"] for pod in plan.to_delete]


def _surging(surge: int | str) -> Document:
    return a_daemon_set(**rolling(surge=surge))


# -- every node has its pod -----------------------------------------------------------------------


def test_eligible_nodes_without_a_pod_get_one() -> None:
    nodes = [a_node("a"), a_node("b", _OWN), a_node("c")]
    plan = _manage(_daemons(nodes, [_pod("c", "c")]))
    assert (plan.nodes_to_fill, plan.to_delete) == (["a"], [])


def test_an_unscheduled_pod_counts_for_its_node() -> None:
    waiting = new_daemon_pod(a_daemon_set(), "a", "new")
    waiting["metadata"]["name"] = "waiting"
    assert target_node(waiting) == "a"
    assert _manage(_daemons([a_node("a")], [waiting])).is_empty
    # No scheduler will bind it after the node is deleted.
    assert _deleted(_manage(_daemons([], [waiting]))) == ["waiting"]


def test_a_terminating_pod_occupies_its_node() -> None:
    assert _manage(_daemons([a_node("a")], [_pod("a", "a", going=True)])).is_empty


def test_a_finished_terminating_pod_is_ignored() -> None:
    ended = _pod("a", "a", phase="Failed", going=True)
    plan = _manage(_daemons([a_node("a")], [ended]))
    assert (plan.nodes_to_fill, plan.to_delete) == (["a"], [])


def test_changes_of_many_pods_are_batched() -> None:
    assert [batch_wait_s(count) for count in (0, 50, 1000, 100_000)] == [0.0, 0.0, 0.2, 1.0]


def test_only_no_execute_taints_remove_pods() -> None:
    nodes = [a_node("a", _OWN), a_node("b", _OUT)]
    plan = _manage(_daemons(nodes, [_pod("a", "a"), _pod("b", "b")]))
    assert _deleted(plan) == ["b"]


def test_the_oldest_pod_of_a_node_stays() -> None:
    pods = [
        _pod("young", "a", created="2026-01-01T00:00:09Z"),
        _pod("old", "a"),
        _pod("middle", "a", created="2026-01-01T00:00:05Z"),
    ]
    assert _deleted(_manage(_daemons([a_node("a")], pods))) == ["middle", "young"]


def test_finished_pods_are_deleted_with_an_event() -> None:
    pods = [_pod("bad", "a", phase="Failed"), _pod("done", "b", phase="Succeeded")]
    plan = _manage(_daemons([a_node("a"), a_node("b")], pods))
    assert _deleted(plan) == ["bad", "done"]
    assert plan.events == [
        (
            "Warning",
            "FailedDaemonPod",
            "Found failed daemon pod shop/bad on node a, will try to kill it",
        ),
        (
            "Normal",
            "SucceededDaemonPod",
            "Found succeeded daemon pod shop/done on node b, will try to delete it",
        ),
    ]


def test_the_backoff_of_failed_pods_doubles() -> None:
    backoff = FailedPodBackoff()
    assert backoff.wait_s("x", 0.0) is None
    assert backoff.wait_s("x", 0.5) == 1.0
    assert backoff.wait_s("x", 1.0) is None
    assert backoff.wait_s("x", 2.5) == 2.0
    assert backoff.wait_s("x", 3.0) is None
    assert backoff.wait_s("x", 3.0) == 4.0
    assert backoff.wait_s("y", 3.0) is None
    # After half an hour all is forgotten.
    assert backoff.wait_s("x", 3.0 + 1800.5) is None
    assert backoff.wait_s("x", 3.0 + 1800.5) == 1.0


def test_a_failed_pod_in_backoff_is_requeued() -> None:
    daemons = _daemons([a_node("a")], [_pod("bad", "a", phase="Failed")])
    plan = manage_plan(daemons, lambda _: 8.0)
    assert (plan.is_empty, plan.events, plan.requeue_s) == (True, [], 8.0)


def test_with_surge_an_old_pod_stays_until_the_new_one_is_available() -> None:
    old, new = _pod("old", "a", "old"), _pod("new", "a", ready=False)
    nodes = [a_node("a")]
    assert _manage(_daemons(nodes, [old, new], _surging(1))).is_empty
    ready = _pod("new", "a")
    assert _deleted(_manage(_daemons(nodes, [old, ready], _surging(1)))) == ["old"]
    broken = _pod("old", "a", "old", ready=False)
    assert _deleted(_manage(_daemons(nodes, [broken, new], _surging(1)))) == ["old"]
    third = _pod("third", "a", "old", created="2026-01-01T00:00:09Z")
    assert _deleted(_manage(_daemons(nodes, [old, new, third], _surging(1)))) == ["third"]


def test_with_surge_a_terminating_pod_is_replaced_at_once() -> None:
    going = _pod("old", "a", "old", going=True)
    assert _manage(_daemons([a_node("a")], [going], _surging(1))).nodes_to_fill == ["a"]


# -- every pod is of the new template -------------------------------------------------------------


def _nodes(count: int) -> list[Document]:
    return [a_node(f"n{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("unavailable", "expected"), [(1, 1), (2, 2), ("50%", 3), ("30%", 2), (0, 1)]
)
def test_max_unavailable_limits_the_deletions(unavailable: int | str, expected: int) -> None:
    daemon_set = a_daemon_set(**rolling(unavailable=unavailable))
    pods = [_pod(f"p{n}", f"n{n}", "old") for n in range(5)]
    plan = rolling_update_plan(_daemons(_nodes(5), pods, daemon_set))
    assert _deleted(plan) == [f"p{n}" for n in range(expected)]


def test_unavailable_new_pods_count() -> None:
    pods = [_pod("p0", "n0", ready=False), _pod("p1", "n1", "old"), _pod("p2", "n2", "old")]
    assert rolling_update_plan(_daemons(_nodes(3), pods)).is_empty
    daemon_set = a_daemon_set(**rolling(unavailable=2))
    assert _deleted(rolling_update_plan(_daemons(_nodes(3), pods, daemon_set))) == ["p1"]


def test_unavailable_old_pods_are_deleted_at_once() -> None:
    pods = [_pod(f"p{n}", f"n{n}", "old", ready=False) for n in range(3)]
    assert _deleted(rolling_update_plan(_daemons(_nodes(3), pods))) == ["p0", "p1", "p2"]


def test_a_node_without_its_pod_counts_as_unavailable() -> None:
    pods = [_pod("p0", "n0", "old")]
    assert rolling_update_plan(_daemons(_nodes(2), pods)).is_empty


def test_a_pod_of_the_same_template_generation_is_up_to_date() -> None:
    daemon_set = a_daemon_set()
    daemon_set["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "3"}
    pods = [
        _pod("p0", "n0", "old", pod_template_generation="3"),
        _pod("p1", "n1", "old", pod_template_generation="2"),
    ]
    assert _deleted(rolling_update_plan(_daemons(_nodes(2), pods, daemon_set))) == ["p1"]


def test_surge_creates_first_and_deletes_replaced_pods() -> None:
    pods = [_pod(f"p{n}", f"n{n}", "old") for n in range(4)]
    plan = rolling_update_plan(_daemons(_nodes(4), pods, _surging("50%")))
    assert (plan.nodes_to_fill, plan.to_delete) == (["n0", "n1"], [])
    pods.append(_pod("q0", "n0", ready=False))
    plan = rolling_update_plan(_daemons(_nodes(4), pods, _surging("50%")))
    assert (plan.nodes_to_fill, plan.to_delete) == (["n1"], [])
    pods[-1] = _pod("q0", "n0")
    plan = rolling_update_plan(_daemons(_nodes(4), pods, _surging("50%")))
    assert (plan.nodes_to_fill, _deleted(plan)) == (["n1", "n2"], ["p0"])


def test_surge_replaces_unavailable_pods_beyond_its_limit() -> None:
    pods = [_pod(f"p{n}", f"n{n}", "old", ready=n == 0) for n in range(3)]
    plan = rolling_update_plan(_daemons(_nodes(3), pods, _surging(1)))
    assert plan.nodes_to_fill == ["n1", "n2", "n0"]


def test_surge_keeps_a_misplaced_pod_until_enough_are_available() -> None:
    nodes = [a_node("here", _OWN), a_node("there")]
    old = _pod("old", "here", "old")
    waiting = _pod("new", "there", ready=False)
    assert rolling_update_plan(_daemons(nodes, [old, waiting], _surging(1))).is_empty
    serving = _pod("new", "there")
    plan = rolling_update_plan(_daemons(nodes, [old, serving], _surging(1)))
    assert (plan.nodes_to_fill, _deleted(plan)) == ([], ["old"])


# -- status ---------------------------------------------------------------------------------------


def test_the_status_counts_nodes_by_their_oldest_pod() -> None:
    nodes = [*_nodes(4), a_node("tainted", _OWN)]
    pods = [
        _pod("p0", "n0"),
        _pod("p1", "n1", "old", ready_since="2026-01-01T00:00:59Z"),
        _pod("p2", "n2", ready=False),
        _pod("p3", "tainted"),
        _pod("young", "n0", "old", created="2026-01-01T00:00:30Z", ready=False),
    ]
    daemon_set = a_daemon_set()
    daemon_set["spec"]["minReadySeconds"] = 10
    assert daemon_status(_daemons(nodes, pods, daemon_set)) == {
        "desiredNumberScheduled": 4,
        "currentNumberScheduled": 3,
        "numberMisscheduled": 1,
        "numberReady": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 1,
        "numberUnavailable": 3,
    }


# -- new pods -------------------------------------------------------------------------------------


def test_a_daemon_pod_targets_its_node_and_keeps_other_affinity() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    affinity = {
        "podAntiAffinity": {},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": [],
        },
    }
    daemon_set = a_daemon_set(a_template(affinity=affinity))
    daemon_set["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "7"}
    pod = new_daemon_pod(daemon_set, "n0", "abc")
    name = {"key": "metadata.name", "operator": "In", "values": ["n0"]}
    assert pod["spec"]["affinity"] == {
        "podAntiAffinity": {},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [name]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [],
        },
    }
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": "abc",
        "pod-template-generation": "7",
    }
    assert affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] is required


def test_only_labels_and_taints_of_a_node_matter() -> None:
    node = a_node("one", ("a", "NoSchedule"), disk="ssd")
    beating = {**node, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert not concerns_placement(node, beating)
    assert concerns_placement(node, a_node("one", disk="ssd"))
    assert concerns_placement(node, a_node("one", ("a", "NoSchedule"), disk="hdd"))
