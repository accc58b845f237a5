"""A small server without a socket, with one kind per strategy and a manual clock."""

from __future__ import annotations

from typing import Any

from multidict import MultiDict

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.http.dispatch import run
from kubesched.cluster.apiserver.http.request_info import request_info
from kubesched.cluster.apiserver.http.request_types import ResourceRequest, ResourceResponse
from kubesched.cluster.apiserver.identity import Identities
from kubesched.cluster.apiserver.resources import (
    Registry,
    Resource,
    ScaleSubresource,
    ViewSubresource,
)
from kubesched.cluster.apiserver.storage.store import Journal, Store
from kubesched.cluster.apiserver.strategy import Strategy, User
from kubesched.cluster.apiserver.verbs.context import Context, decode, encode
from kubesched.cluster.apiserver.verbs.watching import Watcher

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
KINDS = {"events": "Event", "things": "Thing", "runs": "Run", "leaves": "Leaf"}
NOW_S = 1_700_000_000.0
NOW = "2023-11-14T22:13:20Z"
THINGS = "/apis/example.com/v1/namespaces/one/things"
PATHS = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}


class StandingClock:
    """A clock that moves only when a test advances it."""

    def __init__(self) -> None:
        self.moved_s = 0.0

    def now_s(self) -> float:
        return NOW_S + self.moved_s

    def monotonic_s(self) -> float:
        return self.moved_s

    async def sleep(self, delay_s: float) -> None:
        self.moved_s += delay_s


class Graceful(Strategy):
    """Deleted after half a minute."""

    default_grace_period_s = 30
    returns_deleted_object = True
    allows_create_on_update = True


class Versioned(Strategy):
    """Not updated without a version."""

    allows_unconditional_update = False
    bumps_generation = False
    has_status = False


class World:
    """A context, and requests to it."""

    def __init__(self, journal: Journal | None = None, version: int = 1) -> None:
        self.clock = StandingClock()
        self.context = Context(
            registry=_registry(),
            store=Store(journal, version=version),
            clock=self.clock,
            identities=Identities(7),
        )
        for resource in self.context.registry:
            self.context.store.bucket(resource.storage)

    def request(self, method: str, url: str, body: Any = None, **headers: str) -> ResourceRequest:
        """Return a request; underscores in names of headers become dashes."""
        path, _, text = url.partition("?")
        query: MultiDict[str] = MultiDict()
        for parameter in filter(None, text.split("&")):
            name, _, value = parameter.partition("=")
            query.add(name, value)
        named_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        info = request_info(method, path, query)
        if method in {"POST", "PUT"} and isinstance(body, dict):
            # Bodies of custom kinds must name them.
            body = {"apiVersion": "example.com/v1", "kind": KINDS[info.resource], **body}
        data = b"" if body is None else body if isinstance(body, bytes) else encode(body)
        return ResourceRequest(info, User("tester"), query, named_headers, data)

    def watch(self, url: str) -> Watcher:
        """Return a watcher of the URL that a client would request."""
        found = run(self.context, self.request("GET", url))
        assert isinstance(found, Watcher)
        return found

    def answer(self, method: str, url: str, body: Any = None, **headers: str) -> ResourceResponse:
        """Return an answer."""
        found = run(self.context, self.request(method, url, body, **headers))
        assert isinstance(found, ResourceResponse)
        return found

    def __call__(self, method: str, url: str, body: Any = None, **headers: str) -> Document:
        """Return the document of an answer."""
        document: Document = decode(self.answer(method, url, body, **headers).data)
        return document

    def patch(self, url: str, body: Any, kind: str = "merge") -> Document:
        """Patch an object."""
        return self("PATCH", url, body, Content_Type=PATHS[kind])

    def make(self, name: str, **more: Any) -> Document:
        """Create a thing."""
        metadata = {"name": name, **more.pop("metadata", {})}
        return self("POST", THINGS, {"metadata": metadata, **more})


def events_of(watcher: Watcher) -> list[Document]:
    """Return the events of a watcher, initial events first."""
    data = b"".join(watcher.initial_frames()) + watcher.take()
    return [decode(line) for line in data.splitlines()]


def types_and_names(watcher: Watcher) -> list[tuple[str, str]]:
    """Return the types and object names of a watcher's events."""
    return [
        (event["type"], event["object"]["metadata"].get("name", "")) for event in events_of(watcher)
    ]


def _resource(plural: str, kind: str, strategy: Strategy, **more: Any) -> Resource:
    return Resource(
        group="example.com",
        version="v1",
        resource=plural,
        kind=kind,
        singular=kind.lower(),
        verbs=VERBS,
        strategy=strategy,
        schema=None,
        is_custom=True,
        **{"is_namespaced": True, **more},
    )


def _registry() -> Registry:
    registry = Registry()
    plain = Strategy()
    things = _resource("things", "Thing", plain, short_names=("th",))
    things.views["status"] = ViewSubresource("status", plain)
    things.scale = ScaleSubresource()
    registry.add(things)
    registry.add(_resource("runs", "Run", Graceful()))
    registry.add(_resource("leaves", "Leaf", Versioned(), is_namespaced=False))
    return registry
