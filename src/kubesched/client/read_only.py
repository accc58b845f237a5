"""A client that cannot write.

Owns the check in the transport, so that it holds for every client that shares the connections.
"""

from __future__ import annotations

from typing import Final, Required, TypedDict, Unpack

from kubesched.client.auth.credentials import ClusterAccess
from kubesched.client.errors import TransportError
from kubesched.client.http.request import OnForbidden, RequestMetrics
from kubesched.client.http.transport import HttpTransport, Outgoing, Response, Transport
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log

_REVIEWS: Final = (
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
)
"""Reviews are POST requests that store nothing."""


class WriteRejectedError(TransportError):
    """A write was rejected and not sent."""


class ReadOnlyTransport:
    """Sends read requests only."""

    def __init__(self, transport: Transport, sends_reviews: bool) -> None:
        self._transport = transport
        self._sends_reviews = sends_reviews

    async def send(self, request: Outgoing) -> Response:
        """Send a read request; WriteRejectedError for any other."""
        path = request.target.partition("?")[0]
        is_review = request.method == "POST" and path in _REVIEWS
        if request.method != "GET" and not (is_review and self._sends_reviews):
            raise WriteRejectedError(
                f"{request.method} {request.target}: not sent, since this client is read-only"
            )
        return await self._transport.send(request)

    async def close(self) -> None:
        await self._transport.close()


class ClientOptions(TypedDict, total=False):
    """Arguments of Client that ReadOnlyClient passes on."""

    qps: float
    burst: int
    user_agent: Required[str]
    log: Required[Log]
    metrics: RequestMetrics | None
    on_forbidden: OnForbidden | None


class ReadOnlyClient(Client):
    """A client that only reads and watches, as do its siblings.

    With `sends_reviews` it also sends the reviews of the ops server. It closes its transport.
    """

    def __init__(
        self,
        access: ClusterAccess,
        *,
        clock: Clock,
        transport: Transport | None = None,
        sends_reviews: bool = False,
        **options: Unpack[ClientOptions],
    ) -> None:
        reader = ReadOnlyTransport(transport or HttpTransport(access, clock), sends_reviews)
        super().__init__(access, clock=clock, transport=reader, **options)
        self._owns_transport = True
