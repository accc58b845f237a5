"""A server that keeps its word and loses its streams: cut after each n-th byte, for every n."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubesched.client.errors import TransportError
from kubesched.client.mirror import Turn
from kubesched.client.reflector import Reflector
from kubesched.client.resources import PODS
from kubesched.kit.log import NullLog
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks
from kubesched.objects.pod import Pod
from tests.unit.client.reflector_world import JumpClock, Told, event, list_body, pod, refusal

# What is done to the pods, in turn: each is made, changed, deleted, made anew.
WRITES = [
    *("+a", "+b", "~a", "+c", "-b", "~a", "+b", "~c", "-a", "+d"),
    *("~b", "+a", "-c", "-d", "+c", "~a", "~b", "-a", "+e"),
]


class VersionedServer:
    """Pods with a history; every request is answered as of now, and cut after so many bytes."""

    def __init__(self, bytes_max: int, *, forgets: bool) -> None:
        self.bytes_max = bytes_max
        self.forgets = forgets
        """Whether each write makes the server forget everything before the one before it."""
        self.version = 10
        self.oldest = 10
        self.pods: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, bytes]] = []
        self.writes = iter(WRITES)
        self.is_quiet = False
        self.list_count = 0

    def write(self) -> bool:
        """Do the next thing; False when all is done."""
        todo = next(self.writes, "")
        if not todo:
            return False
        self.version += 1
        name = todo[1]
        if todo[0] == "-":
            gone = pod(name, self.version, self.pods.pop(name)["metadata"]["uid"])
            self.history.append((self.version, event("DELETED", gone)))
        else:
            uid = f"uid-{self.version}" if todo[0] == "+" else self.pods[name]["metadata"]["uid"]
            self.pods[name] = pod(name, self.version, uid)
            type_ = "ADDED" if todo[0] == "+" else "MODIFIED"
            self.history.append((self.version, event(type_, self.pods[name])))
        if self.forgets:
            self.oldest = self.version - 1
        return True

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str | int | bool] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert query is not None
        if "watch" in query:
            since = int(query["resourceVersion"])
            if since < self.oldest:
                raise refusal(410, "Expired")
            yield self._watch(since)
        else:
            self.list_count += 1
            asked = int(query.get("resourceVersion", 0))
            assert asked <= self.version
            # A list that is cut gets further every time, as one over a bad line does by luck.
            yield self._cut(
                list_body(self.version, *self.pods.values()), self.bytes_max * self.list_count
            )
        self.write()

    async def _watch(self, since: int) -> AsyncIterator[bytes]:
        left = self.bytes_max
        sent = since
        while True:
            for version, line in self.history:
                if version > sent:
                    sent = version
                    async for chunk in self._cut(line, left):
                        yield chunk
                    left -= len(line)
            if not self.write():
                self.is_quiet = True
                await asyncio.Event().wait()

    async def _cut(self, data: bytes, left: int) -> AsyncIterator[bytes]:
        yield data[: max(0, left)]
        if len(data) > left:
            raise TransportError("EOF", is_reset=True)


async def mirrored(server: VersionedServer) -> Told:
    told = Told()
    reflector = Reflector(
        server,
        PODS,
        told,
        decode=Pod,
        clock=JumpClock(),
        rng=Generator(1, "test"),
        log=NullLog(),
    )
    tasks = Tasks()
    running = tasks.start(reflector.run(), name="reflector")
    for _ in range(5000):
        await Turn()
        if server.is_quiet or running.done():
            break
    else:
        raise AssertionError("it never came to rest")
    await tasks.stop()
    return told


@pytest.mark.parametrize("forgets", [False, True], ids=["resumed", "listed again"])
def test_what_was_told_is_what_the_server_has(forgets: bool) -> None:
    longest = max(len(event("MODIFIED", pod("a", 99, "uid-99"))), 1)
    resumed = 0
    for bytes_max in range(longest, 6 * longest):
        server = VersionedServer(bytes_max, forgets=forgets)
        told = asyncio.run(mirrored(server))
        assert told.replayed() == {
            f"ns/{name}": (one["metadata"]["uid"], one["metadata"]["resourceVersion"])
            for name, one in server.pods.items()
        }, bytes_max
        versions = [int(one.object.metadata.resource_version) for one in told.changes if one.object]
        assert sorted(versions) == sorted(set(versions)), bytes_max
        if server.list_count == 1:
            # Nothing was missed: what came after the list was told, one by one.
            assert versions == list(range(11, 11 + len(WRITES))), bytes_max
            resumed += 1
    # Both ways were gone.
    assert resumed > longest if not forgets else resumed == 0


def test_the_writes_are_what_they_should_be() -> None:
    server = VersionedServer(0, forgets=False)
    while server.write():
        pass
    assert sorted(server.pods) == ["b", "c", "e"]
    assert len(server.history) == len(WRITES)
    assert json.loads(server.history[4][1])["type"] == "DELETED"
