"""A scripted transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, ParamSpec

import msgspec

from kubesched.client.auth.credentials import ClusterAccess, CredentialSource, FixedCredential
from kubesched.client.errors import TransportError
from kubesched.client.http.transport import Outgoing, Response
from kubesched.client.rest import Client
from kubesched.kit.log import NullLog
from tests.unit.client.election_world import HandClock

SERVER = "https://cluster.test:6443"


class ScriptedAnswer:
    """A response with its whole body."""

    def __init__(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.headers: Mapping[str, str] = headers or {}
        self.body = body
        self.is_closed = False

    async def read(self) -> bytes:
        return self.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body

    def close(self) -> None:
        self.is_closed = True


Reply = ScriptedAnswer | TransportError | Callable[[Outgoing], "ScriptedAnswer"]


class Script:
    """A transport that sends one reply per request, and repeats the last one."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.sent: list[Outgoing] = []
        self.sent_s: list[float] = []
        self.clock = HandClock()
        self.closed = 0

    async def send(self, request: Outgoing) -> Response:
        self.sent.append(request)
        self.sent_s.append(self.clock.monotonic_s())
        reply = self.replies[0] if len(self.replies) == 1 else self.replies.pop(0)
        if isinstance(reply, TransportError):
            raise reply
        return reply if isinstance(reply, ScriptedAnswer) else reply(request)

    async def close(self) -> None:
        self.closed += 1

    def client(
        self,
        *,
        qps: float = -1,
        burst: int = 0,
        metrics: Any = None,
        credentials: CredentialSource | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Client:
        access = ClusterAccess(SERVER, credentials or FixedCredential(), headers=headers)
        return Client(
            access,
            qps=qps,
            burst=burst,
            user_agent="test/1",
            clock=self.clock,
            log=NullLog(),
            metrics=metrics,
            transport=self,
        )


def rejection(code: int, reason: str, message: str = "no", **headers: str) -> ScriptedAnswer:
    """Return a response with a Status of failure."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = msgspec.json.encode(status)
    return ScriptedAnswer(code, body, {"Content-Type": "application/json", **named})


def cut(*, was_sent: bool = True) -> TransportError:
    """Return the error of a reset connection."""
    return TransportError("EOF", is_reset=True, was_sent=was_sent)


def rejected() -> TransportError:
    """Return the error of a refused connection."""
    return TransportError("connection refused", is_refused=True)


P = ParamSpec("P")


def on_a_loop(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test to its end."""

    @wraps(story)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(story(*arguments, **named))

    return run
