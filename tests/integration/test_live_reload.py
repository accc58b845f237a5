"""`kubesched run --reload`: plugins and configuration change while pods arrive.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.launch.server import SCHEDULER
from kubesched.testing import Api, ApiServer
from tests.integration.live_processes import Place
from tests.integration.reload_world import REJECTED, Reloading, in_force_at, reloading

NAME = "reloading"
PLUGIN = """
from kubesched import unschedulable
from kubesched.kit.log import Ref
import msgspec

VERSION = "{version}"


class MineArgs(msgspec.Struct, frozen=True):
    colour: str = "red"


class Mine:
    name = "Mine"

    def __init__(self, args: MineArgs, handle):
        {init}
        self.rules = VERSION + "-" + args.colour
        self.log = handle.log

    def filter(self, state, pod, node):
        return None if node.labels.get("rules") == self.rules else unschedulable("other rules")

    def reserve(self, state, pod, node_name):
        self.log.info("Decided", pod=Ref(pod.namespace, pod.name), rules=self.rules)
"""


def plugin(version: str, init: str = "pass") -> str:
    return PLUGIN.format(version=version, init=init)


def profile(colour: str = "red", **more: Any) -> dict[str, Any]:
    return {
        "schedulerName": NAME,
        "plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}},
        "pluginConfig": [{"name": "Mine", "args": {"colour": colour}}],
        **more,
    }


@pytest.fixture
def place(api: Api) -> Iterator[Place]:
    with Place(api) as created:
        yield created


def a_node(place: Place, rules: str) -> str:
    """Create a node with room for all pods of some rules."""
    name = f"{place.name}-{rules}"
    room = {"cpu": "2000", "memory": "4000Gi", "pods": "5000"}
    metadata = {"name": name, "labels": {"place": place.name, "rules": rules}}
    status = {"capacity": room, "allocatable": room}
    place.api.post("/api/v1/nodes", {"metadata": metadata, "status": status}).must(201)
    place.nodes.append(name)
    return name


def nodes_of_pods(place: Place) -> dict[str, str]:
    pods = place.api.get(place.pods).must(200).json["items"]
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


# Each change, the active rules after it, and whether it is rejected.
Change = Callable[[Reloading], None]
CHANGES: list[tuple[Change, str, bool]] = [
    (lambda one: one.write_plugin(plugin("v2")), "v2-red", False),
    (lambda one: one.write_config(profiles=[profile("blue")]), "v2-blue", False),
    (lambda one: one.write_plugin("class Mine:\n    name = "), "v2-blue", True),
    (lambda one: one.write_plugin(plugin("v3")), "v3-blue", False),
    (lambda one: one.write_config(profiles=[profile("green")]), "v3-green", False),
    (lambda one: one.write_config(profiles=[profile("red", paint=1)]), "v3-green", True),
    (lambda one: one.write_config(profiles=[profile("red")]), "v3-red", False),
    (lambda one: one.write_plugin(plugin("v4")), "v4-red", False),
    (lambda one: one.write_plugin(plugin("v5", "raise OSError('x')")), "v4-red", True),
    (lambda one: one.write_plugin(plugin("v6")), "v6-red", False),
]


def test_a_thousand_pods_during_ten_reloads_of_which_three_are_rejected(
    api_server: ApiServer, api: Api, place: Place, tmp_path: Path
) -> None:
    rules = ["v1-red", *dict.fromkeys(after for _, after, _ in CHANGES)]
    for rule in rules:
        a_node(place, rule)
    with reloading(api_server, api, tmp_path, plugin("v1"), profile=profile()) as running:
        scheduler = running.scheduler
        place.pod("first", schedulerName=NAME, cpu="1m")
        scheduler.until(lambda: bool(place.node_of("first")), "the first pod is bound")
        for number, (change, _, is_rejected) in enumerate(CHANGES):
            for pod in range(50):
                place.pod(f"before-{number}-{pod}", schedulerName=NAME, cpu="1m")
            change(running)
            for pod in range(50):
                place.pod(f"during-{number}-{pod}", schedulerName=NAME, cpu="1m")
            rejected = sum(was_rejected for _, _, was_rejected in CHANGES[: number + 1])
            if is_rejected:
                running.until_rejected(rejected)
            else:
                running.until_swapped(number + 1 - rejected)
            assert scheduler.page("/readyz")[0] == 200
        place.pod("last", schedulerName=NAME, cpu="1m")
        scheduler.until(lambda: all(nodes_of_pods(place).values()), "every pod is bound", 60)
        check_all(running, place, rules)


def check_all(running: Reloading, place: Place, rules: list[str]) -> None:
    placed = nodes_of_pods(place)
    assert len(placed) == 1002
    running.scheduler.until(
        lambda: len(running.scheduler.lines("Successfully bound pod to node")) >= len(placed),
        "the log has every pod",
    )
    log = running.scheduler.log
    # Nothing is bound twice, and no request fails.
    bound = Counter(
        match[1] for _, match in in_force_at(log, r'"Successfully bound pod to node" pod="(\S+)"')
    )
    assert set(bound) == {place.key(name) for name in placed}
    assert set(bound.values()) == {1}
    # Each pod was decided by the active rules, and is on their node.
    in_force = ["v1-red", *(after for _, after, is_rejected in CHANGES if not is_rejected)]
    decided = in_force_at(log, r'"Decided" pod="(\S+)" rules="(\S+)"')
    assert len(decided) == 1002
    for generation, match in decided:
        assert match[2] == in_force[generation], match[0]
        assert placed[match[1].partition("/")[2]] == f"{place.name}-{match[2]}"
    assert placed["last"] == f"{place.name}-v6-red"
    assert set(Counter(match[2] for _, match in decided)) == set(rules)
    check_reports(running)


def check_reports(running: Reloading) -> None:
    scheduler = running.scheduler
    assert len(scheduler.lines(REJECTED)) == 3
    assert scheduler.metric("kubesched_reloads_total", result="swapped") == 7
    assert scheduler.metric("kubesched_reloads_total", result="rejected") == 3
    assert scheduler.lines("Failed to apply a change") == []
    assert "task failed" not in scheduler.log
    code, text = scheduler.page("/statusz")
    assert code == 200
    assert "generation 7 active since" in text
    assert "changes applied: 7, rejected: 3" in text
    assert "Reload rejected" not in text
    scheduler.until(lambda: len(running.event_notes("ReloadRejected")) == 3, "it has three events")
    notes = running.event_notes("ReloadRejected")
    assert any("SyntaxError" in note for note in notes)
    assert any('unknown field "profiles[0].paint"' in note for note in notes)
    assert any("OSError: x" in note for note in notes)


def test_a_mounted_config_map_is_reloaded_through_its_link(
    api_server: ApiServer, api: Api, place: Place, tmp_path: Path
) -> None:
    for one in ("v1-red", "v2-red"):
        a_node(place, one)
    mount = tmp_path / "plugins"
    mount.mkdir()
    for version in ("v1", "v2"):
        (mount / f"..{version}").mkdir()
        (mount / f"..{version}" / "mine_plugin.py").write_text(plugin(version))
    (mount / "..data").symlink_to("..v1")
    (mount / "mine_plugin.py").symlink_to("..data/mine_plugin.py")
    with reloading(api_server, api, tmp_path, plugin("v1"), profile=profile()) as running:
        place.pod("first", schedulerName=NAME)
        running.scheduler.until(lambda: bool(place.node_of("first")), "the first pod is bound")
        (mount / "..tmp").symlink_to("..v2")
        (mount / "..tmp").replace(mount / "..data")
        running.until_swapped(1)
        place.pod("second", schedulerName=NAME)
        running.scheduler.until(lambda: bool(place.node_of("second")), "the second pod is bound")
    assert place.node_of("first").endswith("v1-red")
    assert place.node_of("second").endswith("v2-red")


def test_a_field_that_cannot_be_reloaded_is_rejected_by_name(
    api_server: ApiServer, api: Api, place: Place, tmp_path: Path
) -> None:
    a_node(place, "v1-red")
    leads = {"resourceName": f"lease-{place.name}", "leaderElect": True}
    with reloading(
        api_server, api, tmp_path, plugin("v1"), profile=profile(), leads=leads
    ) as running:
        scheduler = running.scheduler
        scheduler.until_logged("Successfully acquired lease")
        running.write_config(parallelism=3)
        running.until_rejected(1)
        message = "parallelism has changed, which requires a restart"
        assert message in scheduler.lines(REJECTED)[0]
        assert message in scheduler.page("/statusz")[1]
        assert scheduler.page("/readyz")[0] == 200
        scheduler.until(lambda: bool(running.event_notes("ReloadRejected")), "it has an event")
        (event,) = [
            one
            for one in api.get("/api/v1/namespaces/kube-system/events").must(200).json["items"]
            if one["involvedObject"]["name"] == f"lease-{place.name}"
            and one["reason"] == "ReloadRejected"
        ]
        lease = (
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + f"lease-{place.name}"
        )
        assert event["involvedObject"]["uid"] == api.get(lease).must(200).json["metadata"]["uid"]
        place.pod("pod", schedulerName=NAME)
        scheduler.until(lambda: bool(place.node_of("pod")), "the pod is bound")


WIDGETS = """
from kubesched import ActionType, ClusterEvent, EventRegistration, unschedulable


class Mine:
    name = "Mine"

    def __init__(self, handle):
        self.handle = handle

    def events_to_register(self):
        return [EventRegistration(ClusterEvent("{kind}", ActionType.ADD))]

    def filter(self, state, pod, node):
        known = self.handle.informer("{kind}")
        return None if f"{{pod.namespace}}/wanted" in known else unschedulable("no widget")
"""
WHOLE = """
from kubesched import unschedulable


class Mine:
    name = "Mine"
    reads_bound_pods = True

    def filter(self, state, pod, node):
        images = [one.object.spec.containers[0].image for one in node.pods]
        return unschedulable("seen " + ", ".join(images)) if images else None
"""
PLAIN = {"schedulerName": NAME, "plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}
NOTHING = """
class Mine:
    name = "Mine"

    def post_bind(self, state, pod, node_name):
        pass
"""


def make_widgets(api: Api) -> None:
    """Define a kind that the scheduler may not read yet."""
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).must(201)


def let_read_widgets(api: Api) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["list", "watch"]}
    api.post(f"{rbac}/clusterroles", {"metadata": {"name": "widgets"}, "rules": [rule]}).must(201)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "widgets"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SCHEDULER.name}
    binding = {"metadata": {"name": "widgets"}, "roleRef": ref, "subjects": [user]}
    api.post(f"{rbac}/clusterrolebindings", binding).must(201)


def test_a_kind_that_a_new_plugin_reads_is_listed_before_it_decides(
    api_server: ApiServer, api: Api, place: Place, tmp_path: Path
) -> None:
    make_widgets(api)
    widgets = f"/apis/example.com/v1/namespaces/{place.name}/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "wanted"}}
    place.node()
    with reloading(api_server, api, tmp_path, NOTHING, profile=PLAIN) as running:
        scheduler = running.scheduler
        place.pod("first", schedulerName=NAME)
        scheduler.until(lambda: bool(place.node_of("first")), "the first pod is bound")
        running.write_plugin(WIDGETS.format(kind="widgets.v1.example.com"))
        running.until_rejected(1)
        # No right: rejected, without an alarm for a right that no active plugin needs.
        assert "widgets.example.com cannot be watched" in scheduler.lines(REJECTED)[0]
        assert scheduler.page("/readyz")[0] == 200
        let_read_widgets(api)
        running.plugin.touch()
        running.until_swapped(1)
        place.pod("pod", schedulerName=NAME)
        scheduler.until(lambda: place.rejected("pod"), "the pod is rejected")
        assert "no widget" in place.condition("pod")["message"]
        api.post(widgets, widget).must(201)
        scheduler.until(lambda: bool(place.node_of("pod")), "the pod is bound")
        # No longer watched (as after the rejection), and listed again when a plugin needs it.
        running.write_plugin(NOTHING)
        running.until_swapped(2)
        scheduler.until(lambda: len(stopped(running)) == 2, "the kind is watched no more")
        running.write_plugin(WIDGETS.format(kind="widgets.v1.example.com"))
        running.until_swapped(3)
        place.pod("again", schedulerName=NAME)
        scheduler.until(lambda: bool(place.node_of("again")), "the pod is bound")
        assert len(stopped(running)) == 2


def stopped(running: Reloading) -> list[str]:
    lines = running.scheduler.lines("Stopping reflector")
    return [line for line in lines if "widgets.example.com" in line]


def test_whole_pods_are_kept_once_a_plugin_reads_them(
    api_server: ApiServer, api: Api, place: Place, tmp_path: Path
) -> None:
    place.node()
    with reloading(api_server, api, tmp_path, NOTHING, profile=PLAIN) as running:
        scheduler = running.scheduler
        place.pod("first", schedulerName=NAME)
        scheduler.until(lambda: bool(place.node_of("first")), "the first pod is bound")
        running.write_plugin(WHOLE)
        running.until_swapped(1)
        place.pod("second", schedulerName=NAME)
        scheduler.until(lambda: place.rejected("second"), "the second pod is rejected")
        assert "1 seen app:1." in place.condition("second")["message"]
