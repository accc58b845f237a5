"""The choice of the pod to explain."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.running import Run, is_one_line, kubesched

ALLOCATABLE = {"cpu": "1", "memory": "8Gi", "pods": "10"}


def a_pod(name: str, namespace: str = "default", **rest: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "600m"}}}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **rest.pop("metadata", {})},
        "spec": {"containers": containers, **rest.pop("spec", {})},
    }
    return pod | rest


def explained(
    *pods: dict[str, Any],
    name: str | None = None,
    nodes: tuple[str, ...] = ("a", "b"),
    more: tuple[str, ...] = (),
) -> Run:
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node},
            "status": {"allocatable": ALLOCATABLE},
        }
        for node in nodes
    ]
    stdin = "\n".join(map(json.dumps, (*items, *pods))).encode()
    named = [] if name is None else [name]
    return kubesched("explain", "-f", "-", *more, *named, stdin=stdin)


BOUND = {"nodeName": "a"}


def test_the_only_pending_pod_needs_no_name() -> None:
    ran = explained(
        a_pod("bound", spec=BOUND), a_pod("done", status={"phase": "Failed"}), a_pod("p")
    )
    assert ran.out.startswith("default/p goes to b: ")


@pytest.mark.parametrize("name", ["p", "shop/p"])
def test_a_pod_is_named_with_or_without_its_namespace(name: str) -> None:
    ran = explained(a_pod("p", "shop"), a_pod("q"), name=name)
    assert ran.out.startswith("shop/p goes to ")


@pytest.mark.parametrize(
    ("pods", "name", "problem"),
    [
        pytest.param((), None, "the files hold no pod", id="no pod"),
        pytest.param(
            (a_pod("a", spec=BOUND),),
            None,
            "no pod in the files is pending; name one of default/a",
            id="all are bound",
        ),
        pytest.param(
            (a_pod("b"), a_pod("a")),
            None,
            "2 pods are pending; name one of default/a, default/b",
            id="several pending",
        ),
        pytest.param(
            tuple(a_pod(f"p{number:02}") for number in range(12)),
            None,
            "default/p09 and 2 more",
            id="too many to list",
        ),
        pytest.param(
            (a_pod("a"),), "b", "pod b is not in the files; they hold default/a", id="none"
        ),
        pytest.param(
            (*(a_pod(f"p{number:02}") for number in range(12)), a_pod("web-7")),
            "web-8",
            "pod web-8 is not in the files; they hold default/web-7, default/p00,",
            id="similar names first",
        ),
        pytest.param((), "b", "pod b is not in the files; they hold no pod", id="no pod at all"),
        pytest.param(
            (a_pod("a", "x"), a_pod("a", "y")),
            "a",
            "a is ambiguous; use one of x/a, y/a",
            id="in two namespaces",
        ),
        pytest.param(
            (a_pod("a", status={"phase": "Succeeded"}),),
            "a",
            "pod default/a has terminated (phase Succeeded)",
            id="a terminated pod",
        ),
        pytest.param(
            (a_pod("a", spec={"schedulerName": "batch"}),),
            "a",
            "no profile has the scheduler name 'batch'; the configuration has 'default-scheduler'",
            id="another scheduler name",
        ),
    ],
)
def test_a_pod_that_cannot_be_explained(
    pods: tuple[dict[str, Any], ...], name: str | None, problem: str
) -> None:
    ran = explained(*pods, name=name)
    assert ran.status == 1
    assert is_one_line(ran.err)
    assert problem in ran.err
    assert ran.out == ""


def test_a_bound_pod_does_not_count_on_its_node() -> None:
    pod = a_pod("p", spec=BOUND, status={"nominatedNodeName": "a"})
    ran = explained(pod, name="p", nodes=("a",))
    assert ran.err == (
        "note: pod default/p is already bound to a; it is explained as if it were pending\n"
    )
    # If it counted on its node, it would not fit: 600m of 1 are requested.
    assert ran.out.startswith("default/p goes to a: the only node of the cluster")


def test_a_bound_pod_may_be_placed_on_another_node() -> None:
    ran = explained(a_pod("p", spec=BOUND), a_pod("q", spec=BOUND), name="p")
    assert ran.out.startswith("default/p goes to b: ")


def test_affinity_counts_other_pods_and_not_the_pod_itself() -> None:
    nominated = {"nominatedNodeName": "a"}
    ran = explained(a_pod("p", status=nominated), a_pod("q"), name="p", nodes=("a",))
    assert ran.out.startswith("default/p goes to a: ")
    ran = explained(a_pod("p"), a_pod("q", status=nominated), name="p", nodes=("a",))
    assert ran.out.startswith("default/p does not fit on the only node.")


def test_nominations_by_another_scheduler_are_ignored() -> None:
    other = a_pod("q", spec={"schedulerName": "batch"}, status={"nominatedNodeName": "a"})
    ran = explained(a_pod("p"), other, name="p", nodes=("a",))
    assert ran.out.startswith("default/p goes to a: ")


GATED = {"schedulingGates": [{"name": "example.com/wait"}]}
HELD = (
    "default/p is held back by SchedulingGates: "
    "waiting for scheduling gates: [example.com/wait]; otherwise, "
)


def test_a_gated_pod_is_reported_as_held() -> None:
    ran = explained(a_pod("p", spec=GATED), nodes=("a",))
    assert (ran.status, ran.err) == (0, "")
    sentence, _, event, *_ = ran.out.splitlines()
    assert sentence == f"{HELD}default/p goes to a: the only node of the cluster, and it fits."
    assert event == ("Event if not held back: Scheduled: Successfully assigned default/p to a")


def test_a_gated_pod_is_reported_as_held_with_node_too() -> None:
    ran = explained(a_pod("p", spec=GATED), nodes=("a",), more=("--node", "a"))
    assert ran.out.startswith(f"{HELD}default/p goes to a.\n")


def test_json_has_the_plugins_that_hold_a_pod() -> None:
    holds = [
        {
            "plugin": "SchedulingGates",
            "message": "waiting for scheduling gates: [example.com/wait]",
        }
    ]
    for more in ((), ("--node", "a")):
        ran = explained(a_pod("p", spec=GATED), nodes=("a",), more=("-o", "json", *more))
        assert ran.json["held"] == holds
        ran = explained(a_pod("p"), nodes=("a",), more=("-o", "json", *more))
        assert ran.json["held"] is None


def test_a_decision_on_a_gated_pod_comes_with_a_note() -> None:
    ran = explained(a_pod("p", spec=GATED), more=("-o", "decision"))
    assert ran.err == (
        "note: SchedulingGates keeps pod default/p out of the queue: "
        "waiting for scheduling gates: [example.com/wait]\n"
    )


def test_a_pod_that_is_being_deleted_is_explained_with_a_note() -> None:
    ran = explained(a_pod("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert ran.status == 0
    assert ran.err == "note: pod default/p is being deleted; the scheduler skips it\n"


# -- workloads ------------------------------------------------------------------------------------


def a_workload(kind: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": {"spec": a_pod("x")["spec"]}}
    if kind == "CronJob":
        spec = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    version = "batch/v1" if kind.endswith("Job") else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def beside(tmp_path: Path, *documents: dict[str, Any], name: str | None = None) -> Run:
    """Explain over two nodes, with documents in a file of their own."""
    file = tmp_path / "beside.json"
    file.write_text("\n".join(map(json.dumps, documents)))
    node = {"apiVersion": "v1", "kind": "Node", "status": {"allocatable": ALLOCATABLE}}
    stdin = "\n".join(
        json.dumps(node | {"metadata": {"name": node_name}}) for node_name in "ab"
    ).encode()
    arguments = ["-f", "-", "-f", str(file), *([] if name is None else [name])]
    return kubesched("explain", *arguments, stdin=stdin)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob"])
@pytest.mark.parametrize("is_named", [False, True])
def test_the_next_pod_of_a_workload_is_explained(tmp_path: Path, kind: str, is_named: bool) -> None:
    name = f"{kind.lower()}/w" if is_named else None
    ran = beside(tmp_path, a_workload(kind, "w"), name=name)
    assert ran.status == 0
    assert ran.out.startswith("default/w")
    assert " goes to " in ran.out.splitlines()[0]
    (note,) = ran.err.splitlines()
    assert note.startswith(f"note: explaining the next pod of {kind} default/w, named")


def test_a_pod_takes_precedence_over_a_workload_of_its_name(tmp_path: Path) -> None:
    ran = beside(tmp_path, a_workload("Deployment", "w"), a_pod("w"), name="w")
    assert ran.out.startswith("default/w goes to ")
    assert not ran.err


def test_the_next_pod_of_a_stateful_set_has_the_next_number(tmp_path: Path) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "controller": True}
    first = a_pod("w-0", metadata={"ownerReferences": [owner]}, spec=BOUND)
    ran = beside(tmp_path, a_workload("StatefulSet", "w"), first, name="sts/w")
    assert ran.out.startswith("default/w-1 goes to b")


def test_several_pods_and_workloads_require_a_name(tmp_path: Path) -> None:
    ran = beside(tmp_path, a_workload("Deployment", "w"), a_pod("p"))
    assert ran.status == 1
    assert ran.err == (
        "kubesched: several pods and workloads can be explained; "
        "name one of default/p, deployment/default/w\n"
    )


def test_without_pods_a_workload_may_be_in_the_file_of_the_nodes() -> None:
    ran = explained(a_workload("Deployment", "w"))
    assert ran.out.startswith("default/w-")
    ran = explained(a_workload("Deployment", "w"), a_workload("Job", "j"))
    assert "name one of deployment/default/w, job/default/j" in ran.err
    ran = explained(a_workload("Deployment", "w"), a_pod("a", spec=BOUND))
    assert "no pod in the files is pending" in ran.err
