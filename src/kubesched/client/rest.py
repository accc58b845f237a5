"""What the scheduler asks of the API server.

Owns the paths, bodies and lanes of its calls, and what their answers mean. Never opens a
connection and never sends anything twice by itself: transport and request do.
Upstream: staging/src/k8s.io/client-go/rest/client.go, kubernetes/typed
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias, TypedDict, Unpack

import msgspec

from kubesched.client.auth import ClusterAccess
from kubesched.client.errors import NotFoundError
from kubesched.client.lanes import Lane, Lanes
from kubesched.client.pods import bind_pod, patch_pod_status
from kubesched.client.request import JSON, OnForbidden, Query, RequestMetrics, Requests
from kubesched.client.resources import PODS, Resource
from kubesched.client.transport import HttpTransport, Transport
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.objects.decode import decode_as
from kubesched.objects.pod import Pod

__all__ = [
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Body",
    "Client",
    "Lane",
    "Options",
    "Query",
    "RequestMetrics",
    "VersionInfo",
]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
_DISCOVERED_S: Final = 30.0

Body: TypeAlias = bytes | Mapping[str, Any] | list[Any] | msgspec.Struct


class Options(TypedDict, total=False):
    """What every call takes beside what it is about."""

    query: Query
    lane: Lane
    """Whom it goes before; WRITE for what changes something, else OTHER."""
    timeout_s: float


class VersionInfo(msgspec.Struct, rename="camel", frozen=True):
    """What an API server says of itself."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""


class _Served(msgspec.Struct):
    name: str


class _ServedList(msgspec.Struct):
    resources: list[_Served] = []


class Client:
    """One user of the API server, with a pace of its own."""

    def __init__(  # noqa: PLR0913  # One argument for each thing that is handed in.
        self,
        access: ClusterAccess,
        *,
        qps: float = 50.0,
        burst: int = 100,
        user_agent: str,
        clock: Clock,
        log: Log,
        metrics: RequestMetrics | None = None,
        transport: Transport | None = None,
        on_forbidden: OnForbidden | None = None,
        logs_warnings: bool = True,
    ) -> None:
        """Make a client; nothing is connected before the first request.

        Args:
            access: Where the server is, and who we are.
            qps: How many requests a second go out; below 0 for any number.
            burst: How many may go out at once.
            user_agent: What the server logs us as.
            clock: What time it is.
            log: Where lines go.
            metrics: What is told of every request.
            transport: What sends; connections of our own if None.
            on_forbidden: What is told of every right we lack.
            logs_warnings: Whether what the server warns of is logged; controllers write deprecated
                kinds on purpose.
        """
        self.access = access
        self._owns_transport = transport is None
        self._transport = transport or HttpTransport(access, clock)
        self._pace = (qps, burst)
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self.on_forbidden = on_forbidden
        self.user_agent = user_agent
        self._logs_warnings = logs_warnings
        self._requests = Requests(
            access,
            self._transport,
            Lanes(qps=qps, burst=burst, clock=clock),
            user_agent=user_agent,
            clock=clock,
            log=log,
            metrics=metrics,
            on_forbidden=on_forbidden,
            logs_warnings=logs_warnings,
        )
        self._discovered: dict[str, tuple[float, frozenset[str]]] = {}

    def sibling(
        self,
        *,
        user_agent: str,
        qps: float | None = None,
        burst: int | None = None,
        on_forbidden: OnForbidden | None = None,
    ) -> Client:
        """Return a client with the same connections and a pace of its own.

        Connections are closed with the client that made them. Whoever is told of rights that we
        lack is the same unless another is named.
        """
        return Client(
            self.access,
            qps=self._pace[0] if qps is None else qps,
            burst=self._pace[1] if burst is None else burst,
            user_agent=user_agent,
            clock=self._clock,
            log=self._log,
            metrics=self._metrics,
            transport=self._transport,
            on_forbidden=on_forbidden or self.on_forbidden,
            logs_warnings=self._logs_warnings,
        )

    async def request(  # noqa: PLR0913  # One argument for each part of a request.
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Body | None = None,
        content_type: str = JSON,
        lane: Lane = Lane.OTHER,
        timeout_s: float | None = None,
    ) -> bytes:
        """Send a request and return the body of its answer; ApiError, TransportError."""
        return await self._requests.send(
            method,
            path,
            query=query,
            body=body if body is None or isinstance(body, bytes) else msgspec.json.encode(body),
            content_type=content_type,
            lane=lane,
            timeout_s=timeout_s,
        )

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        idle_timeout_s: float | None = None,
        accept: str = JSON,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch: `async with client.stream(path) as chunks`; never throttled."""
        return self._requests.stream(
            path, query=query, idle_timeout_s=idle_timeout_s, accept=accept
        )

    async def get(
        self,
        resource: Resource,
        name: str = "",
        *,
        namespace: str = "",
        subresource: str = "",
        **options: Unpack[Options],
    ) -> bytes:
        """Return one object, or the list of all if there is no name."""
        return await self.request("GET", resource.path(namespace, name, subresource), **options)

    async def create(
        self,
        resource: Resource,
        body: Body,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        **options: Unpack[Options],
    ) -> bytes:
        """Create an object; a name is only needed for a subresource."""
        path = resource.path(namespace, name, subresource)
        return await self.request("POST", path, body=body, **_writing(options))

    async def update(
        self,
        resource: Resource,
        name: str,
        body: Body,
        *,
        namespace: str = "",
        subresource: str = "",
        **options: Unpack[Options],
    ) -> bytes:
        """Replace an object."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PUT", path, body=body, **_writing(options))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body,
        *,
        namespace: str = "",
        subresource: str = "",
        content_type: str = STRATEGIC_MERGE_PATCH,
        **options: Unpack[Options],
    ) -> bytes:
        """Change a part of an object."""
        path = resource.path(namespace, name, subresource)
        return await self.request(
            "PATCH", path, body=body, content_type=content_type, **_writing(options)
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        body: Body | None = None,
        **options: Unpack[Options],
    ) -> bytes:
        """Delete an object, with DeleteOptions as the body if given."""
        path = resource.path(namespace, name)
        return await self.request("DELETE", path, body=body, **_writing(options))

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Return a pod as it is now."""
        return decode_as(Pod, await self.get(PODS, name, namespace=namespace))

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod to a node; an outcome that is not known is settled by reading the pod."""
        await bind_pod(
            self, self._clock, namespace=namespace, name=name, uid=uid, node_name=node_name
        )

    async def patch_pod_status(
        self, *, namespace: str, name: str, patch: Mapping[str, Any], uid: str = ""
    ) -> None:
        """Patch the status of a pod; with a uid, of that very pod and of no successor."""
        await patch_pod_status(
            self, self._clock, namespace=namespace, name=name, patch=patch, uid=uid
        )

    async def delete_pod(self, *, namespace: str, name: str) -> None:
        """Delete a pod, with the grace that it has itself."""
        await self.delete(PODS, name, namespace=namespace, body=b"{}")

    async def version(self) -> VersionInfo:
        """Return the version of the server."""
        return msgspec.json.decode(await self.request("GET", "/version"), type=VersionInfo)

    async def serves(self, resource: Resource) -> bool:
        """Return whether the server has a kind, in that version."""
        now_s = self._clock.monotonic_s()
        known = self._discovered.get(resource.root)
        if known is None or now_s - known[0] > _DISCOVERED_S:
            known = (now_s, await self._plurals(resource.root))
            self._discovered[resource.root] = known
        return resource.plural in known[1]

    async def _plurals(self, root: str) -> frozenset[str]:
        try:
            answer = await self.request("GET", root.rstrip("/"))
        except NotFoundError:
            return frozenset()
        served = msgspec.json.decode(answer, type=_ServedList)
        return frozenset(one.name for one in served.resources)

    async def close(self) -> None:
        """Turn away who waits, and close the connections if they are this client's own."""
        await self._requests.lanes.close()
        if self._owns_transport:
            await self._transport.close()


def _writing(options: Options) -> Options:
    return options if "lane" in options else {**options, "lane": Lane.WRITE}
