"""A client that rejects writes before they are sent."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kubesched.client.auth.credentials import ClusterAccess
from kubesched.client.http.transport import Outgoing, Response
from kubesched.client.read_only import ReadOnlyClient, WriteRejectedError
from kubesched.client.resources import LEASES, PODS
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from tests.unit.client.request_world import ScriptedAnswer

REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class RecordingTransport:
    """A transport that records requests and responds with success."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.is_closed = False

    async def send(self, request: Outgoing) -> Response:
        self.sent.append(f"{request.method} {request.target}")
        return ScriptedAnswer(200, b"{}", {"Content-Type": "application/json"})

    async def close(self) -> None:
        self.is_closed = True


def a_client(transport: RecordingTransport, **options: Any) -> ReadOnlyClient:
    return ReadOnlyClient(
        ClusterAccess("https://nowhere"),
        user_agent="test",
        clock=SystemClock(),
        log=NullLog(),
        transport=transport,
        **options,
    )


def result_of(work: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await work

    return asyncio.run(main())


def test_reads_and_watches_are_sent() -> None:
    transport = RecordingTransport()
    client = a_client(transport)

    async def main() -> None:
        await client.get(PODS, "a", namespace="default")
        async with client.stream(PODS.path(), query={"watch": "true"}) as chunks:
            assert chunks is not None

    result_of(main())
    assert transport.sent == [
        "GET /api/v1/namespaces/default/pods/a",
        "GET /api/v1/pods?watch=true",
    ]


@pytest.mark.parametrize("is_sibling", [False, True])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "get", "OPTIONS"])
def test_writes_are_rejected(method: str, is_sibling: bool) -> None:
    transport = RecordingTransport()
    client = a_client(transport)
    sends = client.sibling(user_agent="other") if is_sibling else client
    with pytest.raises(WriteRejectedError, match="not sent, since this client is read-only"):
        result_of(sends.request(method, LEASES.path("kube-system", "kube-scheduler")))
    assert transport.sent == []


def test_reviews_may_be_allowed() -> None:
    transport = RecordingTransport()
    client = a_client(transport, sends_reviews=True)
    result_of(client.request("POST", REVIEW, body={}))
    assert transport.sent == [f"POST {REVIEW}"]
    for method, path in (("PUT", REVIEW), ("POST", f"{REVIEW}/x"), ("POST", "/api/v1/pods")):
        with pytest.raises(WriteRejectedError):
            result_of(client.request(method, path, body={}))
    assert len(transport.sent) == 1


def test_reviews_are_rejected_unless_allowed() -> None:
    transport = RecordingTransport()
    with pytest.raises(WriteRejectedError):
        result_of(a_client(transport).request("POST", REVIEW, body={}))
    assert transport.sent == []


def test_connections_are_closed_with_the_client() -> None:
    transport = RecordingTransport()
    result_of(a_client(transport).close())
    assert transport.is_closed
