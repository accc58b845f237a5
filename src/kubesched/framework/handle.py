"""The framework handle: what a plugin may use of the scheduler that runs it.

`Handle` itself serves offline decisions (decide, explain, simulate): it offers the snapshot and the
profile's filters, and raises `NotLiveError` for what needs a running scheduler.
Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go Handle
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from kubesched.framework.interface import Victims
from kubesched.framework.runtime.filter_phase import FilterPhase
from kubesched.framework.runtime.waiting_pods import WaitingPod
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.rng import RandomStream
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.view import ClusterView

if TYPE_CHECKING:
    from kubesched.framework.runtime.profile import Profile

HTTP_NOT_FOUND = 404


class NotLiveError(RuntimeError):
    """The plugin used something that only a running scheduler has."""


class ApiCallError(Exception):
    """The API server rejected a request, or did not respond; the text is the server's own."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        """The HTTP code; 0 if there was no response."""
        self.reason = reason

    @property
    def is_not_found(self) -> bool:
        """Return whether the object does not exist."""
        return self.reason == "NotFound" or (not self.reason and self.code == HTTP_NOT_FOUND)


class ExtenderError(Exception):
    """An extender could not be called, or its response is invalid; the text is upstream's."""


class Extender(Protocol):
    """An HTTP extender, as preemption uses it."""

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
        """Return the accepted nodes and their victims; raise `ExtenderError` on a failure."""
        ...


class ApiClient(Protocol):
    """The requests that plugins can make; each raises `ApiCallError` on a failure.

    `resource` is the plural of a core kind (`persistentvolumes`) or `<plural>.<version>.<group>`;
    `namespace` is empty where the kind has none.
    """

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod to a node."""
        ...

    async def patch_pod_status(
        self, *, namespace: str, name: str, patch: Mapping[str, Any], uid: str = ""
    ) -> None:
        """Patch a pod's status with a strategic merge patch of the pod."""
        ...

    async def delete_pod(self, *, namespace: str, name: str) -> None:
        """Delete a pod with its own grace period."""
        ...

    async def get_object(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        """Read an object from the API server."""
        ...

    async def update_object(self, resource: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object if its resourceVersion is current; return the result."""
        ...

    async def patch_object(
        self, resource: str, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Patch an object with a JSON merge patch; return the result.

        With `metadata.resourceVersion` in the patch, the object changes only if that is current.
        """
        ...


class Nominator(Protocol):
    """The nominations of pending pods."""

    def add_nominated_pod(self, pod: PodInfo, node_name: str) -> None: ...
    def delete_nominated_pod(self, pod: PodInfo) -> None: ...
    def nominated_pods(self, node_name: str) -> list[BoundPod]: ...


class EventRecorder(Protocol):
    """Records events about objects."""

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
        """Record an event; kind is `Normal` or `Warning`."""
        ...


class Logger(Protocol):
    """Structured logging: a constant message and fields; `level` as upstream's -v."""

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None: ...
    def error(
        self, message: str, /, *, err: BaseException | str | None = None, **fields: object
    ) -> None: ...


class Handle:
    """The handle that a plugin gets when it is created.

    This class is for offline decisions; its owner sets the snapshot as `view`. Subclasses add what
    a running scheduler has.
    """

    def __init__(self, profile_name: str, seed: int = 0) -> None:
        self.profile_name = profile_name
        """The scheduler name of the plugin's profile."""
        self.rng = RandomStream(seed, profile_name)
        """The seeded random generator of the plugin's profile."""
        self.view = ClusterView(ClusterTables())
        self._profile: Profile | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.profile_name}>"

    def attach(self, profile: Profile) -> None:
        """Set the profile whose plugins use this handle."""
        self._profile = profile

    @property
    def snapshot(self) -> ClusterView:
        """Return the cluster as this attempt sees it; outside an attempt, the present one."""
        return self.view

    @property
    def filters(self) -> FilterPhase:
        """Return the profile's filters, to run on nodes or on a trial of them."""
        assert self._profile is not None, "the profile is still being built"
        return self._profile.filters

    @property
    def clock(self) -> Clock:
        """Return the clock of the scheduler."""
        return SystemClock()

    @property
    def log(self) -> Logger:
        """Return a logger."""
        return NullLog()

    @property
    def nominator(self) -> Nominator:
        """Return the nominator; offline it only reads."""
        return _SnapshotNominator(self)

    @property
    def recorder(self) -> EventRecorder:
        """Return the event recorder; not offline."""
        return _not_live("the event recorder")

    @property
    def client(self) -> ApiClient:
        """Return the API client; not offline."""
        return _not_live("the API client")

    def informer(self, resource: str) -> Any:
        """Return the known objects of `pods` or `<plural>.<version>.<group>`; not offline."""
        return _not_live(f"the informer of {resource}")

    @property
    def extenders(self) -> Sequence[Extender]:
        """Return the extenders in configuration order; offline none, since none is called."""
        return ()

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Yield the pods that wait on Permit."""
        return ()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod that waits on Permit; None if it does not."""
        return None

    def reject_waiting_pod(self, uid: str) -> bool:
        """Reject a waiting pod; return whether it was waiting."""
        return False

    def is_preempting(self, uid: str) -> bool:
        """Return whether victims of this preemptor are still being evicted."""
        return False

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Make pods active in the queue, if there is one."""

    def start_task(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a background task until the scheduler ends; not offline."""
        _not_live(f"the background task {name}")


class _SnapshotNominator:
    """Reads nominations from the snapshot; only a running scheduler changes them."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def add_nominated_pod(self, pod: PodInfo, node_name: str) -> None:
        _not_live("nominating a pod")

    def delete_nominated_pod(self, pod: PodInfo) -> None:
        _not_live("dropping a nomination")

    def nominated_pods(self, node_name: str) -> list[BoundPod]:
        view = self._handle.snapshot
        return [view.bound_pod(index) for index in view.nominated_on(view.row_of(node_name))]


def _not_live(what: str) -> NoReturn:
    raise NotLiveError(f"{what} needs a running scheduler (kubesched run)")
