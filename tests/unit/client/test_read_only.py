"""A client that reads, and refuses everything else before it is sent."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kubesched.client.auth import ClusterAccess
from kubesched.client.read_only import ReadOnlyClient, WriteRefusedError
from kubesched.client.resources import LEASES, PODS
from kubesched.client.transport import Answer, Outgoing
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from tests.unit.client.request_world import ScriptedAnswer

REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Noted:
    """Notes what is sent, and answers that all is well."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.is_closed = False

    async def send(self, request: Outgoing) -> Answer:
        self.sent.append(f"{request.method} {request.target}")
        return ScriptedAnswer(200, b"{}", {"Content-Type": "application/json"})

    async def close(self) -> None:
        self.is_closed = True


def a_client(transport: Noted, **options: Any) -> ReadOnlyClient:
    return ReadOnlyClient(
        ClusterAccess("https://nowhere"),
        user_agent="test",
        clock=SystemClock(),
        log=NullLog(),
        transport=transport,
        **options,
    )


def done(work: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await work

    return asyncio.run(main())


def test_reading_and_watching_go_through() -> None:
    transport = Noted()
    client = a_client(transport)

    async def main() -> None:
        await client.get(PODS, "a", namespace="default")
        async with client.stream(PODS.path(), query={"watch": "true"}) as chunks:
            assert chunks is not None

    done(main())
    assert transport.sent == [
        "GET /api/v1/namespaces/default/pods/a",
        "GET /api/v1/pods?watch=true",
    ]


@pytest.mark.parametrize("is_sibling", [False, True])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "get", "OPTIONS"])
def test_nothing_else_does(method: str, is_sibling: bool) -> None:
    transport = Noted()
    client = a_client(transport)
    sends = client.sibling(user_agent="other") if is_sibling else client
    with pytest.raises(WriteRefusedError, match="not sent, since this client only reads"):
        done(sends.request(method, LEASES.path("kube-system", "kube-scheduler")))
    assert transport.sent == []


def test_reviews_may_be_allowed_and_nothing_beside_them() -> None:
    transport = Noted()
    client = a_client(transport, asks_reviews=True)
    done(client.request("POST", REVIEW, body={}))
    assert transport.sent == [f"POST {REVIEW}"]
    for method, path in (("PUT", REVIEW), ("POST", f"{REVIEW}/x"), ("POST", "/api/v1/pods")):
        with pytest.raises(WriteRefusedError):
            done(client.request(method, path, body={}))
    assert len(transport.sent) == 1


def test_reviews_are_refused_unless_allowed() -> None:
    transport = Noted()
    with pytest.raises(WriteRefusedError):
        done(a_client(transport).request("POST", REVIEW, body={}))
    assert transport.sent == []


def test_connections_are_closed_with_the_client() -> None:
    transport = Noted()
    done(a_client(transport).close())
    assert transport.is_closed
