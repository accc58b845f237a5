"""A reflector on a running server, and unreliable connections.

Owns the wiring of client, reflector and sink, the wait for a state, and a client that cuts its
streams. Writes go through the test kit's own driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kubesched.api.pod import Pod
from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.errors import ForbiddenError, TransportError
from kubesched.client.resources import PODS, Resource
from kubesched.client.rest import Client
from kubesched.client.watch.changes import Change
from kubesched.client.watch.reflector import Reflector
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks
from kubesched.testing import ADMIN, Api, ApiServer, TokenUser

State = dict[str, tuple[str, str]]
_WAIT_S_MAX = 40


class HastyClock(SystemClock):
    """The system clock; sleeps are fifty times shorter."""

    async def sleep(self, delay_s: float) -> None:
        await super().sleep(delay_s / 50)


class CuttingClient:
    """A client whose watches break after some lines, in the middle of the next one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lines_max: int | None = None
        self.list_bytes_max: int | None = None
        """Where the next list breaks; later ones do not."""
        self.is_cut = False
        """Whether the open watch breaks before the next bytes."""
        self.is_outdated = False
        """Whether the next watch starts at a version that the server no longer has."""
        self.watch_count = 0
        self.list_count = 0
        self.on_request: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str | int | bool] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        parameters = dict(query or {})
        is_watch = "watch" in parameters
        self.watch_count += is_watch
        self.list_count += not is_watch
        self.on_request()
        if is_watch and self.is_outdated:
            self.is_outdated = False
            parameters["resourceVersion"] = "1"
        opening = self._client.stream(path, query=parameters, idle_timeout_s=idle_timeout_s)
        async with opening as chunks:
            yield self._watch(chunks) if is_watch else self._list(chunks)

    async def _watch(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        left = self.lines_max
        async for chunk in chunks:
            if self.is_cut:
                self.is_cut = False
                raise TransportError("cut", is_reset=True)
            if left is None:
                yield chunk
                continue
            lines = chunk.splitlines(keepends=True)
            for line in lines:
                if left == 0:
                    yield line[: len(line) // 2]
                    raise TransportError("cut", is_reset=True)
                yield line
                left -= line.endswith(b"\n")
            if left == 0:
                raise TransportError("cut", is_reset=True)

    async def _list(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        left, self.list_bytes_max = self.list_bytes_max, None
        async for chunk in chunks:
            if left is not None and len(chunk) >= left:
                yield chunk[:left]
                raise TransportError("cut", is_reset=True)
            left = left - len(chunk) if left is not None else None
            yield chunk


@dataclass
class Reflected:
    """A running reflector and its reported changes."""

    client: CuttingClient
    changes: list[Change] = field(default_factory=list)
    forbidden: list[tuple[str, str]] = field(default_factory=list)
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _reflector: Reflector | None = None

    @property
    def reflector(self) -> Reflector:
        assert self._reflector is not None
        return self._reflector

    def start(self, resource: Resource, **options: Any) -> Reflector:
        self.client.on_request = self._news.set
        self._reflector = Reflector(
            self.client,
            resource,
            self.sink,
            rng=RandomStream(1, "reflector"),
            initial_done=lambda _: self.synced.set(),
            on_forbidden=self.reject,
            **options,
        )
        return self._reflector

    def sink(self, change: Change) -> None:
        self.changes.append(change)
        self._news.set()

    def reject(self, resource: Resource, verb: str, error: ForbiddenError) -> None:
        assert error.code == 403
        self.forbidden.append((resource.plural, verb))
        self._news.set()

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait for changes and requests until a condition is true."""
        async with asyncio.timeout(_WAIT_S_MAX):
            while not is_true():
                self._news.clear()
                await self._news.wait()

    async def until_state(self, state: State) -> None:
        """Wait until the reported changes add up to a state; fail with the difference."""
        try:
            await self.until(lambda: self.replayed() == state)
        except TimeoutError:
            assert self.replayed() == state
            raise

    def replayed(self) -> State:
        """Return uid and version by key; AssertionError if a change is missing or repeated."""
        state: State = {}
        for change in self.changes:
            old = state.get(change.key)
            if change.type == "DELETED":
                assert old is not None, f"{change.key} went twice"
                assert old[0] == change.uid
                del state[change.key]
                continue
            new = (change.uid, version_in(change.object))
            if change.type == "ADDED":
                assert old is None, f"{change.key} came twice"
            else:
                assert old is not None
                assert old[0] == new[0]
                assert int(old[1]) < int(new[1]), f"{change.key} was reported twice"
            state[change.key] = new
        return state


@asynccontextmanager
async def reflected(
    server: ApiServer, *, user: TokenUser = ADMIN, resource: Resource = PODS, **options: Any
) -> AsyncIterator[Reflected]:
    """Run a reflector of a server's pods, or of another kind."""
    clock, log = HastyClock(), NullLog()
    access = load_access(kubeconfig=str(server.kubeconfigs[user.name]))
    client = Client(access, user_agent="test", clock=clock, log=log)
    cutting = CuttingClient(client)
    for name in ("lines_max", "list_bytes_max"):
        setattr(cutting, name, options.pop(name, None))
    running = Reflected(cutting)
    reflector = running.start(resource, **{"decode": Pod, **options}, clock=clock, log=log)
    tasks = Tasks()
    task = tasks.start(reflector.run(), name="reflector")
    try:
        yield running
        assert not task.done()
    finally:
        await tasks.stop()
        await client.close()
        # Closing TLS needs some iterations of the loop, which is closed afterwards.
        await SystemClock().sleep(0.05)


def version_in(document: Any) -> str:
    """Return the version of an object, a struct or a dict."""
    if isinstance(document, dict):
        return str(document["metadata"]["resourceVersion"])
    return str(document.metadata.resource_version)


def state_of(api: Api, path: str) -> State:
    """Return uid and version of the server's objects under a path."""
    metadatas = [one["metadata"] for one in api.get(path).must(200).json["items"]]
    return {
        f"{metadata['namespace']}/{metadata['name']}": (
            metadata["uid"],
            metadata["resourceVersion"],
        )
        for metadata in metadatas
    }


@dataclass
class Writer:
    """Creates, changes and deletes objects under a path, at random from a seed."""

    api: Api
    path: str
    rng: RandomStream
    make: Callable[[str], dict[str, Any]]
    names: list[str] = field(default_factory=list)
    write_count: int = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            self._write_one()
            self.write_count += 1

    def _write_one(self) -> None:
        name = f"p{self.rng.below(12)}"
        if name not in self.names:
            self.names.append(name)
            self.api.post(self.path, self.make(name)).must(201)
        elif self.rng.below(3) == 0:
            self.names.remove(name)
            query = {"gracePeriodSeconds": 0}
            self.api.delete(f"{self.path}/{name}", query=query).must(200)
        else:
            patch = {"metadata": {"labels": {"turn": str(self.write_count)}}}
            self.api.patch(f"{self.path}/{name}", patch, "application/merge-patch+json").must(200)


def new_namespace(api: Api, name: str) -> str:
    """Create a namespace, unless it exists."""
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).must(201, 409)
    return name
