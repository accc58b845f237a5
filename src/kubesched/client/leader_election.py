"""One scheduler of several leads: who holds the Lease.

Owns the lease's record, the loops that acquire and renew it, and its release. Never stops a
process: it says when leading began and ended, and its owner acts.
Upstream: staging/src/k8s.io/client-go/tools/leaderelection: leaderelection.go,
resourcelock/leaselock.go
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import LEASES
from kubesched.kit.clock import Clock
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

JITTER_FACTOR: Final = 1.2
# Seconds are floats here and whole nanoseconds upstream: what is less than one is none.
_NANOSECOND_S: Final = 1e-9
_JITTER_STEPS: Final = 1 << 53
_NO_ANSWER = (ApiError, TransportError)


class LeaderElectionError(ValueError):
    """The election is set up in a way that cannot work."""


class Requests(Protocol):
    """What an election needs of the API client."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        timeout_s: float | None = None,
    ) -> bytes: ...


class Log(Protocol):
    """Structured lines."""

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None: ...
    def error(self, message: str, /, err: Any = None, **fields: object) -> None: ...


class _Family(Protocol):
    def labels(self, *values: str) -> Any: ...


class ElectionMetrics(Protocol):
    """The metrics of an election, among others."""

    @property
    def leader_election_master_status(self) -> _Family: ...
    @property
    def leader_election_slowpath_total(self) -> _Family: ...


@dataclass(frozen=True, slots=True)
class LeaseLock:
    """Which lease, and who we are."""

    namespace: str
    name: str
    identity: str

    @property
    def description(self) -> str:
        """Return the lease as log lines name it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LeaderCallbacks:
    """What the owner does as leading begins and ends."""

    on_started_leading: Callable[[], Coroutine[Any, Any, None]]
    """The work of a leader; cancelled when leading ends."""
    on_stopped_leading: Callable[[], Awaitable[None]]
    """Awaited at the very end, also if leading never began."""
    on_new_leader: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class LeaderElectionRecord:
    """What a lease says."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    leader_transitions: int = 0

    def seen(self) -> tuple[object, ...]:
        """Return what is compared to find out whether somebody wrote the lease.

        Parity: resourcelock/leaselock.go Get, v1.36: the record as JSON, whose times have seconds.
        """
        times = [(one or "").partition(".")[0] for one in (self.acquire_time, self.renew_time)]
        return (
            self.holder_identity,
            self.lease_duration_seconds,
            self.leader_transitions,
            *times,
        )


def new_identity(hostname: str) -> str:
    """Return a name that no other candidate has, also not a second process on the same host."""
    # Not from the seeded generator: two processes of one seed must differ.
    return f"{hostname}_{uuid.UUID(int=secrets.randbits(128), version=4)}"


def check_lock_type(lock_type: str) -> None:
    """Raise LeaderElectionError unless the lock is a lease.

    Parity: resourcelock/interface.go new, v1.36.
    """
    removed = {
        "endpoints": "endpoints lock is removed, migrate to leases",
        "configmaps": "configmaps lock is removed, migrate to leases",
        "endpointsleases": "endpointsleases lock is removed, migrate to leases",
        "configmapsleases": "configmapsleases lock is removed, migrated to leases",
    }
    if lock_type != "leases":
        raise LeaderElectionError(removed.get(lock_type, f"Invalid lock-type {lock_type}"))


class LeaderElector:
    """A candidate for a lease: waits for it, holds it, gives it up."""

    def __init__(  # noqa: PLR0913  # As upstream's LeaderElectionConfig.
        self,
        client: Requests,
        *,
        lock: LeaseLock,
        lease_duration_s: float,
        renew_deadline_s: float,
        retry_period_s: float,
        callbacks: LeaderCallbacks,
        clock: Clock,
        rng: Generator,
        log: Log,
        metrics: ElectionMetrics | None = None,
        release_on_cancel: bool = True,
        name: str = "kube-scheduler",
        record_event: Callable[[dict[str, Any], str], None] | None = None,
    ) -> None:
        """Check the timings and say that we do not lead yet.

        Args:
            client: Sends the requests; a bucket of its own keeps it from waiting for others.
            lock: The lease, and our name.
            lease_duration_s: How long others wait for a leader who says nothing.
            renew_deadline_s: How long a leader tries to renew before it gives up.
            retry_period_s: The pause between tries.
            callbacks: What to do as leading begins and ends.
            clock: Time; leases are judged by the monotonic one.
            rng: Spreads the tries of candidates.
            log: Where it is said.
            metrics: Where it is counted.
            release_on_cancel: Whether the lease is emptied when we stop.
            name: The label of the metrics.
            record_event: Called with the lease and `<identity> became leader` and the like.
        """
        _check(lease_duration_s, renew_deadline_s, retry_period_s, lock.identity)
        self.lock = lock
        self._lease_duration_s = lease_duration_s
        self._renew_deadline_s = renew_deadline_s
        self._retry_period_s = retry_period_s
        self._callbacks = callbacks
        self._clock = clock
        self._rng = rng
        self._log = log
        self._metrics = metrics
        self._release_on_cancel = release_on_cancel
        self._name = name
        self._record_event = record_event
        self._lease = _Lease(client, lock, timeout_s=max(1.0, renew_deadline_s / 2))
        self._observed = LeaderElectionRecord()
        self._observed_at_s = 0.0
        self._seen: tuple[object, ...] | None = None
        self._reported_leader = ""
        self._announced_holder = ""
        self._tasks = Tasks()
        self._loop: asyncio.Task[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._set_master_status(0)

    @property
    def is_leader(self) -> bool:
        """Return whether the lease was ours when it was last seen."""
        return self._observed.holder_identity == self.lock.identity

    @property
    def leader(self) -> str:
        """Return who held the lease when it was last seen; nobody if empty."""
        return self._observed.holder_identity

    async def run(self) -> None:
        """Wait for the lease and hold it, until it is lost, or stop is called, or we are cancelled.

        Raises what the work of the leader raised: a leader that does nothing must not hold a lease.
        """
        self._loop = self._tasks.start(self._acquire_and_renew(), name="leader-election")
        if self._is_stopping:
            self._loop.cancel()
        try:
            await asyncio.wait({self._loop})
        finally:
            await _ended(self._loop)
            await self._step_down()
            await self._callbacks.on_stopped_leading()
        for task in (self._work, self._loop):
            if task and not task.cancelled() and (error := task.exception()):
                raise error

    def stop(self) -> None:
        """Give the lease up and have run return."""
        self._is_stopping = True
        if self._loop is not None:
            self._loop.cancel()

    async def _acquire_and_renew(self) -> None:
        await self._acquire()
        self._work = self._tasks.start(
            self._callbacks.on_started_leading(), name="leader-election-work"
        )
        # It cancels this loop only if it failed: work that is done leaves us leading.
        self._work.add_done_callback(self._work_ended)
        await self._renew()

    def _work_ended(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled() and work.exception() is not None:
            self.stop()

    async def _acquire(self) -> None:
        """Try until the lease is ours.

        Parity: leaderelection.go acquire, v1.36.
        """
        lock = self.lock.description
        self._log.info("Attempting to acquire leader lease...", lock=lock)
        while True:
            is_ours = await self._try_acquire_or_renew()
            self._maybe_report_transition()
            if is_ours:
                break
            self._log.info("Failed to acquire lease", level=4, lock=lock)
            jitter = self._rng.below(_JITTER_STEPS) / _JITTER_STEPS * JITTER_FACTOR
            await self._clock.sleep(self._retry_period_s * (1 + jitter))
        self._record("became leader")
        self._set_master_status(1)
        self._log.info("Successfully acquired lease", lock=lock)

    async def _renew(self) -> None:
        """Renew until it does not work for a whole deadline.

        Parity: leaderelection.go renew, v1.36.
        """
        lock = self.lock.description
        while True:
            is_ours = await self._renew_in_time()
            self._maybe_report_transition()
            if not is_ours:
                break
            self._log.info("Successfully renewed lease", level=5, lock=lock)
            await self._clock.sleep(self._retry_period_s)
        self._set_master_status(0)
        self._log.info("Failed to renew lease", lock=lock, err="context deadline exceeded")

    async def _renew_in_time(self) -> bool:
        """Return whether a try succeeded before the deadline; one under way then is cut off."""
        tries = self._tasks.start(self._renew_by_ticks(), name="leader-election-renewal")
        deadline = self._tasks.start(
            self._clock.sleep(self._renew_deadline_s), name="leader-election-deadline"
        )
        try:
            await asyncio.wait({tries, deadline}, return_when=asyncio.FIRST_COMPLETED)
            if tries.done():
                tries.result()
            return tries.done()
        finally:
            await _ended(tries)
            await _ended(deadline)

    async def _renew_by_ticks(self) -> None:
        """Try at once and with every tick; a tick that passed during a try counts once.

        Parity: apimachinery/pkg/util/wait/loop.go loopConditionUntilContext, v1.36.
        """
        start_s = self._clock.monotonic_s()
        tick = 0
        while not await self._try_acquire_or_renew():
            passed = int((self._clock.monotonic_s() - start_s) / self._retry_period_s)
            if passed > tick:
                tick = passed
                continue
            tick += 1
            due_s = start_s + tick * self._retry_period_s
            await self._clock.sleep(due_s - self._clock.monotonic_s())

    async def _try_acquire_or_renew(self) -> bool:
        """Return whether the lease is ours now.

        Parity: leaderelection.go tryAcquireOrRenew, v1.36.
        """
        now = _micro_time(self._clock.now_s())
        now_s = self._clock.monotonic_s()
        ours = LeaderElectionRecord(
            self.lock.identity, int(self._lease_duration_s), acquire_time=now, renew_time=now
        )
        if self.is_leader and self._is_valid(now_s) and await self._renew_optimistically(ours):
            return True
        lock = self.lock.description
        try:
            found = await self._lease.get()
        except NotFoundError:
            return await self._create(ours)
        except _NO_ANSWER as error:
            self._log.error("Error retrieving lease lock", err=error, lock=lock)
            return False
        if found.seen() != self._seen:
            self._observe(found)
            self._seen = found.seen()
        if found.holder_identity and self._is_valid(now_s) and not self.is_leader:
            self._say_held(found.holder_identity)
            return False
        if self.is_leader:
            ours = _continued(ours, found)
            self._count_slow_path()
        else:
            ours = replace(ours, leader_transitions=found.leader_transitions + 1)
        return await self._write(ours)

    async def _renew_optimistically(self, ours: LeaderElectionRecord) -> bool:
        """Renew on the version seen last, and return whether nobody had written since."""
        ours = _continued(ours, self._observed)
        try:
            await self._lease.update(ours)
        except _NO_ANSWER as error:
            self._log.info(
                "Failed to update lease optimistically, falling back to slow path",
                level=2,
                lock=self.lock.description,
                err=error,
            )
            return False
        self._observe(ours)
        return True

    async def _create(self, ours: LeaderElectionRecord) -> bool:
        try:
            await self._lease.create(ours)
        except _NO_ANSWER as error:
            lock = self.lock.description
            self._log.error("Error initially creating lease lock", err=error, lock=lock)
            return False
        self._observe(ours)
        return True

    async def _write(self, ours: LeaderElectionRecord) -> bool:
        try:
            await self._lease.update(ours)
        except _NO_ANSWER as error:
            self._log.error("Failed to update lease", err=error, lock=self.lock.description)
            return False
        self._observe(ours)
        return True

    async def _step_down(self) -> None:
        """End the work, then give the lease up.

        Differs: upstream tries to release before it ends the work of a leader who lost the lease,
        and so lets two schedulers work for a while.
        """
        if self._work is None:
            return
        await _ended(self._work)
        self._set_master_status(0)
        if self._release_on_cancel:
            await self._release()
        self._record("stopped leading")

    async def _release(self) -> None:
        """Empty the lease if it is ours, within the renewal deadline.

        Parity: leaderelection.go release, v1.36.
        """
        release = self._tasks.start(self._try_release(), name="leader-election-release")
        deadline = self._tasks.start(
            self._clock.sleep(self._renew_deadline_s), name="leader-election-deadline"
        )
        await asyncio.wait({release, deadline}, return_when=asyncio.FIRST_COMPLETED)
        await _ended(release)
        await _ended(deadline)

    async def _try_release(self) -> None:
        lock = self.lock.description
        try:
            found = await self._lease.get()
        except NotFoundError:
            self._log.info("lease lock not found", lock=lock)
            return
        except _NO_ANSWER as error:
            self._log.error("error retrieving resource lock", err=error, lock=lock)
            return
        # Differs: upstream looks only at what it saw before, and so may empty the lease of a
        # leader that took over meanwhile.
        if not self.is_leader or found.holder_identity != self.lock.identity:
            return
        now = _micro_time(self._clock.now_s())
        empty = LeaderElectionRecord("", 1, now, now, found.leader_transitions)
        try:
            await self._lease.update(empty)
        except _NO_ANSWER as error:
            self._log.error("Failed to release lease", err=error, lock=lock)
            return
        self._observe(empty)

    def _observe(self, record: LeaderElectionRecord) -> None:
        self._observed = record
        self._observed_at_s = self._clock.monotonic_s()

    def _is_valid(self, now_s: float) -> bool:
        """Return whether the lease is younger, by our clock since we saw it, than it may be old."""
        return self._observed_at_s + self._observed.lease_duration_seconds > now_s

    def _say_held(self, holder: str) -> None:
        """Say who holds the lease; to everybody once, as it is why nothing is scheduled here."""
        level = 0 if holder != self._announced_holder else 4
        self._announced_holder = holder
        self._log.info(
            "Lease is held by and has not yet expired",
            level=level,
            lock=self.lock.description,
            holder=holder,
        )

    def _maybe_report_transition(self) -> None:
        if self.leader == self._reported_leader:
            return
        self._reported_leader = self.leader
        if self._callbacks.on_new_leader is not None:
            self._callbacks.on_new_leader(self._reported_leader)

    def _record(self, what: str) -> None:
        if self._record_event is not None:
            self._record_event(self._lease.document, f"{self.lock.identity} {what}")

    def _set_master_status(self, value: int) -> None:
        if self._metrics is not None:
            self._metrics.leader_election_master_status.labels(self._name).set(value)

    def _count_slow_path(self) -> None:
        if self._metrics is not None:
            self._metrics.leader_election_slowpath_total.labels(self._name).inc()


class _Lease:
    """The object on the API server, as it was seen last.

    Parity: resourcelock/leaselock.go, v1.36.
    """

    def __init__(self, client: Requests, lock: LeaseLock, *, timeout_s: float) -> None:
        self._client = client
        self._lock = lock
        self._timeout_s = timeout_s
        self._path = LEASES.path(lock.namespace, lock.name)
        self.document: dict[str, Any] = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": lock.namespace, "name": lock.name},
        }

    async def get(self) -> LeaderElectionRecord:
        await self._send("GET", self._path)
        spec = self.document.get("spec") or {}
        return LeaderElectionRecord(
            spec.get("holderIdentity") or "",
            spec.get("leaseDurationSeconds") or 0,
            spec.get("acquireTime"),
            spec.get("renewTime"),
            spec.get("leaseTransitions") or 0,
        )

    async def create(self, record: LeaderElectionRecord) -> None:
        document = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": self._lock.namespace, "name": self._lock.name},
            "spec": _spec(record),
        }
        await self._send("POST", LEASES.path(self._lock.namespace), document)

    async def update(self, record: LeaderElectionRecord) -> None:
        await self._send("PUT", self._path, {**self.document, "spec": _spec(record)})

    async def _send(self, method: str, path: str, document: Any = None) -> None:
        body = None if document is None else msgspec.json.encode(document)
        answer = await self._client.request(method, path, body=body, timeout_s=self._timeout_s)
        try:
            self.document = msgspec.json.decode(answer, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise TransportError(f"the answer to {method} {path} is no object: {error}") from error


def _check(
    lease_duration_s: float, renew_deadline_s: float, retry_period_s: float, identity: str
) -> None:
    """Raise LeaderElectionError for timings that cannot work.

    Parity: leaderelection.go NewLeaderElector, v1.36.
    """
    rules = [
        (lease_duration_s > renew_deadline_s, "leaseDuration must be greater than renewDeadline"),
        (
            renew_deadline_s > JITTER_FACTOR * retry_period_s,
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (lease_duration_s >= _NANOSECOND_S, "leaseDuration must be greater than zero"),
        (renew_deadline_s >= _NANOSECOND_S, "renewDeadline must be greater than zero"),
        (retry_period_s >= _NANOSECOND_S, "retryPeriod must be greater than zero"),
        (bool(identity), "Lock identity is empty"),
    ]
    for holds, text in rules:
        if not holds:
            raise LeaderElectionError(text)


def _continued(ours: LeaderElectionRecord, before: LeaderElectionRecord) -> LeaderElectionRecord:
    """Return our record as a renewal: the term of before goes on."""
    return replace(
        ours,
        acquire_time=before.acquire_time,
        leader_transitions=before.leader_transitions,
    )


def _spec(record: LeaderElectionRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": record.lease_duration_seconds,
        "acquireTime": record.acquire_time,
        "renewTime": record.renew_time,
        "leaseTransitions": record.leader_transitions,
    }


def _micro_time(now_s: float) -> str:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _ended(task: asyncio.Task[Any]) -> None:
    """End a task and wait for it, whatever came of it."""
    task.cancel()
    await asyncio.wait({task})
