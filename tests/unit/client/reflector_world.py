"""Shared by the tests of reflectors: a scripted server and a recording sink.

Owns a clock that jumps, scripted responses, and a check that the reported changes are consistent.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kubesched.api.pod import Pod
from kubesched.client.errors import ApiError, error_of_status
from kubesched.client.resources import PODS, Resource
from kubesched.client.watch.changes import Change, LoopTurn
from kubesched.client.watch.reflector import Reflector
from kubesched.kit.log import Log, make_log
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks

Query = dict[str, str | int | bool]


class JumpClock:
    """A clock whose sleeps advance the time at once and yield to the loop."""

    def __init__(self) -> None:
        self.time_s = 1000.0
        self.slept: list[float] = []

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self.time_s += delay_s
        await LoopTurn()


@dataclass
class Answer:
    """A response: its chunks, and how it ends."""

    chunks: Iterable[bytes] = ()
    error: Exception | None = None
    """Raised after the chunks, or instead of a response if there are none."""
    lasts_s: float = 10.0


class ScriptedServer:
    """Sends scripted responses in order, then a stream that stays silent and open."""

    def __init__(self, clock: JumpClock, answers: Iterable[Answer], sink: RecordingSink) -> None:
        self._clock = clock
        self._answers = iter(answers)
        self._sink = sink
        self.queries: list[Query] = []
        self.reported_before: list[int] = []
        """The number of reported changes before each request."""
        self.quiet = asyncio.Event()
        """Set when the script is used up and the reflector watches."""

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str | int | bool] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert path
        assert idle_timeout_s
        self.queries.append(dict(query or {}))
        self.reported_before.append(len(self._sink.changes))
        answer = next(self._answers, None)
        if answer is None:
            yield self._silence()
        else:
            chunks = list(answer.chunks)
            if answer.error is not None and not chunks:
                raise answer.error
            yield self._sent(answer, chunks)

    async def _sent(self, answer: Answer, chunks: list[bytes]) -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        self._clock.time_s += answer.lasts_s
        if answer.error is not None:
            raise answer.error

    async def _silence(self) -> AsyncIterator[bytes]:
        self.quiet.set()
        await asyncio.Event().wait()
        yield b""


@dataclass
class RecordingSink:
    """A sink that records all changes."""

    changes: list[Change] = field(default_factory=list)

    def __call__(self, change: Change) -> None:
        self.changes.append(change)

    @property
    def summary(self) -> list[tuple[str, str]]:
        return [(change.type, change.key) for change in self.changes]

    def replayed(self) -> dict[str, tuple[str, str]]:
        """Return uid and version by key; AssertionError for an inconsistent change."""
        state: dict[str, tuple[str, str]] = {}
        for change in self.changes:
            old = state.get(change.key)
            if change.type == "DELETED":
                assert old is not None, f"{change.key} was deleted twice"
                assert old[0] == change.uid
                del state[change.key]
                continue
            new = (change.uid, change.object.metadata.resource_version)
            if change.type == "ADDED":
                assert old is None, f"{change.key} was added twice"
            else:
                assert change.type == "MODIFIED"
                assert old is not None
                assert old[0] == new[0]
                assert old[1] != new[1], f"{change.key} was reported twice"
            state[change.key] = new
        return state


@dataclass
class World:
    """A reflector of pods with its scripted server and its sink."""

    server: ScriptedServer
    clock: JumpClock
    sink: RecordingSink
    log: io.StringIO
    reflector: Reflector
    synced: list[Resource]

    @property
    def queries(self) -> list[Query]:
        return self.server.queries


def run(*answers: Answer, until: Callable[[World], bool] | None = None, **options: Any) -> World:
    """Run a reflector until the script is used up or a condition holds."""
    return asyncio.run(_run(answers, until, options))


async def _run(
    answers: Iterable[Answer], until: Callable[[World], bool] | None, options: dict[str, Any]
) -> World:
    clock, sink, text = JumpClock(), RecordingSink(), io.StringIO()
    server = ScriptedServer(clock, answers, sink)
    log: Log = make_log(text, verbosity=options.pop("verbosity", 0), clock=clock)
    synced: list[Resource] = []
    reflector = Reflector(
        server,
        options.pop("resource", PODS),
        sink,
        decode=options.pop("decode", Pod),
        clock=clock,
        rng=RandomStream(1, "test"),
        log=log,
        initial_done=synced.append,
        **options,
    )
    world = World(server, clock, sink, text, reflector, synced)
    tasks = Tasks()
    running = tasks.start(reflector.run(), name="reflector")
    for _ in range(20_000):
        await LoopTurn()
        if server.quiet.is_set() or running.done() or (until is not None and until(world)):
            break
    else:
        raise AssertionError(f"the reflector never came to rest: {server.queries[-3:]}")
    if running.done():
        await running
    await tasks.stop()
    log.flush()
    return world


def pod(name: str, version: int, uid: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, "spec": spec}


def event(type_: str, document: Mapping[str, Any]) -> bytes:
    return _encoded({"type": type_, "object": document}) + b"\n"


def added(name: str, version: int, uid: str = "") -> bytes:
    return event("ADDED", pod(name, version, uid))


def modified(name: str, version: int, uid: str = "") -> bytes:
    return event("MODIFIED", pod(name, version, uid))


def deleted(name: str, version: int, uid: str = "") -> bytes:
    return event("DELETED", pod(name, version, uid))


def bookmark(version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "annotations": {}}
    # kube-apiserver sends a pod without containers.
    document = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"containers": None},
    }
    return event("BOOKMARK", document)


def status(code: int, reason: str, message: str = "no", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
        "details": details or None,
    }


def rejection(code: int, reason: str, message: str = "no", **details: Any) -> ApiError:
    return error_of_status(_encoded(status(code, reason, message, **details)))


def rejected(code: int, reason: str, message: str = "no", **details: Any) -> Answer:
    return Answer(error=rejection(code, reason, message, **details))


EXPIRED = ("Expired", "too old resource version")


def expired() -> Answer:
    return rejected(410, *EXPIRED)


def listed(version: int, *pods: Mapping[str, Any], more: str = "", size: int = 0) -> Answer:
    return Answer(cut(list_body(version, *pods, more=more), size))


def list_body(version: int, *pods: Mapping[str, Any], more: str = "") -> bytes:
    metadata = {"resourceVersion": str(version)}
    if more:
        metadata["continue"] = more
    document = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(pods)}
    return _encoded(document) + b"\n"


def watched(*lines: bytes, error: Exception | None = None, lasts_s: float = 10.0) -> Answer:
    return Answer([b"".join(lines)] if lines else [], error, lasts_s)


def cut(data: bytes, size: int) -> list[bytes]:
    """Split bytes into chunks of a size; into one chunk if it is 0."""
    size = size or len(data)
    return [data[start : start + size] for start in range(0, len(data), size)]


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
