"""What a plugin may ask of the scheduler that runs it; kept small.

Owns the contract. The engine alone offers the snapshot and the profile's filters; what needs the
live scheduler raises `NotLiveError` elsewhere.
Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go Handle
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView
from kubesched.framework.filter_phase import FilterPhase
from kubesched.kit.clock import Clock
from kubesched.kit.rng import Generator
from kubesched.model.pod_info import PodInfo


class NotLiveError(RuntimeError):
    """The plugin asked for something only a running scheduler has."""


class WaitingPod(Protocol):
    """A pod held by permit plugins."""

    @property
    def pod(self) -> PodInfo: ...
    @property
    def pending_plugins(self) -> list[str]: ...
    def allow(self, plugin: str) -> None: ...
    def reject(self, plugin: str, message: str) -> None: ...
    def preempt(self, plugin: str, message: str) -> None: ...


class Nominator(Protocol):
    """Which pending pods were promised which node."""

    def add_nominated_pod(self, pod: PodInfo, node_name: str) -> None: ...
    def delete_nominated_pod(self, pod: PodInfo) -> None: ...
    def nominated_pods(self, node_name: str) -> list[BoundPod]: ...


class EventRecorder(Protocol):
    """Writes events about objects, for people."""

    def event(self, regarding: object, *, kind: str, reason: str, action: str, note: str) -> None:
        """Write an event; kind is `Normal` or `Warning`."""
        ...


class Logger(Protocol):
    """Structured lines: a constant message and fields; `level` as upstream's -v."""

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None: ...
    def error(self, message: str, /, **fields: object) -> None: ...


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
    def client(self) -> Any:
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
    def filters(self) -> FilterPhase:
        """Return the profile's filters, to run on any nodes, as they are or as a trial supposes."""
        ...
