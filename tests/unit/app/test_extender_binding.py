"""`bind` of an extender: who writes the binding, and what a failure undoes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from kubesched import SKIP, CycleState, Handle, PodInfo, Status, error
from kubesched.app.extender_binding import ExtenderBinder
from kubesched.app.extender_service import ServiceError
from kubesched.extender.wire import ExtenderBindingArgs
from kubesched.framework.handle import ApiCallError
from kubesched.testing import a_pod
from tests.unit.app.extender_cases import (
    ByLabel,
    Extender,
    an_extender,
    as_served,
    some_nodes,
)

OTHER = "pod default/other is not the one that was placed: its uid is uid-other, not uid-before"


class ScriptedClient:
    """An API client that notes what is asked of it, and refuses what it is told to."""

    def __init__(self, pods: Mapping[str, Any] | None = None, refusal: str = "") -> None:
        self.pods = pods or {}
        self.refusal = refusal
        self.bound: list[tuple[str, str, str, str]] = []
        self.read: list[str] = []

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        if self.refusal:
            raise ApiCallError(self.refusal, code=409)
        self.bound.append((namespace, name, uid, node_name))

    async def get_object(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        self.read.append(f"{resource}/{namespace}/{name}")
        if name not in self.pods:
            raise ApiCallError(f'pods "{name}" not found', code=404, reason="NotFound")
        return dict(self.pods[name])


class Told:
    """Notes what it is told at every point around a binding, and answers as it is set."""

    name = "Told"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.heard: list[str] = []
        self.answers: dict[str, Status] = {}

    def _hear(self, point: str, node_name: str) -> Status | None:
        self.heard.append(f"{point} {node_name}")
        return self.answers.get(point)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._hear("reserve", node_name)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._hear("unreserve", node_name)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        return None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._hear("pre_bind", node_name)

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._hear("bind", node_name)

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._hear("post_bind", node_name)


def bind(
    extender: Extender, client: ScriptedClient, *, name: str = "new", uid: str = "uid-new"
) -> None:
    extender.built.lent.client = client
    binder = ExtenderBinder(extender.service, cast("Any", client))
    args = ExtenderBindingArgs(pod_name=name, pod_namespace="default", pod_uid=uid, node="a")
    asyncio.run(binder.bind(args))


@pytest.fixture
def extender() -> Extender:
    """An extender that is told of bindings; a pod waits."""
    made = an_extender(Told, ByLabel)
    some_nodes(made, a={}, b={})
    made.put_pod(a_pod("new", labels={"app": "web"}))
    return made


def told(extender: Extender) -> Told:
    plugin: Told = extender.service.profiles["default-scheduler"].plugins["Told"]
    return plugin


def test_a_plugin_of_the_users_binds_before_ours(extender: Extender) -> None:
    client = ScriptedClient()
    bind(extender, client)
    assert told(extender).heard == ["reserve a", "pre_bind a", "bind a", "post_bind a"]
    assert client.bound == []


def test_what_it_leaves_to_others_is_written_as_a_binding(extender: Extender) -> None:
    client = ScriptedClient()
    told(extender).answers["bind"] = SKIP
    bind(extender, client)
    assert client.bound == [("default", "new", "uid-new", "a")]
    assert told(extender).heard[-1] == "post_bind a"


def test_a_bound_pod_counts_before_the_watch_shows_it(extender: Extender) -> None:
    args = extender.names("a", "b", pod=a_pod("next", labels={"app": "web"}))
    assert extender.service.filter(args).result.node_names == ["a", "b"]
    bind(extender, ScriptedClient())
    assert extender.service.filter(args).result.node_names == ["b"]
    # The watch confirms it; then it goes.
    bound = a_pod("new", labels={"app": "web"}, node="a")
    extender.put_pod(bound, "MODIFIED")
    assert extender.service.filter(args).result.node_names == ["b"]
    extender.put_pod(bound, "DELETED")
    assert extender.service.filter(args).result.node_names == ["a", "b"]


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("reserve", 'running Reserve plugin "Told": broken'),
        ("pre_bind", 'running PreBind plugin "Told": broken'),
        ("bind", 'running Bind plugin "Told": broken'),
    ],
)
def test_a_failure_is_told_and_undone(extender: Extender, point: str, said: str) -> None:
    told(extender).answers[point] = error("broken")
    with pytest.raises(ServiceError) as raised:
        bind(extender, ScriptedClient())
    assert str(raised.value) == said
    assert told(extender).heard[-2:] == [f"{point} a", "unreserve a"]
    args = extender.names("a", pod=a_pod("next", labels={"app": "web"}))
    assert extender.service.filter(args).kept == 1


def test_what_the_api_server_has_against_it_is_told(extender: Extender) -> None:
    told(extender).answers["bind"] = SKIP
    with pytest.raises(ServiceError) as raised:
        bind(extender, ScriptedClient(refusal="pod new is already assigned"))
    assert str(raised.value) == 'running Bind plugin "DefaultBinder": pod new is already assigned'


def test_a_pod_that_no_watch_has_shown_is_read(extender: Extender) -> None:
    client = ScriptedClient({"fresh": as_served(a_pod("fresh"), 9)})
    bind(extender, client, name="fresh", uid="uid-fresh")
    assert client.read == ["pods/default/fresh"]
    assert told(extender).heard[-1] == "post_bind a"


@pytest.mark.parametrize(
    ("name", "uid", "said"),
    [
        ("gone", "uid-gone", 'pods "gone" not found'),
        (
            "other",
            "uid-before",
            OTHER,
        ),
    ],
)
def test_another_pod_is_never_bound(extender: Extender, name: str, uid: str, said: str) -> None:
    client = ScriptedClient({"other": as_served(a_pod("other"), 9)})
    with pytest.raises(ServiceError) as raised:
        bind(extender, client, name=name, uid=uid)
    assert str(raised.value) == said
    assert told(extender).heard == []
    assert client.bound == []
