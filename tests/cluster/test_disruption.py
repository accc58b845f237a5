"""PodDisruptionBudgets: their status, and evictions within them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kubesched.cluster.launch.http import STRATEGIC_MERGE_PATCH, Response
from kubesched.kit.clock import SystemClock
from tests.cluster.conftest import World
from tests.cluster.job_pods import a_job, until_waiting
from tests.cluster.replicated import (
    NOWHERE,
    Document,
    a_deployment,
    a_replica_set,
    a_template,
    condition,
    notes,
    patch,
    until_pods,
)

REJECTED = "Cannot evict pod as it would violate the pod's disruption budget."


def a_budget(name: str, app: str, **spec: Any) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def budget_path(world: World, name: str) -> str:
    return world.path("poddisruptionbudgets", name, group="policy/v1")


def has_numbers(world: World, name: str, **numbers: int) -> bool:
    """Return whether the status of a budget is up to date and has these numbers."""
    budget = world.get(budget_path(world, name))
    status = budget.get("status", {})
    return status.get("observedGeneration") == budget["metadata"]["generation"] and all(
        status.get(field, 0) == number for field, number in numbers.items()
    )


def until_budget(world: World, name: str, **numbers: int) -> Document:
    """Wait until the status of a budget has these numbers; return the budget."""
    world.until(lambda: has_numbers(world, name, **numbers), f"{name}: {numbers}")
    return world.get(budget_path(world, name))


def evict(world: World, name: str) -> Response:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": world.namespace},
    }
    return world.api.post(world.path("pods", f"{name}/eviction"), body)


def cause_of(response: Response) -> Document:
    cause: Document = response.json["details"]["causes"][0]
    return cause


def held_set(name: str, replicas: int) -> Document:
    """Return a ReplicaSet whose pods fit on no node."""
    return a_replica_set(name, replicas, a_template(name, nodeSelector=NOWHERE))


def set_status(world: World, pod: Document, *, is_ready: bool) -> None:
    """Mark an unscheduled pod as running, as a kubelet would."""
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    change = {"status": {"phase": "Running", "conditions": [ready]}}
    path = world.path("pods", f"{pod['metadata']['name']}/status")
    world.api.patch(path, change, STRATEGIC_MERGE_PATCH).must(200)


@pytest.mark.programs
def test_status_of_a_budget(world: World) -> None:
    world.create(held_set("web", 3), a_budget("keep", "web", minAvailable=2))
    pods = until_pods(world, "app=web", 3)
    budget = until_budget(world, "keep", expectedPods=3, desiredHealthy=2, currentHealthy=0)
    assert budget["status"]["disruptionsAllowed"] == 0
    insufficient = condition(budget, "DisruptionAllowed")
    assert (insufficient["status"], insufficient["reason"]) == ("False", "InsufficientPods")
    for pod in pods:
        set_status(world, pod, is_ready=True)
    budget = until_budget(world, "keep", currentHealthy=3, disruptionsAllowed=1)
    sufficient = condition(budget, "DisruptionAllowed")
    assert (sufficient["status"], sufficient["reason"]) == ("True", "SufficientPods")
    assert sufficient["observedGeneration"] == 1
    patch(world, budget_path(world, "keep"), {"spec": {"minAvailable": "100%"}})
    budget = until_budget(world, "keep", desiredHealthy=3, disruptionsAllowed=0)
    assert budget["status"]["observedGeneration"] == 2
    columns = world.kubectl("get", "pdb", "keep").splitlines()[1].split()
    assert columns[:4] == ["keep", "100%", "N/A", "0"]


def test_a_percentage_applies_to_the_desired_replicas(world: World) -> None:
    template = a_template("web", nodeSelector=NOWHERE)
    world.create(a_deployment("web", 5, template), a_budget("keep", "web", maxUnavailable="30%"))
    until_pods(world, "app=web", 5)
    until_budget(world, "keep", expectedPods=5, desiredHealthy=3)
    patch(world, world.path("deployments", "web", group="apps/v1"), {"spec": {"replicas": 8}})
    until_budget(world, "keep", expectedPods=8, desiredHealthy=5)


def test_evictions_respect_the_budget(world: World) -> None:
    world.create(a_replica_set("web", 3), a_budget("keep", "web", minAvailable=3))
    first, second, _ = until_pods(world, "app=web", 3)
    until_budget(world, "keep", currentHealthy=3, disruptionsAllowed=0)
    name = first["metadata"]["name"]
    rejected = evict(world, name).must(429)
    assert rejected.message == REJECTED
    assert cause_of(rejected) == {
        "reason": "DisruptionBudget",
        "message": "The disruption budget keep needs 3 healthy pods and has 3 currently",
    }
    patch(world, budget_path(world, "keep"), {"spec": {"minAvailable": 2}})
    until_budget(world, "keep", desiredHealthy=2, currentHealthy=3, disruptionsAllowed=1)
    assert evict(world, name).must(201).json["status"] == "Success"
    path = world.path("pods", name)
    world.until(lambda: not world.get(path), "the pod is gone")
    until_budget(world, "keep", currentHealthy=3, disruptionsAllowed=1)
    assert "disruptedPods" not in world.get(budget_path(world, "keep"))["status"]
    world.api.delete(budget_path(world, "keep")).must(200)
    evict(world, second["metadata"]["name"]).must(201)


def test_one_disruption_at_a_time(world: World) -> None:
    world.create(held_set("web", 3), a_budget("keep", "web", maxUnavailable=1))
    pods = until_pods(world, "app=web", 3)
    for pod in pods:
        # A finalizer keeps the pod, so that the effect of an eviction is visible.
        change = {"metadata": {"finalizers": ["example.com/held"]}}
        patch(world, world.path("pods", pod["metadata"]["name"]), change)
        set_status(world, pod, is_ready=True)
    until_budget(world, "keep", currentHealthy=3, disruptionsAllowed=1)
    names = [pod["metadata"]["name"] for pod in pods]
    evict(world, names[0]).must(201)
    evicted = world.get(world.path("pods", names[0]))
    assert evicted["metadata"]["deletionTimestamp"]
    target = condition(evicted, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert evict(world, names[1]).must(429).message == REJECTED
    until_budget(world, "keep", currentHealthy=2, desiredHealthy=2, disruptionsAllowed=0)
    assert evict(world, names[1]).must(429).message == REJECTED
    for name in names:
        patch(world, world.path("pods", name), {"metadata": {"finalizers": None}})


def test_pods_that_are_not_ready(world: World) -> None:
    world.create(held_set("web", 2), a_budget("keep", "web", minAvailable=1))
    pods = until_pods(world, "app=web", 2)
    for pod in pods:
        set_status(world, pod, is_ready=False)
    until_budget(world, "keep", currentHealthy=0, desiredHealthy=1, expectedPods=2)
    first, second = (pod["metadata"]["name"] for pod in pods)
    text = "The disruption budget keep needs 1 healthy pods and has 0 currently"
    assert cause_of(evict(world, first).must(429))["message"] == text
    policy = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    patch(world, budget_path(world, "keep"), policy)
    evict(world, first).must(201)
    patch(world, budget_path(world, "keep"), {"spec": {"unhealthyPodEvictionPolicy": None}})
    for pod in until_pods(world, "app=web", 2):
        if pod["metadata"]["name"] != second:
            set_status(world, pod, is_ready=True)
    until_budget(world, "keep", currentHealthy=1, desiredHealthy=1)
    # Enough pods are healthy, and this one is not: evicting it loses nothing.
    evict(world, second).must(201)


def test_pods_that_have_not_started_can_be_evicted(world: World) -> None:
    world.create(held_set("web", 1), a_budget("keep", "web", minAvailable=1))
    (pod,) = until_pods(world, "app=web", 1)
    until_budget(world, "keep", expectedPods=1, disruptionsAllowed=0)
    evict(world, pod["metadata"]["name"]).must(201)


def test_a_budget_without_matching_pods(world: World) -> None:
    world.create(a_budget("keep", "nobody", minAvailable=1))
    budget = until_budget(world, "keep", expectedPods=0, currentHealthy=0, desiredHealthy=1)
    assert budget["status"]["disruptionsAllowed"] == 0
    world.until(lambda: notes(world, "keep", "NoPods") == ["No matching pods found"], "the event")


def test_unmanaged_pods(world: World) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone", "labels": {"app": "web"}},
        "spec": a_template("web", nodeSelector=NOWHERE)["spec"],
    }
    world.create(pod, a_budget("keep", "web", maxUnavailable=1))
    until_budget(world, "keep", expectedPods=0, desiredHealthy=0, disruptionsAllowed=0)
    world.until(lambda: notes(world, "keep", "UnmanagedPods"), "the event")
    assert notes(world, "keep", "UnmanagedPods")[0].startswith(
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:"
        "map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found "
        "to be unmanaged."
    )


def test_controllers_without_a_scale(world: World) -> None:
    expected = a_job("sum")
    expected["spec"]["template"]["metadata"] = {"labels": {"app": "sum"}}
    world.create(expected)
    until_waiting(world, "sum", 1)
    world.create(a_budget("keep", "sum", maxUnavailable=1))
    path = budget_path(world, "keep")
    text = "jobs.batch does not implement the scale subresource"
    world.until(
        lambda: condition(world.get(path), "DisruptionAllowed").get("message") == text, text
    )
    failed = condition(world.get(path), "DisruptionAllowed")
    assert (failed["status"], failed["reason"]) == ("False", "SyncFailed")
    assert world.get(path)["status"]["disruptionsAllowed"] == 0
    note = f"Failed to calculate the number of expected pods: {text}"
    world.until(
        lambda: note in notes(world, "keep", "CalculateExpectedPodCountFailed"), "the event"
    )


def test_controllers_of_any_kind_with_a_scale(world: World) -> None:
    with a_kind_with_scale(world) as group:
        owner = {
            "apiVersion": f"{group}/v1",
            "kind": "Flock",
            "metadata": {"name": "geese", "namespace": world.namespace},
            "spec": {"size": 7},
        }
        flocks = f"/apis/{group}/v1/namespaces/{world.namespace}/flocks"
        world.until(lambda: world.api.get(flocks).code == 200, "flocks are served")
        created = world.api.post(flocks, owner).must(201).json
        reference = {
            "apiVersion": f"{group}/v1",
            "kind": "Flock",
            "name": "geese",
            "uid": created["metadata"]["uid"],
            "controller": True,
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "g", "labels": {"app": "geese"}, "ownerReferences": [reference]},
            "spec": a_template("geese", nodeSelector=NOWHERE)["spec"],
        }
        world.create(pod, a_budget("keep", "geese", maxUnavailable=2))
        path = budget_path(world, "keep")
        poke = Poke(world, world.path("pods", "g"))

        def is_counted() -> bool:
            poke()
            status = world.get(path).get("status", {})
            return (status.get("expectedPods"), status.get("desiredHealthy")) == (7, 5)

        world.until(is_counted, "the scale is known", 50.0)


class Poke:
    """Changes a pod every second, so that its budget is evaluated again.

    kube-controller-manager discovers kinds every 30 s, and evaluates a budget only when
    it or a pod of it changes.
    """

    def __init__(self, world: World, path: str) -> None:
        self._world = world
        self._path = path
        self._clock = SystemClock()
        self._last_s = self._clock.monotonic_s()
        self._count = 0

    def __call__(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._last_s < 1.0:
            return
        self._last_s = now_s
        self._count += 1
        label = {"metadata": {"labels": {"poked": str(self._count)}}}
        patch(self._world, self._path, label)


@contextmanager
def a_kind_with_scale(world: World) -> Iterator[str]:
    group = f"{world.namespace}.example.com"
    number: Document = {"type": "integer"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": number}},
            "status": {"type": "object", "properties": {"size": number}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    names = {"plural": "flocks", "singular": "flock", "kind": "Flock", "listKind": "FlockList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"flocks.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    world.api.post(path, definition).must(201)
    try:
        yield group
    finally:
        world.api.delete(f"{path}/flocks.{group}").must(200)


def test_two_budgets_for_one_pod(world: World) -> None:
    world.create(held_set("web", 1))
    world.create(a_budget("one", "web", minAvailable=0), a_budget("two", "web", minAvailable=0))
    (pod,) = until_pods(world, "app=web", 1)
    set_status(world, pod, is_ready=True)
    # The controller updates an arbitrary one of them.
    world.until(
        lambda: any(has_numbers(world, one, currentHealthy=1) for one in ("one", "two")),
        "a budget counts the pod",
    )
    text = (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support."
    )
    response = evict(world, pod["metadata"]["name"])
    assert (response.json["status"], response.message) == ("Failure", text)
    assert world.get(world.path("pods", pod["metadata"]["name"]))


# -- drain ----------------------------------------------------------------------------------------


@contextmanager
def uncordoned_after(world: World, node: str) -> Iterator[None]:
    try:
        yield
    finally:
        world.kubectl("uncordon", node)


def ready_pods(world: World, app: str) -> list[Document]:
    return [
        pod
        for pod in world.pods(f"app={app}")
        if condition(pod, "Ready").get("status") == "True"
        and "deletionTimestamp" not in pod["metadata"]
    ]


@pytest.mark.programs
def test_drain_moves_pods_within_the_budget(world: World) -> None:
    world.create(a_deployment("web", 3), a_budget("keep", "web", minAvailable=2))
    until_budget(world, "keep", currentHealthy=3, disruptionsAllowed=1)
    node = world.pods("app=web")[0]["spec"]["nodeName"]
    with uncordoned_after(world, node):
        output = world.kubectl("drain", node, "--pod-selector=app=web", "--timeout=40s")
        assert f"node/{node} drained" in output
        assert {pod["spec"]["nodeName"] for pod in ready_pods(world, "web")}.isdisjoint({node})
        until_budget(world, "keep", currentHealthy=3, disruptionsAllowed=1)


@pytest.mark.programs
def test_drain_waits_for_the_budget(world: World) -> None:
    world.create(a_deployment("web", 1), a_budget("keep", "web", minAvailable=1))
    until_budget(world, "keep", currentHealthy=1, disruptionsAllowed=0)
    (pod,) = world.pods("app=web")
    node = pod["spec"]["nodeName"]
    with uncordoned_after(world, node):
        drained = world.run_kubectl("drain", node, "--pod-selector=app=web", "--timeout=2s")
        assert drained.returncode != 0
        assert f"(will retry after 5s): {REJECTED}" in drained.stderr
        assert world.get(world.path("pods", pod["metadata"]["name"]))
