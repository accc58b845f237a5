"""/metrics, /metrics/resources and /metrics/slis.

Owns the choice of format, and compression. Never counts anything.
Upstream: staging/src/k8s.io/component-base/metrics/http.go,
github.com/prometheus/client_golang/prometheus/promhttp
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable

from kubesched.kit.clock import Clock
from kubesched.metrics.exposition import OPENMETRICS_CONTENT_TYPE, TEXT_CONTENT_TYPE, Exposed
from kubesched.ops.http_messages import Handler, Request, Response

_OPENMETRICS = "application/openmetrics-text"
_QUICK = 1
_SMALL_BYTES = 1024


def metrics_handler(metrics: Exposed, start_time_s: float) -> Handler:
    """Return the handler of metrics that DELETE resets."""

    async def serve(request: Request) -> Response:
        if request.method == "DELETE":
            metrics.reset()
            return Response(b"metrics reset\n")
        if wants_openmetrics(request.headers.get("Accept", "")):
            return await expose(
                request, metrics.openmetrics(), OPENMETRICS_CONTENT_TYPE, start_time_s
            )
        return await expose(request, metrics.text(), TEXT_CONTENT_TYPE, start_time_s)

    return serve


def resources_handler(
    resources: Callable[[], Iterable[str] | None], start_time_s: float, clock: Clock
) -> Handler:
    """Return the handler of /metrics/resources: empty on a replica that does not lead."""

    async def serve(request: Request) -> Response:
        rendered = resources()
        if rendered is None:
            return Response(content_type="")
        if request.method == "DELETE":
            return Response(b"metrics reset\n")
        parts = []
        for part in rendered:
            parts.append(part)
            # Scheduling continues while a hundred thousand pods are rendered.
            await clock.sleep(0)
        return await expose(request, "".join(parts), TEXT_CONTENT_TYPE, start_time_s)

    return serve


def wants_openmetrics(accept: str) -> bool:
    """Return whether a client accepts only OpenMetrics.

    kube-scheduler never sends it. A scraper that also accepts the text format gets that one, so
    that its series equal those of kube-scheduler: OpenMetrics writes `le` differently.
    """
    ranges = [clause.partition(";")[0].strip().lower() for clause in accept.split(",")]
    return _OPENMETRICS in ranges and not {"text/plain", "text/*", "*/*"} & set(ranges)


async def expose(request: Request, text: str, content_type: str, start_time_s: float) -> Response:
    """Return metrics, compressed if the client accepts gzip."""
    headers = {"Process-Start-Time-Unix": str(int(start_time_s))}
    body = text.encode()
    if len(body) > _SMALL_BYTES and _accepts_gzip(request.headers.get("Accept-Encoding", "")):
        # In a thread, so that scheduling continues.
        body = await asyncio.to_thread(gzip.compress, body, _QUICK)
        headers["Content-Encoding"] = "gzip"
    return Response(body, content_type=content_type, headers=headers)


def _accepts_gzip(accept_encoding: str) -> bool:
    for coding in accept_encoding.split(","):
        name, _, parameters = coding.partition(";")
        if name.strip().lower() == "gzip":
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
