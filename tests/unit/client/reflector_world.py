"""What tests of reflectors share: answers of a server, written down, and who listens.

Owns a clock that jumps, the script of answers, and the check that what was told can be replayed.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kubesched.client.change import Change
from kubesched.client.errors import ApiError, error_of_status
from kubesched.client.mirror import Turn
from kubesched.client.reflector import Reflector
from kubesched.client.resources import PODS, Resource
from kubesched.kit.log import Log, make_log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks
from kubesched.objects.pod import Pod

Query = dict[str, str | int | bool]


class JumpClock:
    """Nobody waits: a sleep is time gone by, and one turn of the loop."""

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
        await Turn()


@dataclass
class Answer:
    """What a server sends to one request: bytes, and how that ends."""

    chunks: Iterable[bytes] = ()
    error: Exception | None = None
    """Instead of an answer, where there are no chunks; else after them."""
    lasts_s: float = 10.0


class ScriptedServer:
    """Answers requests in the order written down; then nothing more comes, and nothing ends."""

    def __init__(self, clock: JumpClock, answers: Iterable[Answer], told: Told) -> None:
        self._clock = clock
        self._answers = iter(answers)
        self._told = told
        self.queries: list[Query] = []
        self.told_before: list[int] = []
        """How many changes had been told when each request came."""
        self.quiet = asyncio.Event()
        """Set when the script has run out and the reflector listens."""

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
        self.told_before.append(len(self._told.changes))
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
class Told:
    """A sink that takes everything down."""

    changes: list[Change] = field(default_factory=list)

    def __call__(self, change: Change) -> None:
        self.changes.append(change)

    @property
    def shown(self) -> list[tuple[str, str]]:
        return [(one.type, one.key) for one in self.changes]

    def replayed(self) -> dict[str, tuple[str, str]]:
        """Return uid and version by key; AssertionError if a change does not fit the one before."""
        state: dict[str, tuple[str, str]] = {}
        for one in self.changes:
            old = state.get(one.key)
            if one.type == "DELETED":
                assert old is not None, f"{one.key} went twice"
                assert old[0] == one.uid
                del state[one.key]
                continue
            new = (one.uid, one.object.metadata.resource_version)
            if one.type == "ADDED":
                assert old is None, f"{one.key} came twice"
            else:
                assert one.type == "MODIFIED"
                assert old is not None
                assert old[0] == new[0]
                assert old[1] != new[1], f"{one.key} was told twice"
            state[one.key] = new
        return state


@dataclass
class World:
    """A reflector of pods, a server with a script, and a listener."""

    server: ScriptedServer
    clock: JumpClock
    told: Told
    log: io.StringIO
    reflector: Reflector
    synced: list[Resource]

    @property
    def queries(self) -> list[Query]:
        return self.server.queries


def run(*answers: Answer, until: Callable[[World], bool] | None = None, **options: Any) -> World:
    """Run a reflector until the script has run out, or something is true; return what is left."""
    return asyncio.run(_run(answers, until, options))


async def _run(
    answers: Iterable[Answer], until: Callable[[World], bool] | None, options: dict[str, Any]
) -> World:
    clock, told, text = JumpClock(), Told(), io.StringIO()
    server = ScriptedServer(clock, answers, told)
    log: Log = make_log(text, verbosity=options.pop("verbosity", 0), clock=clock)
    synced: list[Resource] = []
    reflector = Reflector(
        server,
        options.pop("resource", PODS),
        told,
        decode=options.pop("decode", Pod),
        clock=clock,
        rng=Generator(1, "test"),
        log=log,
        initial_done=synced.append,
        **options,
    )
    world = World(server, clock, told, text, reflector, synced)
    tasks = Tasks()
    running = tasks.start(reflector.run(), name="reflector")
    for _ in range(20_000):
        await Turn()
        if server.quiet.is_set() or running.done() or (until is not None and until(world)):
            break
    else:
        raise AssertionError(f"it never came to rest: {server.queries[-3:]}")
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


def event(type_: str, shown: Mapping[str, Any]) -> bytes:
    return _encoded({"type": type_, "object": shown}) + b"\n"


def added(name: str, version: int, uid: str = "") -> bytes:
    return event("ADDED", pod(name, version, uid))


def modified(name: str, version: int, uid: str = "") -> bytes:
    return event("MODIFIED", pod(name, version, uid))


def deleted(name: str, version: int, uid: str = "") -> bytes:
    return event("DELETED", pod(name, version, uid))


def bookmark(version: int, *, ends_initial: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if ends_initial else {}
    metadata = {"resourceVersion": str(version), "annotations": annotations}
    # As kube-apiserver writes it: a pod without containers.
    shown = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": None}}
    return event("BOOKMARK", shown)


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


def refusal(code: int, reason: str, message: str = "no", **details: Any) -> ApiError:
    return error_of_status(status(code, reason, message, **details))


def refused(code: int, reason: str, message: str = "no", **details: Any) -> Answer:
    return Answer(error=refusal(code, reason, message, **details))


EXPIRED = ("Expired", "too old resource version")


def expired() -> Answer:
    return refused(410, *EXPIRED)


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
    """Return the bytes in pieces of a size; in one if it is 0."""
    size = size or len(data)
    return [data[start : start + size] for start in range(0, len(data), size)]


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
