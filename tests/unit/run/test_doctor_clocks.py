from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from email.utils import formatdate

import aiohttp
import pytest
from multidict import CIMultiDict

from kubesched.client.auth.credentials import Credential
from kubesched.client.http.transport import Outgoing, Response
from kubesched.run.doctor import ClockSkewTransport

NOW_S = 1_800_000_000.4


class StoppedClock:
    def now_s(self) -> float:
        return NOW_S

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("nothing waits here")


class Head:
    status = 200

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers

    async def read(self) -> bytes:
        return b""

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b""

    def close(self) -> None:
        pass


class Wire:
    """Responds with fixed headers."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers

    async def send(self, request: Outgoing) -> Response:
        return Head(self.headers)

    async def close(self) -> None:
        pass


def skew(headers: Mapping[str, str]) -> float | None:
    transport = ClockSkewTransport(Wire(headers), StoppedClock())
    request = Outgoing("GET", "/", CIMultiDict(), None, Credential(), aiohttp.ClientTimeout())
    asyncio.run(transport.send(request))
    return transport.skew_s


@pytest.mark.parametrize(
    ("server_s", "expected"),
    [
        pytest.param(NOW_S, 0.0, id="the same second"),
        pytest.param(NOW_S - 1.0, -0.4, id="the second before, which is over"),
        pytest.param(NOW_S + 10, 9.6, id="the server is ahead"),
        pytest.param(NOW_S - 61, -60.4, id="the server is behind"),
    ],
)
def test_skew_allows_for_whole_seconds(server_s: float, expected: float) -> None:
    date = formatdate(int(server_s), usegmt=True)
    skew_s = skew({"Date": date})
    assert skew_s is not None
    assert skew_s == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}, {"Date": ""}])
def test_a_response_without_a_date_has_no_skew(headers: Mapping[str, str]) -> None:
    assert skew(headers) is None
