"""A server whose streams are cut after each number of bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubesched.api.pod import Pod
from kubesched.client.errors import TransportError
from kubesched.client.resources import PODS
from kubesched.client.watch.changes import LoopTurn
from kubesched.client.watch.reflector import Reflector
from kubesched.kit.log import NullLog
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks
from tests.unit.client.reflector_world import (
    JumpClock,
    RecordingSink,
    event,
    list_body,
    pod,
    rejection,
)

# Writes in order: + creates a pod, ~ changes it, - deletes it.
WRITES = [
    *("+a", "+b", "~a", "+c", "-b", "~a", "+b", "~c", "-a", "+d"),
    *("~b", "+a", "-c", "-d", "+c", "~a", "~b", "-a", "+e"),
]


class VersionedServer:
    """Pods with a history; every response is cut after some bytes."""

    def __init__(self, bytes_max: int, *, forgets: bool) -> None:
        self.bytes_max = bytes_max
        self.forgets = forgets
        """Whether the server keeps only the last two versions."""
        self.version = 10
        self.oldest = 10
        self.pods: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, bytes]] = []
        self.writes = iter(WRITES)
        self.is_quiet = False
        self.list_count = 0

    def write(self) -> bool:
        """Do the next write; return False at the end."""
        todo = next(self.writes, "")
        if not todo:
            return False
        self.version += 1
        name = todo[1]
        if todo[0] == "-":
            deleted = pod(name, self.version, self.pods.pop(name)["metadata"]["uid"])
            self.history.append((self.version, event("DELETED", deleted)))
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
                raise rejection(410, "Expired")
            try:
                yield self._watch(since)
            finally:
                self.write()
        else:
            self.list_count += 1
            requested = int(query.get("resourceVersion", 0))
            assert requested <= self.version
            # Each list is cut later than the one before.
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


async def mirror(server: VersionedServer) -> RecordingSink:
    sink = RecordingSink()
    reflector = Reflector(
        server,
        PODS,
        sink,
        decode=Pod,
        clock=JumpClock(),
        rng=RandomStream(1, "test"),
        log=NullLog(),
    )
    tasks = Tasks()
    running = tasks.start(reflector.run(), name="reflector")
    for _ in range(5000):
        await LoopTurn()
        if server.is_quiet or running.done():
            break
    else:
        raise AssertionError("the reflector never came to rest")
    await tasks.stop()
    return sink


@pytest.mark.parametrize("forgets", [False, True], ids=["resume", "relist"])
def test_the_reported_state_equals_the_servers(forgets: bool) -> None:
    longest = max(len(event("MODIFIED", pod("a", 99, "uid-99"))), 1)
    resumed = 0
    for bytes_max in range(longest, 6 * longest):
        server = VersionedServer(bytes_max, forgets=forgets)
        sink = asyncio.run(mirror(server))
        assert sink.replayed() == {
            f"ns/{name}": (pod["metadata"]["uid"], pod["metadata"]["resourceVersion"])
            for name, pod in server.pods.items()
        }, bytes_max
        versions = [
            int(change.object.metadata.resource_version) for change in sink.changes if change.object
        ]
        assert sorted(versions) == sorted(set(versions)), bytes_max
        if server.list_count == 1:
            # Every write after the list was reported.
            assert versions == list(range(11, 11 + len(WRITES))), bytes_max
            resumed += 1
    # Both cases occurred.
    assert resumed > longest if not forgets else resumed == 0


def test_the_writes_have_the_expected_result() -> None:
    server = VersionedServer(0, forgets=False)
    while server.write():
        pass
    assert sorted(server.pods) == ["b", "c", "e"]
    assert len(server.history) == len(WRITES)
    assert json.loads(server.history[4][1])["type"] == "DELETED"
