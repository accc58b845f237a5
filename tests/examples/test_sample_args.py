"""examples/sample-args: extension points, arguments and rejections."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubesched import CycleState, Handle, PodInfo, Status, wait
from kubesched.testing import a_node, a_pod
from kubesched.testing.cluster import Cluster
from tests.examples.folders import FORMS, SAMPLE_ARGS, Form, messages
from tests.unit.cli.running import kubesched

PLUGIN = f"--plugin={SAMPLE_ARGS.plugin_options[0]}"
REJECTED_ARGS = (
    "initializing profiles: creating profile for scheduler name sample-scheduler: initializing "
    'plugin "sample-plugin": args: '
)
REJECTED_FIELD = f"{REJECTED_ARGS}unknown field 'favorColor', did you mean 'favoriteColor'?\n"
REJECTED_VALUES = (
    f"{REJECTED_ARGS}favoriteColor: 'blue' is not a color like '#326CE5'; "
    "favoriteNumber: -7 is less than 0\n"
)
REJECTED_LOCK = (
    'leaderElection.resourceLock: Invalid value: "endpointsleases": resourceLock value must be '
    '"leases"\n'
    "hint: resourceLock endpointsleases was removed: use leases, or leave the field out\n"
)
NO_NODE = (
    'running PreBind plugin "sample-plugin": prebind get node: n1 info error: '
    'nodeinfo not found for node name "n1"'
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("file", ["scheduler.yaml", "pre-bind.yaml"])
@pytest.mark.timeout(120)
def test_pods_are_placed(form: Form, file: str) -> None:
    with SAMPLE_ARGS.running(form, file, nodes=2) as cluster:
        cluster.create(*SAMPLE_ARGS.documents("app.yaml"))

        def pods() -> list[Any]:
            return list(cluster.api.get("/api/v1/namespaces/default/pods").must(200).json["items"])

        cluster.until(pods, "the pod is made")
        name = pods()[0]["metadata"]["name"]
        node = cluster.until_bound(name)
        cluster.until(lambda: cluster.notes(name, "Scheduled"), "the binding is reported")
        assert cluster.notes(name, "Scheduled") == [
            f"Successfully assigned default/{name} to {node}"
        ]
        cluster.until_running(name)


@pytest.mark.parametrize(
    ("file", "pre_bound"),
    [("scheduler.yaml", []), ("pre-bind.yaml", ['pod="default/web" node="n1" pods=1'])],
)
def test_calls_are_logged_at_level_3(file: str, pre_bound: list[str]) -> None:
    with SAMPLE_ARGS.in_memory(file, verbosity=3) as (cluster, log):
        cluster.add(a_node("n1"), a_pod("web", scheduler="sample-scheduler"))
        cluster.schedule()
        assert cluster.node_of("web") == "n1"
        assert messages(log, "Sample plugin") == [
            'args={"favorite_color":"#326CE5","favorite_number":7,"thanks_to":"thockin"}'
        ]
        assert messages(log, "Prefilter") == ['pod="default/web"']
        assert messages(log, "Filter") == ['pod="default/web" node="n1"']
        assert messages(log, "Prebind") == pre_bound


def test_nothing_is_logged_below_level_3() -> None:
    with SAMPLE_ARGS.in_memory("pre-bind.yaml", verbosity=2) as (cluster, log):
        cluster.add(a_node("n1"), a_pod("web", scheduler="sample-scheduler"))
        cluster.schedule()
        assert cluster.node_of("web") == "n1"
        texts = ("Sample plugin", "Prefilter", "Filter", "Prebind")
        assert [messages(log, text) for text in texts] == [[], [], [], []]


class Hold:
    """Holds every pod at Permit until the test allows it."""

    name = "hold"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        held.append(self)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return wait(), 600.0

    def let_go(self) -> None:
        for pod in self.handle.waiting_pods():
            pod.allow(self.name)


held: list[Hold] = []


def test_a_node_deleted_before_the_binding_is_an_error() -> None:
    config = copy.deepcopy(SAMPLE_ARGS.config("pre-bind.yaml"))
    config["profiles"][0]["plugins"]["permit"] = {"enabled": [{"name": "hold"}]}
    held.clear()
    cluster = Cluster(plugins=[*SAMPLE_ARGS.plugin_options, Hold], config=config)
    try:
        cluster.add(a_node("n1"), a_pod("web", scheduler="sample-scheduler"))
        cluster.schedule()
        assert cluster.state("web") == "waitingOnPermit"
        cluster.remove("Node", "n1")
        held[0].let_go()
        cluster.schedule()
        assert cluster.events("web")[0] == ("FailedScheduling", NO_NODE)
        assert cluster.node_of("web") == ""
    finally:
        cluster.close()


@pytest.mark.parametrize("file", ["scheduler.yaml", "pre-bind.yaml"])
def test_its_configurations_are_valid(file: str) -> None:
    run = kubesched("config", "validate", "-f", str(SAMPLE_ARGS.folder / file), PLUGIN)
    assert (run.status, run.out, run.err) == (0, "valid\n", "")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("favor-color.yaml", REJECTED_FIELD),
        ("values.yaml", REJECTED_VALUES),
        ("endpointsleases.yaml", REJECTED_LOCK),
    ],
)
def test_rejected_arguments(file: str, message: str) -> None:
    path = SAMPLE_ARGS.folder / "refused" / file
    run = kubesched("config", "validate", "-f", str(path), PLUGIN, "--hints")
    assert (run.status, run.out, run.err) == (1, "", message)
