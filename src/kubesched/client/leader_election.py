"""Leader election with a Lease.

Owns the record of the lease, and the loops that acquire, renew and release it. Never stops a
process: its owner acts on callbacks.
Upstream: staging/src/k8s.io/client-go/tools/leaderelection: leaderelection.go,
resourcelock/leaselock.go
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.api.times import micro_time_text
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import LEASES
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks

JITTER_FACTOR: Final = 1.2
# Seconds are floats here and whole nanoseconds upstream: less than one is zero.
_NANOSECOND_S: Final = 1e-9
_JITTER_STEPS: Final = 1 << 53
_METRICS_NAME: Final = "kube-scheduler"
_NO_ANSWER = (ApiError, TransportError)


class LeaderElectionError(ValueError):
    """The configuration of the election is invalid."""


@dataclass(frozen=True, slots=True)
class LeaseLock:
    """The lease and the identity of the candidate."""

    namespace: str
    name: str
    identity: str

    @property
    def description(self) -> str:
        """Return the lease as logged."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LeaderCallbacks:
    """Callbacks for the start and end of leadership."""

    on_started_leading: Callable[[], Coroutine[Any, Any, None]]
    """Runs while leading; canceled at the end of leadership."""
    on_stopped_leading: Callable[[], Awaitable[None]]
    """Awaited at the end, even without leadership."""


class LeaderElectionRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The record of a lease."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    leader_transitions: int = msgspec.field(default=0, name="leaseTransitions")

    def seen(self) -> tuple[object, ...]:
        """Return the record for detecting changes.

        Parity: resourcelock/leaselock.go Get, v1.36: the record as JSON, whose times have seconds.
        """
        return (
            self.holder_identity,
            self.lease_duration_seconds,
            self.leader_transitions,
            (self.acquire_time or "").partition(".")[0],
            (self.renew_time or "").partition(".")[0],
        )


def new_identity(hostname: str) -> str:
    """Return a unique identity, even for several processes on a host."""
    # Not from the seeded generator: processes with the same seed must differ.
    return f"{hostname}_{uuid.UUID(int=secrets.randbits(128), version=4)}"


class LeaderElector:
    """A candidate that acquires, renews and releases a lease."""

    def __init__(  # noqa: PLR0913  # As upstream's LeaderElectionConfig.
        self,
        client: Client,
        *,
        lock: LeaseLock,
        lease_duration_s: float,
        renew_deadline_s: float,
        retry_period_s: float,
        callbacks: LeaderCallbacks,
        clock: Clock,
        rng: RandomStream,
        log: Log,
        metrics: Any,
        record_event: Callable[[dict[str, Any], str], None],
    ) -> None:
        """Validate the timings, and set the metric to not leading.

        Args:
            client: The API client, with its own rate limit.
            lock: The lease and the identity.
            lease_duration_s: How long candidates wait for a silent leader.
            renew_deadline_s: How long a leader tries to renew before it stops leading.
            retry_period_s: The pause between attempts.
            callbacks: Called at the start and end of leadership.
            clock: The clock; leases expire by its monotonic time.
            rng: The jitter of attempts.
            log: The log.
            metrics: The metrics, by upstream's names.
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
        self._master_status = metrics.leader_election_master_status.labels(_METRICS_NAME)
        self._slow_path_total = metrics.leader_election_slowpath_total
        self._record_event = record_event
        self._lease = _Lease(client, lock, timeout_s=max(1.0, renew_deadline_s / 2))
        self._observed = LeaderElectionRecord()
        self._observed_at_s = 0.0
        self._seen: tuple[object, ...] | None = None
        self._logged_holder = ""
        self._tasks = Tasks()
        self._loop: asyncio.Task[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._master_status.set(0)

    @property
    def is_leader(self) -> bool:
        """Return whether this candidate held the lease when it was last read."""
        return self._observed.holder_identity == self.lock.identity

    @property
    def leader(self) -> str:
        """Return the last known holder; empty for none."""
        return self._observed.holder_identity

    async def run(self) -> None:
        """Acquire and hold the lease until it is lost, `stop` is called, or the task is canceled.

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
        """Release the lease and let `run` return."""
        self._is_stopping = True
        if self._loop is not None:
            self._loop.cancel()

    async def _acquire_and_renew(self) -> None:
        await self._acquire()
        self._work = self._tasks.start(
            self._callbacks.on_started_leading(), name="leader-election-work"
        )
        # Only a failure cancels this loop: finished work leaves this candidate leading.
        self._work.add_done_callback(self._work_ended)
        await self._renew()

    def _work_ended(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled() and work.exception() is not None:
            self.stop()

    async def _acquire(self) -> None:
        """Try until the lease is acquired.

        Parity: leaderelection.go acquire, v1.36.
        """
        lock = self.lock.description
        self._log.info("Attempting to acquire leader lease...", lock=lock)
        while not await self._try_acquire_or_renew():
            self._log.info("Failed to acquire lease", level=4, lock=lock)
            jitter = self._rng.below(_JITTER_STEPS) / _JITTER_STEPS * JITTER_FACTOR
            await self._clock.sleep(self._retry_period_s * (1 + jitter))
        self._record("became leader")
        self._master_status.set(1)
        self._log.info("Successfully acquired lease", lock=lock)

    async def _renew(self) -> None:
        """Renew until renewal fails for the whole deadline.

        Parity: leaderelection.go renew, v1.36.
        """
        lock = self.lock.description
        while await self._by_deadline(self._renew_by_ticks(), name="leader-election-renewal"):
            self._log.info("Successfully renewed lease", level=5, lock=lock)
            await self._clock.sleep(self._retry_period_s)
        self._master_status.set(0)
        self._log.info("Failed to renew lease", lock=lock, err="context deadline exceeded")

    async def _by_deadline(self, work: Coroutine[Any, Any, None], *, name: str) -> bool:
        """Return whether work ended before the renewal deadline, which cancels it."""
        task = self._tasks.start(work, name=name)
        deadline = self._tasks.start(
            self._clock.sleep(self._renew_deadline_s), name="leader-election-deadline"
        )
        try:
            await asyncio.wait({task, deadline}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            return task.done()
        finally:
            await _ended(task)
            await _ended(deadline)

    async def _renew_by_ticks(self) -> None:
        """Try at once and at every tick; ticks during an attempt count once.

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
        """Acquire or renew the lease; return whether that succeeded.

        Parity: leaderelection.go tryAcquireOrRenew, v1.36.
        """
        now = micro_time_text(self._clock.now_s())
        now_s = self._clock.monotonic_s()
        ours = LeaderElectionRecord(
            self.lock.identity, int(self._lease_duration_s), acquire_time=now, renew_time=now
        )
        if self.is_leader and self._is_valid(now_s) and await self._renew_optimistically(ours):
            return True
        lock = self.lock.description
        try:
            current = await self._lease.get()
        except NotFoundError:
            failure = "Error initially creating lease lock"
            return await self._write(self._lease.create, ours, failure)
        except _NO_ANSWER as error:
            self._log.error("Error retrieving lease lock", err=error, lock=lock)
            return False
        if current.seen() != self._seen:
            self._observe(current)
            self._seen = current.seen()
        if current.holder_identity and self._is_valid(now_s) and not self.is_leader:
            holder = current.holder_identity
            # Once at level 0: it explains why nothing is scheduled here.
            level = 0 if holder != self._logged_holder else 4
            self._logged_holder = holder
            message = "Lease is held by and has not yet expired"
            self._log.info(message, level=level, lock=lock, holder=holder)
            return False
        if self.is_leader:
            ours = _continued(ours, current)
            self._slow_path_total.labels(_METRICS_NAME).inc()
        else:
            ours = replace(ours, leader_transitions=current.leader_transitions + 1)
        return await self._write(self._lease.update, ours, "Failed to update lease")

    async def _renew_optimistically(self, ours: LeaderElectionRecord) -> bool:
        """Renew with the last known version; return False if the lease has changed since."""
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

    async def _write(
        self,
        send: Callable[[LeaderElectionRecord], Awaitable[None]],
        record: LeaderElectionRecord,
        failure: str,
    ) -> bool:
        """Create or update the lease; return whether that succeeded."""
        try:
            await send(record)
        except _NO_ANSWER as error:
            self._log.error(failure, err=error, lock=self.lock.description)
            return False
        self._observe(record)
        return True

    async def _step_down(self) -> None:
        """Stop the work, then release the lease.

        Differs: upstream tries to release before it ends the work of a leader that lost the lease,
        and so lets two schedulers work for a while.
        """
        if self._work is None:
            return
        await self._end_work(self._work)
        self._master_status.set(0)
        await self._by_deadline(self._release(), name="leader-election-release")
        self._record("stopped leading")

    async def _end_work(self, work: asyncio.Task[None]) -> None:
        """Cancel the work and wait for it; a candidate that was stopped renews until then.

        Differs: upstream does not wait. Here outstanding bindings are finished, and another
        scheduler must not begin before.
        """
        work.cancel()
        while not work.done():
            tick = self._tasks.start(
                self._clock.sleep(self._retry_period_s), name="leader-election-tick"
            )
            await asyncio.wait({work, tick}, return_when=asyncio.FIRST_COMPLETED)
            await _ended(tick)
            if not work.done() and self._is_stopping and self.is_leader:
                await self._try_acquire_or_renew()

    async def _release(self) -> None:
        """Release the lease if this candidate holds it.

        Parity: leaderelection.go release, v1.36.
        """
        lock = self.lock.description
        try:
            current = await self._lease.get()
        except NotFoundError:
            self._log.info("lease lock not found", lock=lock)
            return
        except _NO_ANSWER as error:
            self._log.error("error retrieving resource lock", err=error, lock=lock)
            return
        # Differs: upstream uses the last known record, which may release a new leader's lease.
        if not self.is_leader or current.holder_identity != self.lock.identity:
            return
        now = micro_time_text(self._clock.now_s())
        empty = LeaderElectionRecord("", 1, now, now, current.leader_transitions)
        await self._write(self._lease.update, empty, "Failed to release lease")

    def _observe(self, record: LeaderElectionRecord) -> None:
        self._observed = record
        self._observed_at_s = self._clock.monotonic_s()

    def _is_valid(self, now_s: float) -> bool:
        """Return whether the lease has not expired, by the local clock since it was read."""
        return self._observed_at_s + self._observed.lease_duration_seconds > now_s

    def _record(self, change: str) -> None:
        self._record_event(self._lease.document, f"{self.lock.identity} {change}")


class _Lease:
    """The last known lease object.

    Parity: resourcelock/leaselock.go, v1.36.
    """

    def __init__(self, client: Client, lock: LeaseLock, *, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._parent_path = LEASES.path(lock.namespace)
        self._path = LEASES.path(lock.namespace, lock.name)
        self._head = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": lock.namespace, "name": lock.name},
        }
        self.document: dict[str, Any] = self._head

    async def get(self) -> LeaderElectionRecord:
        await self._send("GET", self._path)
        spec = self.document.get("spec") or {}
        fields = {name: value for name, value in spec.items() if value is not None}
        return msgspec.convert(fields, LeaderElectionRecord)

    async def create(self, record: LeaderElectionRecord) -> None:
        await self._send("POST", self._parent_path, {**self._head, "spec": record})

    async def update(self, record: LeaderElectionRecord) -> None:
        await self._send("PUT", self._path, {**self.document, "spec": record})

    async def _send(self, method: str, path: str, document: Any = None) -> None:
        data = await self._client.request(method, path, body=document, timeout_s=self._timeout_s)
        try:
            self.document = msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            text = f"the response to {method} {path} is not an object: {error}"
            raise TransportError(text) from error


def _check(
    lease_duration_s: float, renew_deadline_s: float, retry_period_s: float, identity: str
) -> None:
    """Raise LeaderElectionError for invalid timings.

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
    """Return the record of a renewal, which continues the term."""
    return replace(
        ours, acquire_time=before.acquire_time, leader_transitions=before.leader_transitions
    )


async def _ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for it, ignoring its result."""
    task.cancel()
    await asyncio.wait({task})
