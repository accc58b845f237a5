"""`bind` of an extender: bind plugins, and rollback after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from kubesched import SKIP, CycleState, Handle, PodInfo, Status, error
from kubesched.extender.server.binding import ExtenderBinder
from kubesched.extender.server.service import ServiceError
from kubesched.extender.wire import ExtenderBindingArgs
from kubesched.framework.handle import ApiCallError
from kubesched.testing import a_pod
from tests.unit.extender.server_cases import (
    ByLabel,
    Extender,
    an_extender,
    as_served,
    some_nodes,
)

OTHER = "pod default/other is not the pod that was scheduled: its uid is uid-other, not uid-before"


class ScriptedClient:
    """An API client that records requests, and rejects some."""

    def __init__(self, pods: Mapping[str, Any] | None = None, rejection: str = "") -> None:
        self.pods = pods or {}
        self.rejection = rejection
        self.bound: list[tuple[str, str, str, str]] = []
        self.read: list[str] = []

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        if self.rejection:
            raise ApiCallError(self.rejection, code=409)
        self.bound.append((namespace, name, uid, node_name))

    async def get_object(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        self.read.append(f"{resource}/{namespace}/{name}")
        if name not in self.pods:
            raise ApiCallError(f'pods "{name}" not found', code=404, reason="NotFound")
        return dict(self.pods[name])


class Recorder:
    """Records its calls around a binding, and returns configured results."""

    name = "Recorder"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.calls: list[str] = []
        self.answers: dict[str, Status] = {}

    def _record(self, point: str, node_name: str) -> Status | None:
        self.calls.append(f"{point} {node_name}")
        return self.answers.get(point)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._record("reserve", node_name)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._record("unreserve", node_name)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        return None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._record("pre_bind", node_name)

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._record("bind", node_name)

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._record("post_bind", node_name)


def bind(
    extender: Extender, client: ScriptedClient, *, name: str = "new", uid: str = "uid-new"
) -> None:
    extender.built.services.client = client
    binder = ExtenderBinder(extender.service, cast("Any", client))
    args = ExtenderBindingArgs(pod_name=name, pod_namespace="default", pod_uid=uid, node="a")
    asyncio.run(binder.bind(args))


@pytest.fixture
def extender() -> Extender:
    """An extender with a binder and a pending pod."""
    made = an_extender(Recorder, ByLabel)
    some_nodes(made, a={}, b={})
    made.put_pod(a_pod("new", labels={"app": "web"}))
    return made


def recorder(extender: Extender) -> Recorder:
    plugin: Recorder = extender.service.profiles["default-scheduler"].plugins["Recorder"]
    return plugin


def test_an_out_of_tree_plugin_binds_before_the_default_binder(extender: Extender) -> None:
    client = ScriptedClient()
    bind(extender, client)
    assert recorder(extender).calls == ["reserve a", "pre_bind a", "bind a", "post_bind a"]
    assert client.bound == []


def test_a_skipped_binding_is_written_by_the_default_binder(extender: Extender) -> None:
    client = ScriptedClient()
    recorder(extender).answers["bind"] = SKIP
    bind(extender, client)
    assert client.bound == [("default", "new", "uid-new", "a")]
    assert recorder(extender).calls[-1] == "post_bind a"


def test_a_bound_pod_counts_before_the_watch_shows_it(extender: Extender) -> None:
    args = extender.names("a", "b", pod=a_pod("next", labels={"app": "web"}))
    assert extender.service.filter(args).result.node_names == ["a", "b"]
    bind(extender, ScriptedClient())
    assert extender.service.filter(args).result.node_names == ["b"]
    # The watch confirms the binding, then shows the deletion.
    bound = a_pod("new", labels={"app": "web"}, node="a")
    extender.put_pod(bound, "MODIFIED")
    assert extender.service.filter(args).result.node_names == ["b"]
    extender.put_pod(bound, "DELETED")
    assert extender.service.filter(args).result.node_names == ["a", "b"]


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("reserve", 'running Reserve plugin "Recorder": broken'),
        ("pre_bind", 'running PreBind plugin "Recorder": broken'),
        ("bind", 'running Bind plugin "Recorder": broken'),
    ],
)
def test_a_failure_is_returned_and_rolled_back(
    extender: Extender, point: str, message: str
) -> None:
    recorder(extender).answers[point] = error("broken")
    with pytest.raises(ServiceError) as raised:
        bind(extender, ScriptedClient())
    assert str(raised.value) == message
    assert recorder(extender).calls[-2:] == [f"{point} a", "unreserve a"]
    args = extender.names("a", pod=a_pod("next", labels={"app": "web"}))
    assert extender.service.filter(args).kept == 1


def test_a_rejection_by_the_api_server_is_returned(extender: Extender) -> None:
    recorder(extender).answers["bind"] = SKIP
    with pytest.raises(ServiceError) as raised:
        bind(extender, ScriptedClient(rejection="pod new is already assigned"))
    assert str(raised.value) == 'running Bind plugin "DefaultBinder": pod new is already assigned'


def test_an_unwatched_pod_is_read_from_the_api_server(extender: Extender) -> None:
    client = ScriptedClient({"fresh": as_served(a_pod("fresh"), 9)})
    bind(extender, client, name="fresh", uid="uid-fresh")
    assert client.read == ["pods/default/fresh"]
    assert recorder(extender).calls[-1] == "post_bind a"


@pytest.mark.parametrize(
    ("name", "uid", "message"),
    [
        ("gone", "uid-gone", 'pods "gone" not found'),
        (
            "other",
            "uid-before",
            OTHER,
        ),
    ],
)
def test_another_pod_is_never_bound(extender: Extender, name: str, uid: str, message: str) -> None:
    client = ScriptedClient({"other": as_served(a_pod("other"), 9)})
    with pytest.raises(ServiceError) as raised:
        bind(extender, client, name=name, uid=uid)
    assert str(raised.value) == message
    assert recorder(extender).calls == []
    assert client.bound == []
