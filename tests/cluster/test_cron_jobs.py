"""CronJobs create Jobs on schedule and limit their history."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.cluster.conftest import World
from tests.cluster.job_pods import a_job, end_pod, job, until_condition, until_waiting
from tests.cluster.replicated import Document, notes, patch


def a_cron_job(name: str, schedule: str, *, runs: bool = False, **spec: Any) -> Document:
    template = {"metadata": {"labels": {"of": name}}, "spec": a_job(name, runs=runs)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


def path_of(world: World, name: str) -> str:
    return world.path("cronjobs", name, group="batch/v1")


def jobs_of(world: World, name: str) -> list[Document]:
    return world.items(world.path("jobs", group="batch/v1"), labelSelector=f"of={name}")


def test_a_job_is_created_when_it_is_due(world: World) -> None:
    world.create(a_cron_job("tick", "@every 1s", concurrencyPolicy="Forbid"))
    world.until(lambda: jobs_of(world, "tick"), "a job")
    created = jobs_of(world, "tick")[0]
    name = created["metadata"]["name"]
    path = path_of(world, "tick")
    world.until(lambda: world.get(path)["status"].get("active"), "the job is listed")
    patch(world, path, {"spec": {"suspend": True}})
    cron_job = world.get(path)
    listed = cron_job["status"]["active"][0]
    assert (listed["kind"], listed["name"], listed["uid"]) == (
        "Job",
        name,
        created["metadata"]["uid"],
    )
    owner = created["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("CronJob", cron_job["metadata"]["uid"])
    scheduled = created["metadata"]["annotations"][
        "batch.kubernetes.io/cronjob-scheduled-timestamp"
    ]
    assert scheduled <= cron_job["status"]["lastScheduleTime"]
    assert name.startswith("tick-")
    world.until(lambda: f"Created job {name}" in notes(world, "tick", "SuccessfulCreate"), "event")
    (pod,) = until_waiting(world, name, 1)
    end_pod(world, pod)
    ended = until_condition(world, name, "Complete")["status"]
    world.until(lambda: not world.get(path)["status"].get("active"), "nothing is active")
    assert world.get(path)["status"]["lastSuccessfulTime"] == ended["completionTime"]
    message = f"Saw completed job: {name}, condition: Complete"
    world.until(lambda: notes(world, "tick", "SawCompletedJob") == [message], "the event")


@pytest.mark.programs
def test_finished_jobs_above_the_limit_are_deleted(world: World) -> None:
    world.create(a_cron_job("tick", "0 0 1 1 *", successfulJobsHistoryLimit=1, suspend=True))
    for name in ("one", "two"):
        world.kubectl("create", "job", name, "--from=cronjob/tick")
        (pod,) = until_waiting(world, name, 1)
        end_pod(world, pod)
        world.until(partial(has_ended, world, name), f"{name} has ended")
    world.until(lambda: not job(world, "one"), "the older one is gone")
    assert job(world, "two")
    text = "Deleted job one"
    world.until(lambda: text in notes(world, "tick", "SuccessfulDelete"), "the event")
    assert any("did not create or forgot" in note for note in notes(world, "tick", "UnexpectedJob"))


def has_ended(world: World, name: str) -> bool:
    document = job(world, name)
    return not document or bool(document["status"].get("completionTime"))


def test_nothing_is_created_while_suspended(world: World) -> None:
    world.create(a_cron_job("asleep", "@every 1s", suspend=True))
    world.create(a_cron_job("tick", "@every 1s"))
    world.until(lambda: jobs_of(world, "tick"), "the other one's job")
    patch(world, path_of(world, "tick"), {"spec": {"suspend": True}})
    assert jobs_of(world, "asleep") == []


@pytest.mark.programs
def test_deleting_a_cron_job_deletes_its_jobs(world: World) -> None:
    world.create(a_cron_job("tick", "0 0 1 1 *"))
    world.kubectl("create", "job", "now", "--from=cronjob/tick")
    until_waiting(world, "now", 1)
    world.kubectl("delete", "cronjob", "tick", "--timeout=30s")
    world.until(lambda: not job(world, "now"), "its job is gone")
    world.until(lambda: not world.pods(), "its pods are gone")
