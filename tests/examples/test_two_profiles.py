"""examples/two-profiles: two schedulers in one process, one queue, and three errors."""

from __future__ import annotations

import pytest

from kubesched.api.builders import Document
from kubesched.testing import a_node, a_pod
from tests.examples.folders import FORMS, TWO_PROFILES, Form
from tests.unit.cli.running import kubesched

PLUGINS = tuple(f"--plugin={plugin}" for plugin in TWO_PROFILES.plugin_options)
ELSEWHERE = (
    "0/4 nodes are available: node(s) didn't satisfy plugin zone-label. no new claims to "
    "deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
)
SETS_DIFFER = (
    'profiles[1].plugins.queueSort: Invalid value: {"Enabled":null,"Disabled":null}: '
    "must be the same for all profiles\n"
    "hint: all profiles share one queue: configure the same queueSort plugin in each\n"
)
TWO_QUEUE_SORTS = (
    "initializing profiles: creating profile for scheduler name my-scheduler-1: only one queue "
    'sort plugin required for profile with scheduler name "my-scheduler-1", but got 2\n'
    "hint: PrioritySort is on by default: disable it under queueSort of every profile\n"
)
OLD_VERSION = (
    'no kind "KubeSchedulerConfiguration" is registered for version '
    '"kubescheduler.config.k8s.io/v1beta1" in scheme '
    '"pkg/scheduler/apis/config/scheme/scheme.go:29"\n'
    "hint: kubescheduler.config.k8s.io/v1beta1 is no longer served: rewrite the file with "
    "`kubesched config convert`\n"
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.timeout(120)
def test_each_profile_has_its_own_plugins(form: Form) -> None:
    with TWO_PROFILES.running(form, nodes=4) as cluster:
        cluster.create(*TWO_PROFILES.documents("pods.yaml"))
        assert cluster.until_bound("strict") == "node-2"
        assert cluster.until_bound("relaxed") == "node-3"
        assert cluster.until_bound("relaxed-elsewhere") in cluster.nodes
        cluster.until(
            lambda: cluster.notes("strict-elsewhere", "FailedScheduling"), "it is rejected"
        )
        assert set(cluster.notes("strict-elsewhere", "FailedScheduling")) == {ELSEWHERE}
        assert cluster.node_of("strict-elsewhere") == ""
        # Events follow their bindings.
        cluster.until(
            lambda: all(cluster.notes(one, "Scheduled") for one in ("strict", "relaxed")),
            "both have events",
        )
        events = cluster.api.get("/apis/events.k8s.io/v1/namespaces/default/events").json["items"]
        reporters = {
            event["regarding"]["name"]: event["reportingController"]
            for event in events
            if event["reason"] == "Scheduled"
        }
        assert (reporters["strict"], reporters["relaxed"]) == ("my-scheduler-1", "my-scheduler-2")


def requesting(name: str, cpu: str, number: int) -> Document:
    scheduler = f"my-scheduler-{number}"
    return a_pod(name, requests={"cpu": cpu}, labels={"zone": "a"}, scheduler=scheduler)


def test_small_pods_go_first_in_both_profiles() -> None:
    with TWO_PROFILES.in_memory() as (cluster, _):
        cluster.add(
            a_node("n1", labels={"topology.kubernetes.io/zone": "a"}),
            requesting("big", "3", 1),
            requesting("middle", "2", 2),
            requesting("small", "1", 1),
            requesting("tiny", "500m", 2),
        )
        cluster.schedule()
        # Of 4 CPUs: in the order of PrioritySort, big would have been first.
        assert set(cluster.placed()) == {"default/tiny", "default/small", "default/middle"}


def test_the_second_profile_has_no_pre_filter() -> None:
    with TWO_PROFILES.in_memory() as (cluster, _):
        cluster.add(
            a_node("n1", labels={"topology.kubernetes.io/zone": "a"}),
            a_node("n2", labels={"topology.kubernetes.io/zone": "b"}),
            a_pod("without", scheduler="my-scheduler-1"),
            a_pod("with", labels={"zone": "b"}, scheduler="my-scheduler-1"),
            a_pod("any", scheduler="my-scheduler-2"),
        )
        cluster.schedule()
        assert cluster.why("without").startswith("0/2 nodes are available: pod has no label zone.")
        assert cluster.node_of("with") == "n2"
        assert cluster.node_of("any")


def test_the_configuration_is_valid() -> None:
    path = TWO_PROFILES.folder / "scheduler.yaml"
    run = kubesched("config", "validate", "-f", str(path), *PLUGINS)
    assert (run.status, run.out, run.err) == (0, "valid\n", "")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("sets-differ.yaml", SETS_DIFFER),
        ("two-queue-sorts.yaml", TWO_QUEUE_SORTS),
        ("old-version.yaml", OLD_VERSION),
    ],
)
def test_errors_of_the_readme(file: str, message: str) -> None:
    path = TWO_PROFILES.folder / "refused" / file
    run = kubesched("config", "validate", "-f", str(path), *PLUGINS, "--hints")
    assert (run.status, run.out, run.err) == (1, "", message)
