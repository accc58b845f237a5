"""Many malformed requests at a time against one server.

Owns the loop: the requests, the manner of sending, the number of concurrent clients, and the health
checks in between. The seed determines the requests, but not the order in which they arrive.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import yaml

from conformance.odd_requests.making import Maker, Sent
from conformance.odd_requests.sending import MANNERS, Manner, Report, problem_of, send
from kubesched.cluster.apiserver.assembly import build_registry

_HEALTH = Sent(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
_HEALTH_EVERY = 200
CLIENTS = 12


BASES = Path(__file__).resolve().parents[2] / "tests" / "api" / "bases.yaml"


async def bombard(url: str, *, seed: int, count: int) -> Report:
    """Send a number of requests; return the status codes and problems."""
    resources = list(build_registry({}))
    bases = [one["object"] for one in yaml.safe_load(BASES.read_text()).values()]
    maker, rng = Maker(seed, resources, bases), random.Random(seed)
    report = Report()
    numbers: Iterator[int] = iter(range(count))

    async def client() -> None:
        for number in numbers:
            sent, manner = maker.request(), rng.choice(MANNERS)
            await _one(url, sent, manner, rng, report)
            if number % _HEALTH_EVERY == 0:
                await _one(url, _HEALTH, Manner.WHOLE, rng, report)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    last = await send(url, _HEALTH, Manner.WHOLE, rng)
    if last.code != 200:
        report.problems.append(f"the server is unhealthy afterwards: {last.data[:300]!r}")
    return report


async def _one(url: str, sent: Sent, manner: Manner, rng: random.Random, report: Report) -> None:
    try:
        received = await send(url, sent, manner, rng)
    except OSError as error:
        report.problems.append(f"cannot connect: {error}")
        return
    report.count(received.code)
    if problem := problem_of(sent, manner, received):
        report.problems.append(f"{problem}\n  sent {manner.value}: {sent}")
