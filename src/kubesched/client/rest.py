"""The API client: requests for resources, and the pod calls of the scheduler.

Owns paths, bodies and lanes of requests, and the outcome of bindings. Never opens a connection, and
leaves retries of single requests to request.
Upstream: staging/src/k8s.io/client-go/rest/client.go, kubernetes/typed
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict, Unpack

import msgspec

from kubesched.api.decode import decode_as
from kubesched.api.pod import Pod
from kubesched.client.errors import (
    ApiError,
    ConflictError,
    InternalServerError,
    NotFoundError,
    ServiceUnavailableError,
    TooManyRequestsError,
    TransportError,
)
from kubesched.client.http.lanes import Lane
from kubesched.client.http.request import Body, OnForbidden, Query, RestClient
from kubesched.client.resources import PODS, Resource

__all__ = ["MERGE_PATCH", "STRATEGIC_MERGE_PATCH", "Body", "Client", "Lane", "Query"]

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
# Parity: client-go util/retry DefaultBackoff, v1.36: four attempts, 10 ms, factor 5.
_PATCH_DELAYS_S: Final = (0.01, 0.05, 0.25)
_SETTLE_FIRST_S: Final = 0.1
_SETTLE_MAX_S: Final = 5.0


class Options(TypedDict, total=False):
    """Options of every call."""

    query: Query
    lane: Lane
    """The priority; WRITE for writes, else OTHER."""
    timeout_s: float


class Client(RestClient):
    """Requests for resources."""

    def sibling(self, *, user_agent: str, on_forbidden: OnForbidden | None = None) -> Client:
        """Return a client that shares the connections, with a rate limit of its own.

        Connections are closed with the client that opened them.
        """
        qps, burst = self._pace
        return Client(
            self.access,
            qps=qps,
            burst=burst,
            user_agent=user_agent,
            clock=self._clock,
            log=self._log,
            metrics=self._metrics,
            transport=self._transport,
            on_forbidden=on_forbidden or self.on_forbidden,
            logs_warnings=self._logs_warnings,
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
        """Return one object, or the list without a name."""
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
        return decode_as(Pod, await self.get(PODS, name, namespace=namespace))

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod to a node; read the pod to determine an unknown outcome.

        Differs: upstream takes an unknown outcome for a failure and forgets the pod, so that other
        pods may take its resources before the watch shows the binding.
        """
        path = PODS.path(namespace, name, "binding")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"kind": "Node", "name": node_name},
        }
        for is_retry in (False, True):
            try:
                await self.request("POST", path, body=body, lane=Lane.BINDING)
            except (ApiError, TransportError) as error:
                # The server may have processed a request that was sent.
                is_sent = error.was_sent if isinstance(error, TransportError) else error.code >= 500
                if not (is_sent or (is_retry and isinstance(error, ConflictError))):
                    raise
                pod = await self._read_bound_pod(namespace, name, error)
                if pod.metadata.uid == uid and pod.spec.node_name == node_name:
                    return
                is_free = pod.metadata.uid == uid and not pod.spec.node_name
                if is_retry or not is_free or not isinstance(error, TransportError):
                    raise
            else:
                return

    async def _read_bound_pod(self, namespace: str, name: str, cause: Exception) -> Pod:
        """Read the pod, retrying forever: it counts on the node until then."""
        delay_s = _SETTLE_FIRST_S
        while True:
            try:
                data = await self.request("GET", PODS.path(namespace, name), lane=Lane.BINDING)
                return decode_as(Pod, data)
            except NotFoundError:
                raise
            except TransportError as error:
                if error.is_closed:
                    raise
            except TooManyRequestsError:
                pass  # The immediate retries of the request are used up.
            except ApiError as error:
                if error.code < 500:
                    raise cause from error
            await self._clock.sleep(delay_s)
            delay_s = min(_SETTLE_MAX_S, delay_s * 2)

    async def patch_pod_status(
        self, *, namespace: str, name: str, patch: Mapping[str, Any], uid: str = ""
    ) -> None:
        """Patch the status of a pod, with a uid only of that very pod; skip an empty patch.

        Parity: pkg/scheduler/util/utils.go PatchPodStatus and Retriable, v1.36.
        """
        if not patch:
            return
        if uid:
            patch = {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}}
        body = msgspec.json.encode(patch)
        for delay_s in (*_PATCH_DELAYS_S, None):
            try:
                await self.patch(PODS, name, body, namespace=namespace, subresource="status")
            except (InternalServerError, ServiceUnavailableError, TransportError) as error:
                is_refused = not isinstance(error, TransportError) or error.is_refused
                if delay_s is None or not is_refused:
                    raise
                await self._clock.sleep(delay_s)
            else:
                return

    async def delete_pod(self, *, namespace: str, name: str) -> None:
        """Delete a pod with its own grace period."""
        await self.delete(PODS, name, namespace=namespace, body=b"{}")

    async def version(self) -> str:
        """Return the version of the server, such as `v1.36.4`."""
        info = msgspec.json.decode(await self.request("GET", "/version"))
        return str(info.get("gitVersion", ""))

    async def serves(self, resource: Resource) -> bool:
        """Return whether the server serves a resource in its version."""
        try:
            data = await self.request("GET", resource.root.rstrip("/"))
        except NotFoundError:
            return False
        served = msgspec.json.decode(data).get("resources") or ()
        return any(entry["name"] == resource.plural for entry in served)


def _writing(options: Options) -> Options:
    return options if "lane" in options else {**options, "lane": Lane.WRITE}
