"""`kubesched run --plugin FILE:CLASS` with a plugin that raises, rejects, waits and interferes.

The scheduler always continues, the pod is retried, and the log names the plugin. Runs
on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.server import SCHEDULER
from kubesched.testing import Api, ApiServer
from tests.integration.live_processes import Place, Scheduler, start

PLUGIN = f"{Path(__file__).parent / 'moody_plugin.py'}:Moody"
HOME = "live-home"
PROFILE = {
    "plugins": {
        "multiPoint": {"enabled": [{"name": "Moody"}]},
        # Before the bind plugin.
        "bind": {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": "Moody"}, {"name": "DefaultBinder"}],
        },
    }
}


@pytest.fixture(scope="module")
def scheduler(
    api_server: ApiServer, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    make_moods(api)
    directory = tmp_path_factory.mktemp("live")
    # Two from the start, so that nodes are scored.
    with Place(api, HOME) as home, ProcessGroup(directory) as group:
        home.node("a")
        home.node("b")
        yield start(api_server, group, f"--plugin={PLUGIN}", "-v=2", profiles=[PROFILE])
        group.check()


def make_moods(api: Api) -> None:
    """Define the plugin's custom kind, and allow the scheduler to read it."""
    names = {"plural": "moods", "singular": "mood", "kind": "Mood"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": names,
        "versions": [version],
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = {"metadata": {"name": "moods.example.com"}, "spec": spec}
    api.post(definitions, definition).must(201, 409)
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": ["example.com"], "resources": ["moods"], "verbs": ["list", "watch"]}
    role = {"metadata": {"name": "live-moods"}, "rules": [rule]}
    api.post(f"{rbac}/clusterroles", role).must(201, 409)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "live-moods"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SCHEDULER.name}
    binding = {"metadata": {"name": "live-moods"}, "roleRef": ref, "subjects": [user]}
    api.post(f"{rbac}/clusterrolebindings", binding).must(201, 409)


@pytest.fixture
def place(api: Api) -> Iterator[Place]:
    with Place(api, home=HOME) as created:
        yield created


def until_failed_event(scheduler: Scheduler, place: Place, name: str) -> None:
    """Wait for the event of a failed attempt, which is written asynchronously."""
    scheduler.until(lambda: place.notes(name, "FailedScheduling") != [], f"{name} is rejected")


def bound(scheduler: Scheduler, place: Place, name: str) -> None:
    scheduler.until(lambda: bool(place.node_of(name)), f"{name} is bound")


def steps(scheduler: Scheduler, place: Place, name: str) -> list[str]:
    """Return the extension points at which the plugin logged a pod, in order."""
    return re.findall(rf'"Moody was called" point="(\w+)" pod="{place.key(name)}"', scheduler.log)


RAISED = {
    "PreFilter": 'running PreFilter plugin "Moody": {}',
    "Filter": 'running "Moody" filter plugin: {}',
    "PreScore": 'running PreScore plugin "Moody": {}',
    "Score": 'running Score plugins: plugin "Moody" failed with: {}',
    "NormalizeScore": ('running Normalize on Score plugins: plugin "Moody" failed with: {}'),
    "Reserve": 'running Reserve plugin "Moody": {}',
    "Permit": 'running Permit plugin "Moody": {}',
    "PreBindPreFlight": 'running PreBindPreFlight "Moody": {}',
    "PreBind": 'running PreBind plugin "Moody": {}',
    "Bind": 'running Bind plugin "Moody": {}',
}


def test_a_raising_plugin_fails_the_attempt_and_the_pod_is_retried(
    scheduler: Scheduler, place: Place
) -> None:
    # At the same time: each waits for its own backoff only.
    names = {point: place.pod(point.lower(), annotations={"raise": point}) for point in RAISED}
    for name in names.values():
        bound(scheduler, place, name)
    for point, name in names.items():
        text = RAISED[point].format(f"ValueError: {name} at {point}")
        until_failed_event(scheduler, place, name)
        assert place.notes(name, "FailedScheduling") == [text], point
        (line,) = [
            line
            for line in scheduler.lines("Error scheduling pod; retrying")
            if f'pod="{place.key(name)}"' in line
        ]
        assert "Moody" in line
        assert f"{name} at {point}" in line
        # Unreserve runs once, at any failed step.
        reserve_steps = [step for step in steps(scheduler, place, name) if step.endswith("eserve")]
        has_reserved = list(RAISED).index(point) >= list(RAISED).index("Reserve")
        assert reserve_steps == [*(["Reserve", "Unreserve"] if has_reserved else []), "Reserve"]


def test_a_persistent_error_is_in_the_condition_and_backs_off(
    scheduler: Scheduler, place: Place
) -> None:
    name = place.pod("pod", annotations={"always": "Reserve"})
    scheduler.until(lambda: place.rejected(name), "the condition says so")
    condition = place.condition(name)
    assert (condition["status"], condition["reason"]) == ("False", "SchedulerError")
    assert condition["message"] == 'running Reserve plugin "Moody": ValueError: pod at Reserve'
    scheduler.until(
        lambda: steps(scheduler, place, name).count("Reserve") >= 2, "it is tried again"
    )
    times = re.findall(
        rf'I\d+ \d+:(\d+):([\d.]+) .*"Moody was called" point="Reserve" pod="{place.key(name)}"',
        scheduler.log,
    )
    first, second = (int(minutes) * 60 + float(seconds) for minutes, seconds in times[:2])
    assert (second - first) % 3600 >= 0.5
    place.delete(name)


def test_an_error_in_pre_enqueue_holds_only_its_pod(scheduler: Scheduler, place: Place) -> None:
    gated = place.pod("gated", annotations={"always": "PreEnqueue"})
    bound(scheduler, place, place.pod("free"))
    assert place.node_of(gated) == ""
    (line,) = [
        line
        for line in scheduler.lines("Unexpected error running PreEnqueue plugin")
        if place.key(gated) in line
    ][:1]
    assert 'plugin="Moody"' in line
    assert "gated at PreEnqueue" in line


def test_an_error_in_post_filter_is_added_to_the_message(
    scheduler: Scheduler, place: Place
) -> None:
    name = place.pod("pod", cpu="99", annotations={"always": "PostFilter"})
    scheduler.until(lambda: place.rejected(name), "the pod is rejected")
    condition = place.condition(name)
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].endswith("ValueError: pod at PostFilter")
    scheduler.until_logged("Status after running PostFilter plugins for pod")


def test_a_raising_hint_queues_the_pod(scheduler: Scheduler, place: Place) -> None:
    name = place.pod("pod", annotations={"raise": "Hint"})
    until_failed_event(scheduler, place, name)
    assert "in no mood" in place.notes(name, "FailedScheduling")[0]
    # No other plugin's hint queues the pod for this node.
    place.node("c", is_here=False)
    bound(scheduler, place, name)
    assert "Hint" in steps(scheduler, place, name)


def test_an_error_in_post_bind_changes_nothing(scheduler: Scheduler, place: Place) -> None:
    back = place.pod("back", annotations={"raise": "Unreserve", "permit": "reject once"})
    scheduler.until(lambda: place.rejected(back), "back is rejected")
    # The plugin registered for the event of the next pod's binding.
    after = place.pod("after", annotations={"raise": "PostBind"})
    bound(scheduler, place, after)
    bound(scheduler, place, back)
    for name, point in ((after, "PostBind"), (back, "Unreserve")):
        text = f'pod="{place.key(name)}"'
        scheduler.until(
            lambda text=text: any(text in line for line in scheduler.lines("Plugin failed")),  # type: ignore[misc]  # bound at once
            f"the log has {point}",
        )
        (line,) = [line for line in scheduler.lines("Plugin failed") if text in line]
        assert f'plugin="Moody" extensionPoint="{point}"' in line
    assert place.notes(after, "FailedScheduling") == []


def test_an_object_of_a_registered_kind_requeues_the_pod(
    scheduler: Scheduler, place: Place
) -> None:
    name = place.pod("pod", annotations={"wants": "good"})
    scheduler.until(lambda: place.rejected(name), "the pod is rejected")
    assert "no mood good" in place.condition(name)["message"]
    moods = f"/apis/example.com/v1/namespaces/{place.name}/moods"
    kind = {"apiVersion": "example.com/v1", "kind": "Mood"}
    place.api.post(moods, {**kind, "metadata": {"name": "bad"}}).must(201)
    place.api.post(moods, {**kind, "metadata": {"name": "good"}}).must(201)
    bound(scheduler, place, name)
    until_failed_event(scheduler, place, name)
    assert len(place.notes(name, "FailedScheduling")) == 1, "the other one was no help"


# -- permit ---------------------------------------------------------------------------------------


def held(scheduler: Scheduler, place: Place, name: str, mode: str = "wait 600") -> str:
    place.pod(name, annotations={"permit": mode})
    scheduler.until(
        lambda: "nominatedNodeName" in place.read(name)["status"], f"{name} is announced"
    )
    return name


def test_waiting_pods_are_bound_when_another_pod_arrives(
    scheduler: Scheduler, place: Place
) -> None:
    names = [held(scheduler, place, name) for name in ("first", "second")]
    announced = {name: place.read(name)["status"]["nominatedNodeName"] for name in names}
    assert [place.node_of(name) for name in names] == ["", ""]
    place.pod("last", annotations={"permit": "allow others"})
    for name in (*names, "last"):
        bound(scheduler, place, name)
    assert {name: place.node_of(name) for name in names} == announced
    assert all("nominatedNodeName" not in place.read(name)["status"] for name in names)


def test_waiting_pods_are_rejected_by_another_pod(scheduler: Scheduler, place: Place) -> None:
    name = held(scheduler, place, "held")
    place.pod("rival", annotations={"permit": "reject others"})
    until_failed_event(scheduler, place, name)
    assert place.notes(name, "FailedScheduling") == ["0/1 nodes are available: 1 not with me."]
    bound(scheduler, place, "rival")
    # The plugin registered for the event of the rival's binding.
    bound(scheduler, place, name)
    reserve_steps = [step for step in steps(scheduler, place, name) if step.endswith("eserve")]
    assert reserve_steps == ["Reserve", "Unreserve", "Reserve"]


def test_permit_times_out(scheduler: Scheduler, place: Place) -> None:
    name = place.pod("held", annotations={"permit": "wait 0.2"})
    until_failed_event(scheduler, place, name)
    assert place.notes(name, "FailedScheduling") == [
        "0/1 nodes are available: 1 rejected due to timeout after waiting 200ms at plugin Moody."
    ]
    scheduler.until(
        lambda: "nominatedNodeName" not in place.read(name)["status"], "no longer announced"
    )
    place.pod("next")
    bound(scheduler, place, name)


def test_a_deleted_waiting_pod_is_dropped(scheduler: Scheduler, place: Place) -> None:
    name = held(scheduler, place, "held")
    place.delete(name)
    scheduler.until(
        lambda: "Unreserve" in steps(scheduler, place, name), "what it reserved is given back"
    )


# -- bindings that fail ---------------------------------------------------------------------------


def test_a_pod_deleted_before_its_binding(scheduler: Scheduler, place: Place) -> None:
    name = place.pod("pod", annotations={"bind": "gone"})
    scheduler.until(
        lambda: "Unreserve" in steps(scheduler, place, name), "what it reserved is given back"
    )
    assert place.read(name) == {}
    key = place.key(name)
    failed = [line for line in scheduler.lines("Error scheduling pod; retrying") if key in line]
    assert len(failed) == 1
    assert f'pods \\"{name}\\" not found' in failed[0]
    bound(scheduler, place, place.pod("next"))


def test_a_pod_bound_by_another_client_first(scheduler: Scheduler, place: Place) -> None:
    other_node = f"{place.name}-c"
    place.node("c", is_here=False)
    name = place.pod("pod", annotations={"bind": other_node})
    bound(scheduler, place, name)
    scheduler.until(
        lambda: "Unreserve" in steps(scheduler, place, name), "what it reserved is given back"
    )
    assert place.node_of(name) == other_node
    scheduler.until(lambda: place.notes(name, "FailedScheduling") != [], "it has an event")
    (note,) = place.notes(name, "FailedScheduling")
    assert note.startswith('running Bind plugin "DefaultBinder": Operation cannot be fulfilled')
    key = place.key(name)
    lines = scheduler.lines("Pod has been assigned to node. Abort adding it back to queue.")
    # None if the rejection came before the watch showed the binding, which then removes it from the
    # queue again.
    assert len([one for one in lines if key in one]) <= 1
    page = f"/debug/explain?pod={key}"
    scheduler.until(
        lambda: json.loads(scheduler.page(page)[1])["state"] == "bound", "it waits no longer"
    )
    assert steps(scheduler, place, name).count("Unreserve") == 1


def test_the_loop_survived_all_errors(scheduler: Scheduler, place: Place) -> None:
    bound(scheduler, place, place.pod("pod"))
    assert scheduler.page("/healthz") == (200, "ok")
    assert scheduler.lines("Failed to apply a change") == []
    assert scheduler.lines("Failed to finish a scheduling attempt") == []
    assert "task failed" not in scheduler.log
