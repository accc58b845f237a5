"""The framework handle and the API client that plugins get in a running scheduler.

Owns the names of resources that plugins use, and the one error that API calls raise for them. What
needs no running scheduler (snapshot, filters, random generator) is in `Handle`.
Upstream: pkg/scheduler/framework/runtime/framework.go (frameworkImpl as Handle)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import Resource
from kubesched.client.rest import MERGE_PATCH, Client
from kubesched.extender.client.extenders import Extenders
from kubesched.framework.handle import ApiCallError, EventRecorder, Handle, Logger, Nominator
from kubesched.framework.runtime.waiting_pods import WaitingPod
from kubesched.kit.clock import Clock
from kubesched.kit.tasks import Tasks
from kubesched.snapshot.pod_info import PodInfo


@dataclass(slots=True)
class LiveServices:
    """The components of a running scheduler that handles offer; set as they are built."""

    clock: Clock
    log: Logger
    tasks: Tasks
    metrics: Any
    client: Any = None
    nominator: Any = None
    recorder_of: Callable[[str], EventRecorder] | None = None
    waiting_pods: Any = None
    activate: Callable[[Iterable[PodInfo]], None] | None = None
    is_preempting: Callable[[str], bool] | None = None
    informer: Callable[[str], Any] | None = None
    extenders: Extenders | None = None
    """The extenders of the same configuration."""


class LiveHandle(Handle):
    """The handle of plugins in a running scheduler."""

    def __init__(self, profile_name: str, services: LiveServices, seed: int = 0) -> None:
        super().__init__(profile_name, seed)
        self._services = services

    def __repr__(self) -> str:
        return f"<LiveHandle of {self.profile_name}>"

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def log(self) -> Logger:
        return self._services.log

    @property
    def metrics(self) -> Any:
        return self._services.metrics

    @property
    def nominator(self) -> Nominator:
        return _available(self._services.nominator, "the nominator")

    @property
    def recorder(self) -> EventRecorder:
        return _available(self._services.recorder_of, "the event recorder")(self.profile_name)

    @property
    def client(self) -> Any:
        return _available(self._services.client, "the API client")

    def informer(self, resource: str) -> Any:
        """Return the known objects of a resource."""
        return _available(self._services.informer, "the informers")(resource)

    @property
    def extenders(self) -> Sequence[Any]:
        """Return the extenders, in configuration order."""
        return tuple(self._services.extenders or ())

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Yield the pods that wait on Permit."""
        return iter(_available(self._services.waiting_pods, "waiting pods"))

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod that waits on Permit; None if it does not."""
        waiting: WaitingPod | None = _available(self._services.waiting_pods, "waiting pods").get(
            uid
        )
        return waiting

    def reject_waiting_pod(self, uid: str) -> bool:
        """Reject a waiting pod; return whether it was waiting."""
        # Parity: runtime/framework.go RejectWaitingPod, v1.36.
        waiting = self.waiting_pod(uid)
        if waiting is None:
            return False
        waiting.reject("", "removed")
        return True

    def is_preempting(self, uid: str) -> bool:
        return self._services.is_preempting is not None and self._services.is_preempting(uid)

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Make pods active in the queue."""
        _available(self._services.activate, "the queue")(pods.values())

    def start_task(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a background task until the scheduler ends."""

        async def task() -> None:
            await run()

        self._services.tasks.start(task(), name=name)


def _available(part: Any, name: str) -> Any:
    if part is None:
        raise RuntimeError(f"{name} is not available in __init__: use it during an attempt")
    return part


class LiveApiClient:
    """The API client of plugins, on top of the scheduler's client.

    Upstream: client-go's clientset, as framework.Handle returns it
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        with _api_call_errors():
            await self._client.bind_pod(
                namespace=namespace, name=name, uid=uid, node_name=node_name
            )

    async def patch_pod_status(
        self, *, namespace: str, name: str, patch: Mapping[str, Any], uid: str = ""
    ) -> None:
        """Patch a pod's status with a strategic merge patch of the pod."""
        with _api_call_errors():
            await self._client.patch_pod_status(
                namespace=namespace, name=name, patch=patch, uid=uid
            )

    async def delete_pod(self, *, namespace: str, name: str) -> None:
        """Delete a pod with its own grace period."""
        with _api_call_errors():
            await self._client.delete_pod(namespace=namespace, name=name)

    async def get_object(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        """Read an object from the API server."""
        with _api_call_errors():
            body = await self._client.get(
                resource_of(resource, namespace), name, namespace=namespace
            )
        return _document(body)

    async def node_of(self, pod: PodInfo) -> str:
        """Read the node of a pod; empty if it has none, or on an error."""
        try:
            current = await self.get_object("pods", pod.namespace, pod.name)
        except ApiCallError:
            return ""
        is_same = current.get("metadata", {}).get("uid") == pod.uid
        return str(current.get("spec", {}).get("nodeName", "")) if is_same else ""

    async def update_object(self, resource: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object if its resourceVersion is current; return the result."""
        meta = obj["metadata"]
        namespace = meta.get("namespace", "")
        with _api_call_errors():
            updated = await self._client.update(
                resource_of(resource, namespace), meta["name"], obj, namespace=namespace
            )
        return _document(updated)

    async def patch_object(
        self, resource: str, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Patch an object with a JSON merge patch; return the result."""
        with _api_call_errors():
            patched = await self._client.patch(
                resource_of(resource, namespace),
                name,
                patch,
                namespace=namespace,
                content_type=MERGE_PATCH,
            )
        return _document(patched)


def resource_of(name: str, namespace: str) -> Resource:
    """Return the resource named `<plural>` or `<plural>.<version>.<group>`."""
    plural, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    return Resource(group, version or "v1", plural, kind="", namespaced=bool(namespace))


@contextmanager
def _api_call_errors() -> Iterator[None]:
    try:
        yield
    except TransportError as problem:
        raise ApiCallError(problem.message) from problem
    except ApiError as problem:
        message, code, reason = problem.message, problem.code, problem.reason
        raise ApiCallError(message, code=code, reason=reason) from problem


def _document(body: bytes) -> dict[str, Any]:
    return msgspec.json.decode(body, type=dict[str, Any])
