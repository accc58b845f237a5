"""Leader election: acquiring, renewing, releasing and losing a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.client.election_world import Candidate, HandClock, LeaseServer, settle


def world(play: Callable[[HandClock, LeaseServer], Awaitable[None]]) -> None:
    async def run() -> None:
        await play(HandClock(), LeaseServer())

    asyncio.run(run())


def written(server: LeaseServer) -> dict[str, Any]:
    return server.spec


def test_a_missing_lease_is_created_with_upstreams_fields() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(0)
        # Renewal begins at once.
        assert server.requests == [("a", "GET"), ("a", "POST"), ("a", "PUT")]
        assert written(server) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2027-01-15T08:00:00.250000Z",
            "renewTime": "2027-01-15T08:00:00.250000Z",
            "leaseTransitions": 0,
        }
        assert server.lease is not None
        assert server.lease["metadata"]["name"] == "kube-scheduler"
        assert a.elector.is_leader
        assert a.callbacks() == ["event a became leader", "work begins"]
        assert a.metrics.values["status"] == 1
        assert a.log.messages() == [
            "Attempting to acquire leader lease...",
            "Successfully acquired lease",
        ]
        assert a.log.lines[0][2] == {"lock": "kube-system/kube-scheduler"}
        await a.cancel()

    world(play)


def test_a_leader_renews_with_one_put_every_two_seconds() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(0)
        server.requests.clear()
        await clock.advance(6)
        assert server.requests == [("a", "PUT")] * 3
        assert written(server)["acquireTime"] == "2027-01-15T08:00:00.250000Z"
        assert written(server)["renewTime"] == "2027-01-15T08:00:06.250000Z"
        assert written(server)["leaseTransitions"] == 0
        assert "slow" not in a.metrics.values
        # Half the renewal deadline, so that one hanging request does not cost the lease.
        assert set(a.connection.timeouts_s) == {5.0}
        await a.cancel()

    world(play)


def test_another_candidate_takes_over_after_the_lease_expires() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        b = Candidate(clock, server, "b")
        a.start()
        await clock.advance(1)
        b.start()
        await clock.advance(9)
        assert b.elector.leader == "a"
        last_s = clock.monotonic_s()
        a.connection.is_cut = True
        await a.cancel()
        await clock.advance(14)
        assert not b.elector.is_leader
        await clock.advance(12)
        assert b.elector.is_leader
        assert b.callbacks() == ["event b became leader", "work begins"]
        # The last renewal was at 10 s. It was read at most one jittered attempt later, when
        # the lease began for b; b reads it again at most one attempt after its end.
        assert last_s + 15 <= b.when("work begins") <= last_s + 4.4 + 15 + 4.4
        assert written(server)["holderIdentity"] == "b"
        assert written(server)["leaseTransitions"] == 1
        # b begins a new term.
        assert "08:00:25" <= written(server)["acquireTime"][11:19] <= "08:00:34"
        await b.cancel()

    world(play)


def test_an_old_lease_expires_by_the_local_clock() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        spec = {
            "holderIdentity": "gone",
            "leaseDurationSeconds": 15,
            "acquireTime": "2001-01-01T00:00:00.000000Z",
            "renewTime": "2001-01-01T00:00:00.000000Z",
            "leaseTransitions": 7,
        }
        server.store({"metadata": {"name": "kube-scheduler"}, "spec": spec})
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(14.9)
        assert not a.elector.is_leader
        await clock.advance(5)
        assert a.elector.is_leader
        assert written(server)["leaseTransitions"] == 8
        await a.cancel()

    world(play)


@pytest.mark.parametrize("holder", ["", None], ids=["empty", "not set"])
def test_a_lease_without_holder_is_acquired_at_once(holder: str | None) -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 1, "leaseTransitions": 3}
        server.store({"metadata": {"name": "kube-scheduler"}, "spec": spec})
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(0)
        assert a.elector.is_leader
        assert written(server)["leaseTransitions"] == 4
        await a.cancel()

    world(play)


def test_failed_renewals_end_the_work_at_the_renewal_deadline() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(4.5)
        a.connection.is_cut = True
        # All attempts from 6 s on fail for ten seconds.
        await clock.advance(11.4)
        assert not a.is_over
        await clock.advance(0.2)
        assert a.is_over
        await a.end()
        assert a.when("work ends") == 16.0
        assert a.callbacks("work", "event", "stopped") == [
            "event a became leader",
            "work begins",
            "work ends",
            "event a stopped leading",
            "stopped",
        ]
        assert a.metrics.values["status"] == 0
        assert "Failed to renew lease" in a.log.messages()
        assert (0, "Failed to renew lease") in [(level, text) for level, text, _ in a.log.lines]

    world(play)


def test_a_hanging_renewal_is_cancelled_at_the_deadline() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(1)
        a.connection.hangs = True
        await clock.advance(2 + 10)
        assert a.when("work ends") == 12.0
        # The release hangs for as long.
        assert not a.is_over
        await clock.advance(10)
        await a.end()

    world(play)


def test_a_short_outage_does_not_end_leadership() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(3)
        a.connection.is_cut = True
        await clock.advance(8)
        a.connection.is_cut = False
        await clock.advance(2)
        assert a.elector.is_leader
        assert a.callbacks("work") == ["work begins"]
        await a.cancel()

    world(play)


def test_stop_releases_the_lease_for_the_next_attempt_of_another_candidate() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a, b = Candidate(clock, server, "a"), Candidate(clock, server, "b")
        a.start()
        await clock.advance(1)
        b.start()
        await clock.advance(5.5)
        a.elector.stop()
        await a.end()
        assert written(server) == {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": "2027-01-15T08:00:06.750000Z",
            "renewTime": "2027-01-15T08:00:06.750000Z",
            "leaseTransitions": 0,
        }
        assert a.callbacks("work", "event", "stopped")[2:] == [
            "work ends",
            "event a stopped leading",
            "stopped",
        ]
        assert not a.elector.is_leader
        await clock.advance(4.4)
        assert b.elector.is_leader
        assert written(server)["leaseTransitions"] == 1
        await b.cancel()

    world(play)


def test_the_lease_is_renewed_until_the_work_has_ended() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        async def bind_what_is_outstanding() -> None:
            try:
                await clock.sleep(1000)
            finally:
                await clock.sleep(20)

        a = Candidate(clock, server, "a", work=bind_what_is_outstanding)
        b = Candidate(clock, server, "b")
        a.start()
        await clock.advance(1)
        b.start()
        await clock.advance(3)
        a.elector.stop()
        await clock.advance(19.5)
        assert a.elector.is_leader
        assert not b.elector.is_leader
        await clock.advance(1)
        await a.end()
        assert written(server)["holderIdentity"] == ""
        await clock.advance(4.4)
        assert b.elector.is_leader
        await b.cancel()

    world(play)


def test_cancellation_releases_the_lease() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(1)
        await a.cancel()
        assert written(server)["holderIdentity"] == ""
        assert a.callbacks("stopped") == ["stopped"]

    world(play)


def test_a_candidate_that_never_led_does_not_write_the_lease() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a, b = Candidate(clock, server, "a"), Candidate(clock, server, "b")
        a.start()
        await clock.advance(1)
        b.start()
        await clock.advance(3)
        before = [request for request in server.requests if request[0] == "b"]
        b.elector.stop()
        await b.end()
        assert [request for request in server.requests if request[0] == "b"] == before
        assert b.callbacks() == ["stopped"]
        await a.cancel()

    world(play)


def test_stop_before_run_makes_run_return_at_once() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        a.elector.stop()
        a.start()
        await a.end()
        assert server.requests == []
        assert a.callbacks() == ["stopped"]

    world(play)


def test_a_failure_of_the_work_releases_the_lease_and_is_raised() -> None:
    async def fail() -> None:
        raise RuntimeError("the loop broke")

    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a", work=fail)
        a.start()
        await clock.advance(0)
        with pytest.raises(RuntimeError, match="the loop broke"):
            await a.end()
        assert written(server)["holderIdentity"] == ""

    world(play)


def test_a_lease_of_another_holder_is_not_released() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(1)
        server.store({**(server.lease or {}), "spec": {**server.spec, "holderIdentity": "b"}})
        a.elector.stop()
        await a.end()
        assert written(server)["holderIdentity"] == "b"

    world(play)


def test_two_candidates_without_a_lease_elect_one_leader() -> None:
    async def play(clock: HandClock, server: LeaseServer) -> None:
        a, b = Candidate(clock, server, "a"), Candidate(clock, server, "b")
        a.start()
        b.start()
        await clock.advance(10)
        assert [candidate.elector.is_leader for candidate in (a, b)] == [True, False]
        assert "Error initially creating lease lock" in b.log.messages(-1)
        await a.cancel()
        await settle()
        await b.cancel()

    world(play)
