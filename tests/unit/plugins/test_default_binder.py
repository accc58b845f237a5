"""DefaultBinder: its request to the API server, and the status after a rejection."""

from __future__ import annotations

import asyncio
from typing import Any

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import ApiCallError
from kubesched.framework.status import Status, error
from kubesched.kit.log import NullLog
from kubesched.plugins.default_binder import DefaultBinder
from tests.unit.plugins.builders import a_pod
from tests.unit.scripted_api import ScriptedApi


class ClientHandle:
    """A handle that has only the client and the log."""

    def __init__(self, client: ScriptedApi) -> None:
        self.client = client
        self.log = NullLog()


def bind(client: ScriptedApi) -> Status | None:
    handle: Any = ClientHandle(client)
    pod = a_pod("p", namespace="ns", uid="u")
    return asyncio.run(DefaultBinder(None, handle).bind(CycleState(), pod, "n1"))


def test_the_pod_is_bound_by_name_and_uid() -> None:
    client = ScriptedApi()
    assert bind(client) is None
    assert client.requests == [("bind", "pods ns/p", ("u", "n1"))]


def test_the_servers_error_is_the_status() -> None:
    client = ScriptedApi()
    text = 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned'
    client.failures["bind", "p"] = ApiCallError(text, code=409, reason="Conflict")
    assert bind(client) == error(text)
