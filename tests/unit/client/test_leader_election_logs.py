"""Leader election: logs, metrics, validation and identity."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import Any

import pytest

from kubesched.client.leader_election import (
    LeaderCallbacks,
    LeaderElectionError,
    LeaderElector,
    LeaseLock,
    new_identity,
)
from kubesched.kit.rng import RandomStream
from tests.unit.client.election_world import (
    Candidate,
    Connection,
    Counters,
    HandClock,
    LeaseServer,
    Lines,
)


def elector(**settings: Any) -> LeaderElector:
    async def nothing() -> None:
        pass

    arguments: dict[str, Any] = {
        "lock": LeaseLock("kube-system", "kube-scheduler", settings.pop("identity", "a")),
        "lease_duration_s": 15,
        "renew_deadline_s": 10,
        "retry_period_s": 2,
        "callbacks": LeaderCallbacks(nothing, nothing),
        "clock": HandClock(),
        "rng": RandomStream(1, "x"),
        "log": Lines(),
        "metrics": Counters(),
        "record_event": lambda _lease, _text: None,
        **settings,
    }
    return LeaderElector(Connection(LeaseServer(), "a"), **arguments)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param(
            {"lease_duration_s": 10},
            "leaseDuration must be greater than renewDeadline",
            id="lease not longer than deadline",
        ),
        pytest.param(
            {"renew_deadline_s": 2.4},
            "renewDeadline must be greater than retryPeriod*JitterFactor",
            id="deadline shorter than one attempt",
        ),
        pytest.param(
            {"lease_duration_s": 0, "renew_deadline_s": -1, "retry_period_s": -2},
            "leaseDuration must be greater than zero",
            id="no lease",
        ),
        pytest.param(
            {"renew_deadline_s": 0, "retry_period_s": -2},
            "renewDeadline must be greater than zero",
            id="no deadline",
        ),
        pytest.param(
            {"retry_period_s": 0}, "retryPeriod must be greater than zero", id="no retry period"
        ),
        pytest.param({"identity": ""}, "Lock identity is empty", id="no identity"),
    ],
)
def test_invalid_timings_are_rejected_with_upstreams_texts(
    settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(LeaderElectionError) as raised:
        elector(**settings)
    assert str(raised.value) == text


def test_an_identity_is_the_host_and_a_random_uuid() -> None:
    first, second = new_identity("host-1"), new_identity("host-1")
    form = r"host-1_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(form, first)
    assert first != second


def test_the_holder_of_the_lease_is_logged_once_at_level_0() -> None:
    async def play() -> None:
        clock, server = HandClock(), LeaseServer()
        a, b = Candidate(clock, server, "a"), Candidate(clock, server, "b")
        a.start()
        await clock.advance(1)
        b.start()
        await clock.advance(30)
        held = [
            (level, fields)
            for level, message, fields in b.log.lines
            if message == "Lease is held by and has not yet expired"
        ]
        assert held[0] == (0, {"lock": "kube-system/kube-scheduler", "holder": "a"})
        assert len(held) > 5
        assert {level for level, _ in held[1:]} == {4}
        assert b.metrics.values["status"] == 0
        await a.cancel()
        await b.cancel()

    asyncio.run(play())


def test_attempts_are_one_to_two_point_two_periods_apart() -> None:
    async def play() -> None:
        clock, server = HandClock(), LeaseServer()
        a, b = Candidate(clock, server, "a"), Candidate(clock, server, "b")
        a.start()
        await clock.advance(1)
        b.start()
        tries_s = []
        for _ in range(4000):
            count = len([1 for candidate, _ in server.requests if candidate == "b"])
            await clock.advance(0.05)
            if len([1 for candidate, _ in server.requests if candidate == "b"]) > count:
                tries_s.append(clock.monotonic_s())
        gaps = [later - earlier for earlier, later in pairwise(tries_s)]
        assert min(gaps) >= 2 - 0.06
        assert max(gaps) <= 4.4 + 0.06
        assert max(gaps) > 3.5
        assert min(gaps) < 2.9
        await a.cancel()
        await b.cancel()

    asyncio.run(play())


def test_a_conflict_falls_back_to_reading_the_lease_and_is_counted() -> None:
    async def play() -> None:
        clock, server = HandClock(), LeaseServer()
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(1)
        # Another client adds a label: the holder is the same, the version is not.
        server.store({**(server.lease or {})})
        server.requests.clear()
        await clock.advance(1)
        assert server.requests == [("a", "PUT"), ("a", "GET"), ("a", "PUT")]
        assert a.metrics.values["slow"] == 1
        assert server.spec["leaseTransitions"] == 0
        assert a.log.messages(2)[-1] == (
            "Failed to update lease optimistically, falling back to slow path"
        )
        await a.cancel()

    asyncio.run(play())


def test_a_lease_taken_by_another_holder_ends_leadership() -> None:
    async def play() -> None:
        clock, server = HandClock(), LeaseServer()
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(1)
        server.store({**(server.lease or {}), "spec": {**server.spec, "holderIdentity": "b"}})
        await clock.advance(11.5)
        await a.end()
        assert a.when("work ends") == 12.0
        assert a.elector.leader == "b"
        assert server.spec["holderIdentity"] == "b"

    asyncio.run(play())


def test_failures_are_logged_with_the_lock() -> None:
    async def play() -> None:
        clock, server = HandClock(), LeaseServer()
        a = Candidate(clock, server, "a")
        a.connection.is_cut = True
        a.start()
        await clock.advance(0)
        level, message, fields = a.log.lines[1]
        assert (level, message) == (-1, "Error retrieving lease lock")
        assert fields["lock"] == "kube-system/kube-scheduler"
        assert str(fields["err"]) == "connection refused"
        assert a.log.lines[2][:2] == (4, "Failed to acquire lease")
        await a.cancel()

    asyncio.run(play())


def test_a_renewal_past_the_deadline_is_logged() -> None:
    async def play() -> None:
        clock, server = HandClock(), LeaseServer()
        a = Candidate(clock, server, "a")
        a.start()
        await clock.advance(1)
        a.connection.is_cut = True
        await clock.advance(13)
        await a.end()
        failed = [fields for _, text, fields in a.log.lines if text == "Failed to renew lease"]
        expected = {"lock": "kube-system/kube-scheduler", "err": "context deadline exceeded"}
        assert failed == [expected]

    asyncio.run(play())
