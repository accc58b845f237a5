"""Bindings whose outcome is not known, and status patches that are tried again."""

from __future__ import annotations

import json

import pytest

from kubesched.client.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    InternalServerError,
    NotFoundError,
    TimeoutApiError,
    TransportError,
)
from kubesched.kit.tasks import Tasks
from tests.unit.client.request_world import (
    Reply,
    Script,
    ScriptedAnswer,
    cut,
    on_a_loop,
    refusal,
    refused,
)

BOUND = ScriptedAnswer(201, b'{"kind":"Status","status":"Success"}')


def pod(uid: str = "u", node: str = "") -> ScriptedAnswer:
    spec = {"nodeName": node} if node else {}
    return ScriptedAnswer(200, json.dumps({"metadata": {"uid": uid}, "spec": spec}).encode())


async def bound(script: Script, seconds: float = 600) -> BaseException | None:
    """Return what a binding of pod `u` to node `n` ends with."""
    call = script.client().bind_pod(namespace="ns", name="p", uid="u", node_name="n")
    task = Tasks().start(call, name="bind")
    await script.clock.advance(seconds)
    assert task.done()
    return task.exception()


def methods(script: Script) -> list[str]:
    return [one.method for one in script.sent]


@on_a_loop
async def test_what_a_binding_says() -> None:
    script = Script(BOUND)
    assert await bound(script) is None
    (sent,) = script.sent
    assert (sent.method, sent.target) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")
    assert json.loads(sent.body or b"") == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "target": {"kind": "Node", "name": "n"},
    }


@on_a_loop
@pytest.mark.parametrize(
    "unknown",
    [cut(), TransportError("deadline", is_timeout=True, was_sent=True), refusal(504, "Timeout")],
)
async def test_it_was_done_all_the_same(unknown: Reply) -> None:
    script = Script(unknown, pod(node="n"))
    assert await bound(script) is None
    assert methods(script) == ["POST", "GET"]


@on_a_loop
async def test_it_was_not_done_and_is_sent_again() -> None:
    script = Script(cut(), pod(), BOUND)
    assert await bound(script) is None
    assert methods(script) == ["POST", "GET", "POST"]


@on_a_loop
async def test_it_was_done_after_we_looked() -> None:
    script = Script(cut(), pod(), refusal(409, "Conflict"), pod(node="n"))
    assert await bound(script) is None
    assert methods(script) == ["POST", "GET", "POST", "GET"]


@on_a_loop
@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        # Another node, another pod of that name, no pod any more.
        ([cut(), pod(node="m")], TransportError),
        ([cut(), pod("v", "n")], TransportError),
        ([cut(), refusal(404, "NotFound")], NotFoundError),
        # Nobody knows whether it was done, and it was not; an answer is not asked for twice.
        ([refusal(504, "Timeout"), pod()], TimeoutApiError),
        ([refusal(500, "InternalError"), pod()], InternalServerError),
        ([cut(), pod(), cut(), pod()], TransportError),
        ([cut(), pod(), refusal(409, "Conflict"), pod(node="m")], ConflictError),
        # We may not look: it stays what it was.
        ([cut(), refusal(403, "Forbidden")], TransportError),
    ],
)
async def test_a_failure_that_is_known(
    replies: list[Reply], kind: type[ApiError | TransportError]
) -> None:
    script = Script(*replies)
    assert type(await bound(script)) is kind


@on_a_loop
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refused(), TransportError),
        (refusal(409, "Conflict"), ConflictError),
        (refusal(403, "Forbidden"), ForbiddenError),
    ],
)
async def test_what_was_certainly_not_done_is_not_looked_at(
    reply: Reply, kind: type[Exception]
) -> None:
    script = Script(reply)
    assert type(await bound(script)) is kind
    assert methods(script) == ["POST"]


@on_a_loop
async def test_it_is_looked_at_for_as_long_as_the_server_is_away() -> None:
    away: list[Reply] = [refused() for _ in range(50)]
    script = Script(cut(), *away, refusal(503, "ServiceUnavailable"), pod(node="n"))
    assert await bound(script) is None
    assert methods(script) == ["POST"] + ["GET"] * 52
    waits = [
        after - before for before, after in zip(script.sent_s, script.sent_s[1:], strict=False)
    ]
    assert waits[:4] == pytest.approx([0, 0.1, 0.2, 0.4])
    assert max(waits) == pytest.approx(5.0)


@on_a_loop
async def test_closing_the_client_ends_the_looking() -> None:
    script = Script(cut(), TransportError("the client is closed", is_closed=True))
    error = await bound(script)
    assert isinstance(error, TransportError)
    assert error.is_closed
    assert methods(script) == ["POST", "GET"]


async def patched(script: Script, **more: str) -> BaseException | None:
    patch = {"status": {"nominatedNodeName": "n"}}
    call = script.client().patch_pod_status(namespace="ns", name="p", patch=patch, **more)
    task = Tasks().start(call, name="patch")
    await script.clock.advance(60)
    assert task.done()
    return task.exception()


@on_a_loop
async def test_a_status_patch_is_strategic_and_may_name_the_very_pod() -> None:
    script = Script(pod())
    assert await patched(script) is None
    assert await patched(script, uid="u") is None
    first, second = script.sent
    assert (first.method, first.target) == ("PATCH", "/api/v1/namespaces/ns/pods/p/status")
    assert first.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert json.loads(first.body or b"") == {"status": {"nominatedNodeName": "n"}}
    assert json.loads(second.body or b"")["metadata"] == {"uid": "u"}


@on_a_loop
@pytest.mark.parametrize(
    "reply", [refusal(500, "InternalError"), refusal(503, "ServiceUnavailable"), refused()]
)
async def test_a_status_patch_is_tried_four_times(reply: Reply) -> None:
    script = Script(reply)
    assert await patched(script) is not None
    assert script.sent_s == pytest.approx([0, 0.01, 0.06, 0.31])
    script = Script(reply, pod())
    assert await patched(script) is None


@on_a_loop
@pytest.mark.parametrize("reply", [cut(), refusal(409, "Conflict"), refusal(404, "NotFound")])
async def test_a_status_patch_that_is_not_tried_again(reply: Reply) -> None:
    script = Script(reply)
    assert await patched(script) is not None
    assert len(script.sent) == 1


@on_a_loop
async def test_nothing_to_patch_is_not_sent() -> None:
    script = Script(pod())
    await script.client().patch_pod_status(namespace="ns", name="p", patch={})
    assert script.sent == []
