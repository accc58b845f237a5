"""The handle plugins get in a running scheduler.

Owns nothing: it joins what the scheduler has into the small contract plugins see. What the engine
alone can offer (snapshot, filters, generator) is the offline handle's.
Upstream: pkg/scheduler/framework/runtime/framework.go (frameworkImpl as Handle)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubesched.engine.handle import OfflineHandle
from kubesched.extender.asking import Extenders
from kubesched.framework.handle import EventRecorder, Logger, Nominator, WaitingPod
from kubesched.kit.clock import Clock
from kubesched.kit.tasks import Tasks
from kubesched.model.pod_info import PodInfo


@dataclass(slots=True)
class Live:
    """What a running scheduler lends to its handles; filled in as the parts are made."""

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
    """Those of the same configuration."""


class LiveHandle(OfflineHandle):
    """A plugin's handle on the scheduler that runs it."""

    def __init__(self, profile_name: str, live: Live, seed: int = 0) -> None:
        super().__init__(profile_name, seed)
        self._live = live

    def __repr__(self) -> str:
        return f"<LiveHandle of {self.profile_name}>"

    @property
    def clock(self) -> Clock:
        """Return the scheduler's clock."""
        return self._live.clock

    @property
    def log(self) -> Logger:
        """Return the scheduler's logger."""
        return self._live.log

    @property
    def metrics(self) -> Any:
        """Return the scheduler's metrics."""
        return self._live.metrics

    @property
    def nominator(self) -> Nominator:
        """Return who was promised which node."""
        return _made(self._live.nominator, "the nominator")

    @property
    def recorder(self) -> EventRecorder:
        """Return the recorder of this profile's events."""
        return _made(self._live.recorder_of, "the event recorder")(self.profile_name)

    @property
    def client(self) -> Any:
        """Return the API client."""
        return _made(self._live.client, "the API client")

    def informer(self, resource: str) -> Any:
        """Return what is known of the objects of a kind."""
        return _made(self._live.informer, "the informers")(resource)

    @property
    def extenders(self) -> Sequence[Any]:
        """Return the extenders, in the order in which they are asked."""
        return tuple(self._live.extenders or ())

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Yield the pods that permit plugins hold."""
        return iter(_made(self._live.waiting_pods, "waiting pods"))

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return one pod that permit plugins hold."""
        found: WaitingPod | None = _made(self._live.waiting_pods, "waiting pods").get(uid)
        return found

    def reject_waiting_pod(self, uid: str) -> bool:
        """Refuse a held pod; return whether it was held."""
        # Parity: runtime/framework.go RejectWaitingPod, v1.36.
        waiting = self.waiting_pod(uid)
        if waiting is None:
            return False
        waiting.reject("", "removed")
        return True

    def is_preempting(self, uid: str) -> bool:
        """Return whether pods are still being evicted to make room for this one."""
        return self._live.is_preempting is not None and self._live.is_preempting(uid)

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Have waiting pods tried again at once."""
        _made(self._live.activate, "the queue")(pods.values())

    def start_task(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run something beside scheduling until the scheduler ends."""

        async def running() -> None:
            await run()

        self._live.tasks.start(running(), name=name)


def _made(part: Any, what: str) -> Any:
    if part is None:
        raise RuntimeError(f"{what} is not there yet: ask when an attempt runs, not in __init__")
    return part
