"""A client that cannot change anything.

Owns the refusal, below everything that could write: what goes out is looked at where requests are
sent, so that whoever shares the connections is bound by it. Never decides what is read.
"""

from __future__ import annotations

from typing import Final

from kubesched.client.auth import ClusterAccess
from kubesched.client.errors import TransportError
from kubesched.client.request import OnForbidden, RequestMetrics
from kubesched.client.rest import Client
from kubesched.client.transport import Answer, HttpTransport, Outgoing, Transport
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log

REVIEWS: Final = (
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
)
"""Questions that are asked by POST; nothing is stored."""


class WriteRefusedError(TransportError):
    """Something would have been changed; it was not sent."""


class ReadOnlyTransport:
    """Sends what reads, and nothing else."""

    def __init__(self, transport: Transport, *, asks_reviews: bool = False) -> None:
        """Stand before a transport.

        Args:
            transport: what sends.
            asks_reviews: whether callers of our own pages may be asked about.
        """
        self._transport = transport
        self._asks_reviews = asks_reviews

    async def send(self, request: Outgoing) -> Answer:
        """Send it if it reads."""
        if not self._reads(request):
            raise WriteRefusedError(
                f"{request.method} {request.target}: not sent, since this client only reads"
            )
        return await self._transport.send(request)

    def _reads(self, request: Outgoing) -> bool:
        if request.method == "GET":
            return True
        is_review = request.method == "POST" and request.target.partition("?")[0] in REVIEWS
        return self._asks_reviews and is_review

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


class ReadOnlyClient(Client):
    """A client that reads and watches; its siblings can do no more."""

    def __init__(  # noqa: PLR0913  # As the client has them.
        self,
        access: ClusterAccess,
        *,
        qps: float = 50.0,
        burst: int = 100,
        user_agent: str,
        clock: Clock,
        log: Log,
        metrics: RequestMetrics | None = None,
        transport: Transport | None = None,
        on_forbidden: OnForbidden | None = None,
        asks_reviews: bool = False,
    ) -> None:
        """Make a client; the arguments are Client's.

        Args:
            access: Where the server is, and who we are.
            qps: How many requests a second go out; below 0 for any number.
            burst: How many may go out at once.
            user_agent: What the server logs us as.
            clock: What time it is.
            log: Where lines go.
            metrics: What is told of every request.
            transport: What sends; connections of our own if None.
            on_forbidden: What is told of every right we lack.
            asks_reviews: Whether callers of our own pages may be asked about.
        """
        sends = transport or HttpTransport(access, clock)
        self._reader = ReadOnlyTransport(sends, asks_reviews=asks_reviews)
        super().__init__(
            access,
            qps=qps,
            burst=burst,
            user_agent=user_agent,
            clock=clock,
            log=log,
            metrics=metrics,
            transport=self._reader,
            on_forbidden=on_forbidden,
        )

    async def close(self) -> None:
        """Turn away who waits, and close the connections."""
        await super().close()
        await self._reader.close()
