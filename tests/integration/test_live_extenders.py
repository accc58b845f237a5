"""`kubesched run` with extenders that reject, score, do not respond and disappear.

`conformance` compares requests and the handling of replies with kube-scheduler; these tests cover
the whole process. Runs on the embedded server, or on the real one with `--server
real`.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from conformance.extender.server import Exchange, ScriptedExtender
from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.testing import Api, ApiServer
from tests.integration.live_processes import Place, Scheduler, start
from tests.integration.reload_world import replace
from tests.integration.test_live_leaders import leads, lease_of, steals

Choice = Callable[[str, list[str]], Any]


@dataclass(slots=True)
class KeepingExtender:
    """An extender that keeps all nodes and scores 0, unless a test scripts a verb."""

    server: ScriptedExtender
    is_whole: bool = False
    """Whether it receives whole nodes."""
    choose: dict[str, Choice] = field(default_factory=dict)
    """By verb: a function from the pod's name and the nodes' names to the reply."""
    held: threading.Event = field(default_factory=threading.Event)
    """Pods named `slow...` wait for it."""
    is_called: threading.Event = field(default_factory=threading.Event)
    """Set when such a pod waits."""

    def __post_init__(self) -> None:
        for verb in ("filter", "prioritize"):
            self.server.scripts[f"/{verb}"] = self._script(verb)

    def _script(self, verb: str) -> Callable[[Exchange], None]:
        def answer(exchange: Exchange) -> None:
            request = exchange.json
            pod = request["Pod"]["metadata"]["name"]
            nodes = request["Nodes"]["items"] if self.is_whole else request["NodeNames"]
            names = [node["metadata"]["name"] for node in nodes] if self.is_whole else nodes
            if pod.startswith("slow") and verb == "filter":
                self.is_called.set()
                self.held.wait(60)
            choose = self.choose.get(verb)
            reply = None if choose is None else choose(pod, names)
            if reply is None:
                passed = {"Nodes": {"items": nodes}} if self.is_whole else {"NodeNames": nodes}
                reply = passed if verb == "filter" else []
            exchange.answer(reply)

        return answer

    def stanza(self, **more: Any) -> dict[str, Any]:
        """Return the extender's entry in a configuration."""
        return {
            "urlPrefix": self.server.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "nodeCacheCapable": not self.is_whole,
            "httpTimeout": "60s",
            **more,
        }


@pytest.fixture
def extender() -> Iterator[KeepingExtender]:
    with ScriptedExtender() as server:
        created = KeepingExtender(server)
        try:
            yield created
        finally:
            created.held.set()


@pytest.fixture
def place(api: Api) -> Iterator[Place]:
    with Place(api) as created:
        for name in "abc":
            created.node(name)
        yield created


def bound(scheduler: Scheduler, place: Place, name: str) -> str:
    scheduler.until(lambda: bool(place.node_of(name)), f"{name} is bound")
    return place.node_of(name).removeprefix(f"{place.name}-")


@pytest.mark.parametrize("is_whole", [False, True], ids=["names", "whole nodes"])
def test_pods_are_placed_by_extenders(
    api_server: ApiServer,
    place: Place,
    group: ProcessGroup,
    extender: KeepingExtender,
    is_whole: bool,
) -> None:
    extender.is_whole = is_whole
    best = f"{place.name}-c"
    extender.choose["prioritize"] = lambda _pod, _names: [{"Host": best, "Score": 10}]
    scheduler = start(api_server, group, "-v=2", extenders=[extender.stanza(weight=5)])
    for number in range(3):
        assert bound(scheduler, place, place.pod(f"pod-{number}")) == "c"

    def all_but_b(_pod: str, names: list[str]) -> Any:
        failed = {name: "not today" for name in names if not name.endswith("-b")}
        left = [name for name in names if name.endswith("-b")]
        whole = {"items": [{"metadata": {"name": name}} for name in left]}
        return {"Nodes": whole, "NodeNames": left, "FailedNodes": failed}

    assert scheduler.metric("scheduler_goroutines", operation="prioritizing_extender") == 0
    extender.choose["filter"] = all_but_b
    assert bound(scheduler, place, place.pod("filtered")) == "b"
    paths = [call.path for call in extender.server.taken()]
    assert paths == ["/filter", "/prioritize"] * 3 + ["/filter"]


def test_a_rejected_pod_has_a_condition_and_is_retried_after_a_change(
    api_server: ApiServer, place: Place, group: ProcessGroup, extender: KeepingExtender
) -> None:
    def only_d(_pod: str, names: list[str]) -> Any:
        left = [name for name in names if name.endswith("-d")]
        return {
            "NodeNames": left,
            "FailedNodes": {name: "no licence" for name in names if name.endswith("-a")},
            "FailedAndUnresolvableNodes": {
                name: "too old" for name in names if name.endswith(("-b", "-c"))
            },
        }

    extender.choose["filter"] = only_d
    scheduler = start(api_server, group, "-v=2", extenders=[extender.stanza()])
    place.pod("pod")
    scheduler.until(lambda: place.rejected("pod"), "it is rejected")
    condition = place.condition("pod")
    assert condition["reason"] == "Unschedulable"
    assert "1 no licence" in condition["message"]
    assert "2 too old" in condition["message"]
    code, text = scheduler.page(f"/debug/explain?pod={place.key('pod')}")
    assert code == 200
    report = json.loads(text)
    rejections = report["explanation"]["rejections"]
    counts = {
        (rejection["plugin"], *rejection["reasons"]): rejection["count"] for rejection in rejections
    }
    assert counts[extender.server.url, "no licence"] == 1
    assert counts[extender.server.url, "too old"] == 2
    assert "Extender" in report["rejectedBy"]
    (woken,) = [wake["events"] for wake in report["wakes"] if wake["plugin"] == "Extender"]
    assert "NodeAdd" in woken
    place.node("d")
    assert bound(scheduler, place, "pod") == "d"


def test_an_unreachable_extender_is_an_error_unless_it_is_ignorable(
    api_server: ApiServer, place: Place, group: ProcessGroup
) -> None:
    (port,) = free_ports(1)
    gone = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "nodeCacheCapable": True,
    }
    text = f'Post "http://127.0.0.1:{port}/filter": dial tcp 127.0.0.1:{port}: connect: connection'
    scheduler = start(api_server, group, label="strict", extenders=[gone])
    place.pod("pod")
    scheduler.until(lambda: place.rejected("pod"), "it fails")
    assert place.condition("pod")["reason"] == "SchedulerError"
    assert place.condition("pod")["message"] == f"{text} refused"
    scheduler.until(lambda: place.notes("pod", "FailedScheduling") != [], "the event follows")
    assert any(note.startswith(text) for note in place.notes("pod", "FailedScheduling"))
    group.stop("strict")
    lenient = start(
        api_server,
        group,
        label="lenient",
        extenders=[{**gone, "prioritizeVerb": "prioritize", "weight": 1, "ignorable": True}],
    )
    bound(lenient, place, "pod")
    for number in range(3):
        bound(lenient, place, place.pod(f"more-{number}"))
    assert len(lenient.lines("Skipping extender as it returned error and has ignorable")) >= 4
    # Missing scores are logged once.
    assert len(lenient.lines("Extender's priority function fails")) == 1


def test_the_process_stays_responsive_while_it_waits_for_an_extender(
    api_server: ApiServer, place: Place, group: ProcessGroup, extender: KeepingExtender
) -> None:
    scheduler = start(api_server, group, "-v=3", label="asking", extenders=[extender.stanza()])
    place.pod("slow")
    assert extender.is_called.wait(30)
    # Meanwhile watches are read and pages are served.
    place.pod("other")
    place.node("late")
    assert scheduler.page("/readyz") == (200, "ok")
    extender.held.set()
    bound(scheduler, place, "slow")
    bound(scheduler, place, "other")
    extender.held.clear()
    extender.is_called.clear()
    place.pod("slow-again")
    assert extender.is_called.wait(30)
    scheduler.send_signal(signal.SIGTERM)
    assert scheduler.wait(10) == 1
    group.stop("asking")
    assert place.node_of("slow-again") == ""
    assert not place.rejected("slow-again")
    assert "Traceback" not in scheduler.log


@pytest.mark.slow
def test_a_late_extender_response_binds_nothing_after_the_lease_is_lost(
    api_server: ApiServer, api: Api, place: Place, group: ProcessGroup, extender: KeepingExtender
) -> None:
    lease = "live-extender"
    scheduler = start(
        api_server, group, "-v=2", label="leader", leads=leads(lease), extenders=[extender.stanza()]
    )
    scheduler.until_logged("Successfully acquired lease")
    place.pod("slow")
    assert extender.is_called.wait(30)
    scheduler.until(lambda: steals(api, lease), "the lease is stolen")
    assert scheduler.wait(20) == 1
    group.stop("leader")
    extender.held.set()
    assert len(scheduler.lines("Leaderelection lost")) == 1
    assert lease_of(api, lease)["holderIdentity"] == "thief"
    assert place.node_of("slow") == ""
    assert not place.rejected("slow")


def only(letter: str) -> Choice:
    """Return a script that keeps only the node of a letter."""

    def choose(_pod: str, names: list[str]) -> Any:
        return {"NodeNames": [name for name in names if name.endswith(f"-{letter}")]}

    return choose


def test_extenders_are_replaced_while_the_scheduler_runs(
    api_server: ApiServer, place: Place, group: ProcessGroup, extender: KeepingExtender
) -> None:
    extender.choose["filter"] = only("a")
    with ScriptedExtender() as server:
        other = KeepingExtender(server)
        other.choose["filter"] = only("b")
        scheduler = start(api_server, group, "-v=2", "--reload", extenders=[extender.stanza()])
        assert bound(scheduler, place, place.pod("before")) == "a"
        reload(scheduler, [other.stanza()])
        assert len(extender.server.taken()) == 1
        assert bound(scheduler, place, place.pod("after")) == "b"
        reload(scheduler, [])
        assert (len(extender.server.taken()), len(server.taken())) == (0, 1)
        bound(scheduler, place, place.pod("without"))
        assert (extender.server.taken(), server.taken()) == ([], [])


def reload(scheduler: Scheduler, extenders: list[dict[str, Any]]) -> None:
    """Replace the extenders of the configuration, and wait until they are active."""
    message = "Reloaded plugins and configuration"
    before = len(scheduler.lines(message))
    document = {**yaml.safe_load(scheduler.config_path.read_text()), "extenders": extenders}
    replace(scheduler.config_path, yaml.safe_dump(document))
    scheduler.until(lambda: len(scheduler.lines(message)) > before, "it is taken over")
