"""The handle plugins get where no live scheduler runs: decide, explain, simulate.

Owns the snapshot and the profile's filters; everything live raises `NotLiveError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from kubesched.columns.cluster import Cluster
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView
from kubesched.framework.filter_phase import FilterPhase
from kubesched.framework.handle import EventRecorder, Logger, Nominator, NotLiveError, WaitingPod
from kubesched.framework.profile import Profile
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.rng import Generator
from kubesched.model.pod_info import PodInfo


class SilentLogger:
    """Drops every line; the live scheduler brings a real one."""

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None:
        """Drop a line."""

    def error(self, message: str, /, **fields: object) -> None:
        """Drop a line."""


class ViewNominator:
    """Reads nominations from the cluster's tables; only a live scheduler changes them."""

    def __init__(self, handle: OfflineHandle) -> None:
        self._handle = handle

    def add_nominated_pod(self, pod: PodInfo, node_name: str) -> None:
        """Refuse: nothing is nominated here."""
        _not_live("nominating a pod")

    def delete_nominated_pod(self, pod: PodInfo) -> None:
        """Refuse: nothing is nominated here."""
        _not_live("dropping a nomination")

    def nominated_pods(self, node_name: str) -> list[BoundPod]:
        """Return the pods that were promised a node."""
        view = self._handle.snapshot
        return [view.bound_pod(index) for index in view.nominated_on(view.row_of(node_name))]


class OfflineHandle:
    """A plugin's handle over a snapshot that whoever decides puts in place."""

    def __init__(self, profile_name: str, seed: int = 0) -> None:
        self._profile_name = profile_name
        self._profile: Profile | None = None
        self._rng = Generator(seed, profile_name)
        self._log = SilentLogger()
        self.view: ClusterView = ClusterView(Cluster())

    def __repr__(self) -> str:
        return f"<OfflineHandle of {self._profile_name}>"

    def attach(self, profile: Profile) -> None:
        """Make known the profile whose plugins hold this handle."""
        self._profile = profile

    @property
    def profile_name(self) -> str:
        """Return the profile's scheduler name."""
        return self._profile_name

    @property
    def snapshot(self) -> ClusterView:
        """Return the cluster that is being decided on."""
        return self.view

    @property
    def rng(self) -> Generator:
        """Return the profile's seeded generator."""
        return self._rng

    @property
    def clock(self) -> Clock:
        """Return the machine's clock."""
        return SystemClock()

    @property
    def log(self) -> Logger:
        """Return a logger."""
        return self._log

    @property
    def filters(self) -> FilterPhase:
        """Return the profile's filters."""
        assert self._profile is not None, "the profile is still being built"
        return self._profile.filters

    @property
    def nominator(self) -> Nominator:
        """Return who was promised which node."""
        return ViewNominator(self)

    @property
    def recorder(self) -> EventRecorder:
        """Refuse: no events are written here."""
        return _not_live("the event recorder")

    @property
    def client(self) -> Any:
        """Refuse: there is no API server here."""
        return _not_live("the API client")

    def informer(self, resource: str) -> Any:
        """Refuse: there is no API server here."""
        return _not_live(f"the informer of {resource}")

    @property
    def extenders(self) -> Sequence[Any]:
        """Return none: nobody outside is asked here."""
        return ()

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Return none: nothing is bound here, so nothing waits."""
        return ()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return none: nothing waits here."""
        return None

    def reject_waiting_pod(self, uid: str) -> bool:
        """Return false: nothing waits here."""
        return False

    def is_preempting(self, uid: str) -> bool:
        """Return false: nobody is evicted here."""
        return False

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Do nothing: there is no queue here."""

    def start_task(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Refuse: nothing runs beside a decision."""
        _not_live(f"the background task {name}")


def _not_live(what: str) -> NoReturn:
    raise NotLiveError(f"{what} needs a running scheduler (kubesched run)")
