"""Candidates for one lease on an API server: kubesched processes, and kube-scheduler."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.leader_election import LeaderCallbacks, LeaderElector, LeaseLock
from kubesched.client.rest import Client
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.real_cluster import RealCluster
from kubesched.cluster.launch.server import ADMIN, SCHEDULER
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks
from kubesched.metrics.process import ProcessMetrics
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.testing import Api, ApiServer, Programs

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
FAST: dict[str, Any] = {"lease_duration_s": 2.0, "renew_deadline_s": 1.5, "retry_period_s": 0.2}


class Candidate:
    """An elector with the rights of a scheduler."""

    def __init__(self, server: ApiServer, name: str) -> None:
        clock = SystemClock()
        access = load_access(kubeconfig=str(server.kubeconfigs[SCHEDULER.name]))
        self.client = Client(access, user_agent="test", clock=clock, log=NullLog())
        self.leads = asyncio.Event()
        self.stopped = asyncio.Event()
        self.elector = LeaderElector(
            self.client,
            lock=LeaseLock("kube-system", "kube-scheduler", name),
            callbacks=LeaderCallbacks(self._work, self._stop),
            clock=clock,
            rng=RandomStream(1, name),
            log=NullLog(),
            metrics=ProcessMetrics(SchedulerMetrics().measures, version="v1.36.4"),
            record_event=lambda _lease, _text: None,
            **FAST,
        )
        self._tasks = Tasks()
        self._run = self._tasks.start(self.elector.run(), name=name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        # Also if a test fails: an open connection keeps the server from stopping.
        await self.stop()

    async def _work(self) -> None:
        self.leads.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.leads.clear()

    async def _stop(self) -> None:
        self.stopped.set()

    async def stop(self) -> None:
        self.elector.stop()
        await self._run
        await self.client.close()


@pytest.fixture
def lease_api(api_server: ApiServer) -> Iterator[Api]:
    with without_lease(api_server) as api:
        yield api


@contextmanager
def without_lease(server: ApiServer) -> Iterator[Api]:
    with server.api(ADMIN) as api:
        api.delete(LEASE).must(200, 404)
        yield api
        api.delete(LEASE).must(200, 404)


def spec(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.get(LEASE).must(200).json["spec"]
    return found


def test_a_candidate_takes_over_when_the_leader_stops(
    api_server: ApiServer, lease_api: Api
) -> None:
    async def scenario() -> None:
        async with Candidate(api_server, "a") as a:
            await asyncio.wait_for(a.leads.wait(), 10)
            async with Candidate(api_server, "b") as b:
                await until(lambda: b.elector.leader == "a")
                held = await asyncio.to_thread(spec, lease_api)
                assert (held["holderIdentity"], held["leaseDurationSeconds"]) == ("a", 2)
                assert not b.leads.is_set()
                await a.stop()
                await asyncio.wait_for(b.leads.wait(), 10)
                held = await asyncio.to_thread(spec, lease_api)
                assert (held["holderIdentity"], held["leaseTransitions"]) == ("b", 1)
            held = await asyncio.to_thread(spec, lease_api)
            assert (held["holderIdentity"], held["leaseDurationSeconds"]) == ("", 1)

    asyncio.run(scenario())


def test_a_deleted_lease_is_recreated_by_its_leader(api_server: ApiServer, lease_api: Api) -> None:
    async def scenario() -> None:
        async with Candidate(api_server, "a") as a:
            await asyncio.wait_for(a.leads.wait(), 10)
            before = (await asyncio.to_thread(lease_api.get, LEASE)).json["metadata"]["uid"]
            await asyncio.to_thread(lease_api.delete, LEASE)
            await until(lambda: lease_api.get(LEASE).code == 200)
            recreated = (await asyncio.to_thread(lease_api.get, LEASE)).json
            assert recreated["metadata"]["uid"] != before
            assert recreated["spec"]["holderIdentity"] == "a"
            assert a.leads.is_set()

    asyncio.run(scenario())


@pytest.mark.programs
def test_kube_scheduler_and_kubesched_take_over_from_each_other(
    bare_cluster: RealCluster, tmp_path: Path
) -> None:
    program = Programs.built().path("kube-scheduler")
    kubeconfig = bare_cluster.kubeconfigs[SCHEDULER.name]
    flags = [
        f"--kubeconfig={kubeconfig}",
        "--secure-port=0",
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    ]

    async def scenario(api: Api, processes: ProcessGroup) -> None:
        kube_scheduler = processes.start("first", [program, *flags])
        await until(lambda: api.get(LEASE).code == 200)
        async with Candidate(bare_cluster, "ours") as candidate:
            await until(lambda: bool(candidate.elector.leader))
            assert not candidate.leads.is_set()
            # Killed: the lease is not released and has to expire.
            kube_scheduler.send_signal(signal.SIGKILL)
            kube_scheduler.wait()
            await asyncio.wait_for(candidate.leads.wait(), 20)
            assert spec(api)["leaseTransitions"] == 1
            second = processes.start("second", [program, *flags])
            await until(lambda: "Attempting to acquire leader lease" in processes.tail("second"))
            assert candidate.leads.is_set()
        await until(lambda: spec(api)["holderIdentity"] not in ("", "ours"))
        assert spec(api)["leaseTransitions"] == 2
        async with Candidate(bare_cluster, "ours") as candidate:
            # Terminated, it releases the lease, and we acquire it immediately.
            second.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(second.wait, 20) == 0
            await asyncio.wait_for(candidate.leads.wait(), 10)

    with without_lease(bare_cluster) as api, ProcessGroup(tmp_path) as processes:
        asyncio.run(scenario(api, processes))


async def until(predicate: Any, tries: int = 400) -> None:
    for _ in range(tries):
        if await asyncio.to_thread(predicate):
            return
        await SystemClock().sleep(0.05)
    raise AssertionError("it did not come about in time")
