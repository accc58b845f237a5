"""Bindings with an unknown outcome, and retried status patches."""

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
    rejected,
    rejection,
)

BOUND = ScriptedAnswer(201, b'{"kind":"Status","status":"Success"}')


def pod(uid: str = "u", node: str = "") -> ScriptedAnswer:
    spec = {"nodeName": node} if node else {}
    return ScriptedAnswer(200, json.dumps({"metadata": {"uid": uid}, "spec": spec}).encode())


async def bound(script: Script, seconds: float = 600) -> BaseException | None:
    """Return the outcome of binding pod `u` to node `n`."""
    call = script.client().bind_pod(namespace="ns", name="p", uid="u", node_name="n")
    task = Tasks().start(call, name="bind")
    await script.clock.advance(seconds)
    assert task.done()
    return task.exception()


def methods(script: Script) -> list[str]:
    return [request.method for request in script.sent]


@on_a_loop
async def test_the_body_of_a_binding() -> None:
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
    [cut(), TransportError("deadline", is_timeout=True, was_sent=True), rejection(504, "Timeout")],
)
async def test_a_binding_that_succeeded_without_a_response(unknown: Reply) -> None:
    script = Script(unknown, pod(node="n"))
    assert await bound(script) is None
    assert methods(script) == ["POST", "GET"]


@on_a_loop
async def test_a_binding_that_did_not_happen_is_sent_again() -> None:
    script = Script(cut(), pod(), BOUND)
    assert await bound(script) is None
    assert methods(script) == ["POST", "GET", "POST"]


@on_a_loop
async def test_a_binding_that_took_effect_after_the_read() -> None:
    script = Script(cut(), pod(), rejection(409, "Conflict"), pod(node="n"))
    assert await bound(script) is None
    assert methods(script) == ["POST", "GET", "POST", "GET"]


@on_a_loop
@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        # Another node, another pod with that name, no pod.
        ([cut(), pod(node="m")], TransportError),
        ([cut(), pod("v", "n")], TransportError),
        ([cut(), rejection(404, "NotFound")], NotFoundError),
        # The outcome was unknown and the pod is not bound; a response is not retried.
        ([rejection(504, "Timeout"), pod()], TimeoutApiError),
        ([rejection(500, "InternalError"), pod()], InternalServerError),
        ([cut(), pod(), cut(), pod()], TransportError),
        ([cut(), pod(), rejection(409, "Conflict"), pod(node="m")], ConflictError),
        # Without the right to read, the first error is raised.
        ([cut(), rejection(403, "Forbidden")], TransportError),
    ],
)
async def test_a_binding_whose_failure_is_known(
    replies: list[Reply], kind: type[ApiError | TransportError]
) -> None:
    script = Script(*replies)
    assert type(await bound(script)) is kind


@on_a_loop
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (rejected(), TransportError),
        (rejection(409, "Conflict"), ConflictError),
        (rejection(403, "Forbidden"), ForbiddenError),
    ],
)
async def test_the_pod_is_not_read_after_a_certain_failure(
    reply: Reply, kind: type[Exception]
) -> None:
    script = Script(reply)
    assert type(await bound(script)) is kind
    assert methods(script) == ["POST"]


@on_a_loop
async def test_the_pod_is_read_until_the_server_responds() -> None:
    away: list[Reply] = [rejected() for _ in range(50)]
    script = Script(cut(), *away, rejection(503, "ServiceUnavailable"), pod(node="n"))
    assert await bound(script) is None
    assert methods(script) == ["POST"] + ["GET"] * 52
    waits = [
        after - before for before, after in zip(script.sent_s, script.sent_s[1:], strict=False)
    ]
    assert waits[:4] == pytest.approx([0, 0.1, 0.2, 0.4])
    assert max(waits) == pytest.approx(5.0)


@on_a_loop
async def test_close_ends_the_reads() -> None:
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
async def test_a_status_patch_is_strategic_and_may_have_a_uid() -> None:
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
    "reply", [rejection(500, "InternalError"), rejection(503, "ServiceUnavailable"), rejected()]
)
async def test_a_status_patch_is_tried_four_times(reply: Reply) -> None:
    script = Script(reply)
    assert await patched(script) is not None
    assert script.sent_s == pytest.approx([0, 0.01, 0.06, 0.31])
    script = Script(reply, pod())
    assert await patched(script) is None


@on_a_loop
@pytest.mark.parametrize("reply", [cut(), rejection(409, "Conflict"), rejection(404, "NotFound")])
async def test_a_status_patch_that_is_not_retried(reply: Reply) -> None:
    script = Script(reply)
    assert await patched(script) is not None
    assert len(script.sent) == 1


@on_a_loop
async def test_an_empty_patch_is_not_sent() -> None:
    script = Script(pod())
    await script.client().patch_pod_status(namespace="ns", name="p", patch={})
    assert script.sent == []
