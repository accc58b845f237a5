"""Stock kube-schedulers, and ours, place pods through our extender, on a real API server.

Each run has two schedulers: one that calls the extender, and the default one, which does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.launch.certificates import write_certificates
from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.real_cluster import real_cluster
from kubesched.cluster.launch.schedulers import scheduler_command
from kubesched.cluster.playground.scheduler_thread import until
from kubesched.testing import (
    ADMIN,
    Api,
    Programs,
    RealCluster,
    SchedulerSettings,
    a_node,
    a_pod,
    start_scheduler,
)
from tests.integration.extender_process import ExtenderProcess, start_extender
from tests.integration.test_extender_server import caller_context

pytestmark = pytest.mark.programs

PODS = "/api/v1/namespaces/default/pods"
EXTENDED = "extended-scheduler"
OWN_WORDS = "the app is here already"


@dataclass(frozen=True)
class Form:
    """A calling scheduler and its options."""

    program: str
    sends_names: bool
    binds: bool = False
    is_secure: bool = False


FORMS = [
    pytest.param(Form("kube-scheduler", True, binds=True), id="1.36, names, bind"),
    pytest.param(Form("kube-scheduler", False), id="1.36, whole nodes"),
    pytest.param(Form("kube-scheduler", True, is_secure=True), id="1.36, names, https"),
    pytest.param(Form("kube-scheduler-1.29", True), id="1.29, names"),
    pytest.param(Form("kube-scheduler-1.29", False, binds=True), id="1.29, whole nodes, bind"),
    pytest.param(Form("kubesched", True, binds=True), id="kubesched, names, bind"),
    pytest.param(Form("kubesched", False), id="kubesched, whole nodes"),
]


@dataclass
class World:
    """A cluster with two schedulers and an extender."""

    form: Form
    api: Api
    extender: ExtenderProcess

    def node(self, name: str, group: str, **labels: str) -> None:
        """Create a node of a group."""
        merged = {"group": group, **{key.replace("_", "-"): v for key, v in labels.items()}}
        node = a_node(name, labels=merged, capacity={"cpu": "1"})
        self.api.post("/api/v1/nodes", node).must(201)
        self.extender.until(lambda: self._knows(name), f"the extender knows {name}")

    def _knows(self, node: str) -> bool:
        answer = self.extender.call("filter", Pod=a_pod("probe"), NodeNames=[node], Nodes=None)
        return "has not heard" not in str(answer["FailedNodes"])

    def pod(self, name: str, group: str, *, scheduler: str = EXTENDED, **pod: Any) -> None:
        """Create a pod for the nodes of a group."""
        spec = {"nodeSelector": {"group": group}, "terminationGracePeriodSeconds": 0, **pod}
        self.api.post(PODS, a_pod(name, scheduler=scheduler, **spec)).must(201)

    def node_of(self, name: str) -> str:
        """Return the node of a pod; empty if it is pending."""
        return str(self.api.get(f"{PODS}/{name}").json["spec"].get("nodeName", ""))

    def until_bound(self, name: str) -> str:
        """Wait until a pod has a node, and return it."""
        until(lambda: self.node_of(name), f"{name} has a node", 60.0)
        return self.node_of(name)

    def until_rejected(self, name: str) -> str:
        """Wait until a pod is unschedulable; return the message."""

        def rejection() -> str:
            conditions = self.api.get(f"{PODS}/{name}").json["status"].get("conditions", [])
            return next(
                (c["message"] for c in conditions if c.get("reason") == "Unschedulable"), ""
            )

        until(rejection, f"{name} is rejected", 60.0)
        return rejection()

    def calls(self, pod: str) -> list[str]:
        """Return the verbs that were called for a pod, from the log."""
        return re.findall(rf'"Extender call" verb="(\w+)" pod="default/{pod}"', self.extender.log)

    def until_called(self, pod: str, verb: str) -> None:
        """Wait until a call is logged."""
        self.extender.until(lambda: verb in self.calls(pod), f"{verb} of {pod} is in the log")


@pytest.fixture(scope="module", params=FORMS)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Run the cluster, the default scheduler, the extender and the scheduler that calls it."""
    form: Form = request.param
    place = tmp_path_factory.mktemp("extended")
    with real_cluster("bare") as cluster, ProcessGroup(place) as group, cluster.api(ADMIN) as api:
        extender = started(form, cluster, group, place)
        start_scheduler(cluster, group, "kube-scheduler")
        settings = SchedulerSettings(
            profiles=[{"schedulerName": EXTENDED}], extenders=[stanza(form, extender, place)]
        )
        config = place / "extended.yaml"
        config.write_text(yaml.safe_dump(settings.document(cluster)))
        group.start(EXTENDED, [*command(form), f"--config={config}", "--secure-port=0"])
        for name, value in (("low", 1), ("middle", 10), ("high", 1000)):
            body = {"metadata": {"name": name}, "value": value}
            api.post("/apis/scheduling.k8s.io/v1/priorityclasses", body).must(201)
        yield World(form, api, extender)


def command(form: Form) -> list[str]:
    """Return the options of the scheduler that calls the extender."""
    if form.program == "kubesched":
        return scheduler_command("kubesched")
    return [str(Programs.built().path(form.program))]


def started(form: Form, cluster: RealCluster, group: ProcessGroup, place: Path) -> ExtenderProcess:
    flags = ["--bind"] if form.binds else []
    tls = None
    if form.is_secure:
        certificates = write_certificates(place)
        flags += [
            f"--tls-cert-file={certificates.serving}",
            f"--tls-private-key-file={certificates.serving_key}",
        ]
        tls = caller_context(certificates.authority)
    extender = start_extender(cluster, group, *flags, tls=tls)
    extender.until_ready()
    return extender


def stanza(form: Form, extender: ExtenderProcess, place: Path) -> dict[str, Any]:
    """Return the configuration of the scheduler: the output of `--print-config`, and a weight."""
    entry: dict[str, Any] = {
        "urlPrefix": extender.url,
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "prioritizeVerb": "prioritize",
        # More than all plugins of kube-scheduler together.
        "weight": 100,
        "nodeCacheCapable": form.sends_names,
        "httpTimeout": "5s",
    }
    if form.binds:
        entry["bindVerb"] = "bind"
    if form.is_secure:
        entry |= {"enableHTTPS": True, "tlsConfig": {"caFile": str(place / "ca.crt")}}
    return entry


@pytest.mark.timeout(180)
def test_pods_are_placed_by_the_plugin(world: World) -> None:
    world.node("poor", "scored", score="10")
    world.node("rich", "scored", score="90")
    world.node("out", "scored", score="100", keep_out="yes")
    # kube-scheduler alone would choose the fullest node.
    world.pod("weight", "scored", requests={"cpu": "600m"}, nodeName="rich")
    world.pod("chosen", "scored", requests={"cpu": "100m"})
    assert world.until_bound("chosen") == "rich"
    verbs = ["filter", "prioritize", *(["bind"] if world.form.binds else [])]
    world.until_called("chosen", verbs[-1])
    assert world.calls("chosen") == verbs


@pytest.mark.timeout(180)
def test_the_default_scheduler_is_unaffected(world: World) -> None:
    world.node("forbidden", "alone", keep_out="yes")
    world.pod("plain", "alone", scheduler="default-scheduler")
    assert world.until_bound("plain") == "forbidden"
    world.pod("asking", "alone")
    message = world.until_rejected("asking")
    assert message.startswith("0/")
    assert " 1 keep out" in message
    assert world.node_of("asking") == ""
    world.until_called("asking", "filter")
    assert world.calls("plain") == []
    assert '"default/plain"' not in world.extender.log


@pytest.mark.timeout(180)
def test_the_plugin_sees_bound_pods(world: World) -> None:
    world.node("first", "apart", score="90")
    world.node("second", "apart", score="10")
    fields: dict[str, Any] = {"labels": {"app": "shop"}}
    world.pod("one", "apart", **fields)
    assert world.until_bound("one") == "first"
    world.extender.until(lambda: is_rejected(world, "first"), "the extender has seen the pod")
    world.pod("two", "apart", **fields)
    assert world.until_bound("two") == "second"
    world.extender.until(lambda: is_rejected(world, "second"), "the extender has seen the other")
    world.pod("three", "apart", **fields)
    assert f"2 {OWN_WORDS}" in world.until_rejected("three")
    world.api.delete(f"{PODS}/one", {"gracePeriodSeconds": 0}).must(200)
    world.extender.until(
        lambda: world.node_of("three") == "first" or not is_rejected(world, "first"),
        "the extender has seen it go",
    )
    # The scheduler may have retried before that; the next event makes it retry again.
    touched = {"metadata": {"labels": {"touched": "yes"}}}
    world.api.patch("/api/v1/nodes/first", touched, MERGE_PATCH).must(200)
    assert world.until_bound("three") == "first"


def is_rejected(world: World, node: str) -> bool:
    pod = a_pod("probe", labels={"app": "shop"})
    answer = world.extender.call("filter", Pod=pod, NodeNames=[node], Nodes=None)
    return bool(answer["FailedNodes"] == {node: OWN_WORDS})


@pytest.mark.timeout(180)
def test_no_pod_is_evicted_from_a_node_that_the_plugin_rejects(world: World) -> None:
    most = {"cpu": "800m"}
    world.node("refused", "full", keep_out="yes")
    world.node("taken", "full")
    # The pod on the rejected node has the lowest priority: it would be chosen.
    world.pod("cheap", "full", requests=most, priorityClassName="low", nodeName="refused")
    world.pod("dear", "full", requests=most, priorityClassName="middle", nodeName="taken")
    world.pod("urgent", "full", requests=most, priorityClassName="high")
    assert world.until_bound("urgent") == "taken"
    assert world.api.get(f"{PODS}/dear").code == 404
    assert world.node_of("cheap") == "refused"
    world.until_called("urgent", "preempt")
    assert 'verb="preempt" pod="default/urgent" nodes=2 kept=1 ' in world.extender.log
