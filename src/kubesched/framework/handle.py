"""What a plugin may ask of the scheduler that runs it; kept small.

Owns the contract. The engine alone offers the snapshot and the profile's filters; what needs the
live scheduler raises `NotLiveError` elsewhere.
Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go Handle
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView
from kubesched.framework.filter_phase import FilterPhase
from kubesched.framework.interface import Victims
from kubesched.kit.clock import Clock
from kubesched.kit.rng import Generator
from kubesched.model.pod_info import PodInfo

HTTP_NOT_FOUND = 404


class NotLiveError(RuntimeError):
    """The plugin asked for something only a running scheduler has."""


class ApiCallError(Exception):
    """The API server refused a request, or never answered; the text is the server's own."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        """The HTTP code; 0 if there was no answer."""
        self.reason = reason

    @property
    def is_not_found(self) -> bool:
        """Return whether there is no such object."""
        return self.reason == "NotFound" or (not self.reason and self.code == HTTP_NOT_FOUND)


class ExtenderError(Exception):
    """An extender could not be asked, or did not answer as it should; the text is upstream's."""


class Extender(Protocol):
    """An HTTP service that has a say in preemption."""

    @property
    def name(self) -> str: ...
    @property
    def is_ignorable(self) -> bool: ...
    @property
    def supports_preemption(self) -> bool: ...
    def is_interested(self, pod: PodInfo) -> bool: ...
    async def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, Victims], view: ClusterView
    ) -> dict[str, Victims]:
        """Return which nodes may be freed, and of whom; raise `ExtenderError` if that fails."""
        ...


class ApiClient(Protocol):
    """The requests plugins make; each raises `ApiCallError`.

    `resource` is the plural of a core kind (`persistentvolumes`) or `<plural>.<version>.<group>`;
    `namespace` is empty where the kind has none.
    """

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Have a pod assigned to a node."""
        ...

    async def patch_pod_status(
        self, *, namespace: str, name: str, patch: Mapping[str, Any], uid: str = ""
    ) -> None:
        """Change a pod's status by a strategic merge patch of the whole pod."""
        ...

    async def delete_pod(self, *, namespace: str, name: str) -> None:
        """Have a pod deleted, with the time it asks for to end."""
        ...

    async def get_object(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        """Return an object as the API server has it now."""
        ...

    async def update_object(self, resource: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object if it still has the resourceVersion given; return what it is then."""
        ...

    async def patch_object(
        self, resource: str, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Change an object by a JSON merge patch; return what it is then.

        With `metadata.resourceVersion` in the patch the object is changed only if it still has it.
        """
        ...


class WaitingPod(Protocol):
    """A pod held by permit plugins."""

    @property
    def pod(self) -> PodInfo: ...
    @property
    def pending_plugins(self) -> list[str]: ...
    def allow(self, plugin: str) -> None:
        """Let the pod go on, if no other plugin holds it."""
        ...

    def reject(self, plugin: str, message: str) -> bool:
        """Refuse the pod; return whether this was in time."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the attempt without a refusal; return whether this was in time."""
        ...


class Nominator(Protocol):
    """Which pending pods were promised which node."""

    def add_nominated_pod(self, pod: PodInfo, node_name: str) -> None: ...
    def delete_nominated_pod(self, pod: PodInfo) -> None: ...
    def nominated_pods(self, node_name: str) -> list[BoundPod]: ...


class EventRecorder(Protocol):
    """Writes events about objects, for people."""

    def event(
        self,
        regarding: Any,
        *,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: Any = None,
    ) -> None:
        """Write an event; kind is `Normal` or `Warning`."""
        ...


class Logger(Protocol):
    """Structured lines: a constant message and fields; `level` as upstream's -v."""

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None: ...
    def error(
        self, message: str, /, *, err: BaseException | str | None = None, **fields: object
    ) -> None: ...


class Handle(Protocol):
    """What a plugin gets when it is made."""

    @property
    def profile_name(self) -> str:
        """Return the scheduler name of the profile the plugin belongs to."""
        ...

    @property
    def snapshot(self) -> ClusterView:
        """Return the cluster as this attempt sees it; outside an attempt, as it is."""
        ...

    @property
    def rng(self) -> Generator:
        """Return the seeded generator of the plugin's profile."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock of the scheduler."""
        ...

    @property
    def log(self) -> Logger:
        """Return a logger."""
        ...

    @property
    def nominator(self) -> Nominator:
        """Return who was promised which node."""
        ...

    @property
    def recorder(self) -> EventRecorder:
        """Return the recorder of events."""
        ...

    @property
    def client(self) -> ApiClient:
        """Return the API client."""
        ...

    def informer(self, resource: str) -> Any:
        """Return the informer of a kind: `pods`, or any `<plural>.<version>.<group>`."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Yield the pods that permit plugins hold."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return one pod that permit plugins hold."""
        ...

    def reject_waiting_pod(self, uid: str) -> bool:
        """Refuse a held pod; return whether it was held."""
        ...

    def is_preempting(self, uid: str) -> bool:
        """Return whether pods are still being evicted to make room for this one."""
        ...

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Have waiting pods tried again at once."""
        ...

    def start_task(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run something beside scheduling until the scheduler ends."""
        ...

    @property
    def extenders(self) -> Sequence[Extender]:
        """Return the extenders in the order in which they are asked."""
        ...

    @property
    def filters(self) -> FilterPhase:
        """Return the profile's filters, to run on any nodes, as they are or as a trial supposes."""
        ...
