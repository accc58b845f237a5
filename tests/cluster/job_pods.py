"""Jobs whose pods no kubelet runs: the test sets their statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.cluster.launch.http import STRATEGIC_MERGE_PATCH
from tests.cluster.conftest import World
from tests.cluster.replicated import NOWHERE, Document

LONG_AGO = "2026-01-02T03:04:05Z"
"""When ended pods have ended: what waits after a failure has waited long enough."""


def a_job(name: str, *, runs: bool = False, **spec: Any) -> Document:
    """Return a Job; its pods run by themselves, or wait for the test to end them."""
    pod: Document = {
        "restartPolicy": "Never",
        "containers": [{"name": "sum", "image": "registry.example/sum:1"}],
    }
    if not runs:
        pod["nodeSelector"] = NOWHERE
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}, **spec},
    }


def job_path(world: World, name: str) -> str:
    return world.path("jobs", name, group="batch/v1")


def job(world: World, name: str) -> Document:
    return world.get(job_path(world, name))


def pods_of(world: World, name: str) -> list[Document]:
    """Return the pods of a Job, by index and by age."""
    pods = world.pods(f"batch.kubernetes.io/job-name={name}")
    return sorted(pods, key=lambda pod: (index_of(pod), pod["metadata"]["creationTimestamp"]))


def index_of(pod: Document) -> int:
    label = pod["metadata"]["labels"].get("batch.kubernetes.io/job-completion-index", "-1")
    return int(label)


def waiting_pods(world: World, name: str) -> list[Document]:
    """Return the pods of a Job that are neither finished nor terminating."""
    return [
        pod
        for pod in pods_of(world, name)
        if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]
    ]


def until_waiting(world: World, name: str, count: int) -> list[Document]:
    world.until(lambda: len(waiting_pods(world, name)) == count, f"{count} pods of {name} wait")
    return waiting_pods(world, name)


def end_pod(world: World, pod: Document, *, exit_code: int = 0, **status: Any) -> None:
    """End a pod, as its kubelet would."""
    name = pod["metadata"]["name"]
    terminated = {"exitCode": exit_code, "startedAt": LONG_AGO, "finishedAt": LONG_AGO}
    container = {
        "name": "sum",
        "image": "registry.example/sum:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": terminated},
    }
    phase = "Failed" if exit_code else "Succeeded"
    change = {"status": {"phase": phase, "containerStatuses": [container], **status}}
    path = world.path("pods", f"{name}/status")
    world.api.patch(path, change, STRATEGIC_MERGE_PATCH).must(200)


def until_job(
    world: World, name: str, predicate: Callable[[Document], object], condition: str
) -> Document:
    """Wait until the status of a Job satisfies a predicate; return the Job."""
    world.until(lambda: predicate(job(world, name).get("status", {})), f"{name}: {condition}")
    return job(world, name)


def until_condition(world: World, name: str, type_: str) -> Document:
    """Wait until a condition of a Job is True; return the Job."""
    return until_job(world, name, lambda status: type_ in true_conditions(status), type_)


def true_conditions(status: Document) -> dict[str, str]:
    """Return the conditions that are True, with their reasons."""
    return {
        condition["type"]: condition.get("reason", "")
        for condition in status.get("conditions", [])
        if condition["status"] == "True"
    }
