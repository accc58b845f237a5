"""/metrics and the pages below it.

Owns which format a scraper gets, and compression. Never counts anything.
Upstream: staging/src/k8s.io/component-base/metrics/http.go,
github.com/prometheus/client_golang/prometheus/promhttp
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable

from kubesched.kit.clock import Clock
from kubesched.kit.exposition import (
    OPENMETRICS_CONTENT_TYPE,
    TEXT_CONTENT_TYPE,
    openmetrics_of,
    text_of,
)
from kubesched.model.process_metrics import SliMetrics
from kubesched.web.answers import Answer, Asked, Handler, text_answer
from kubesched.web.parts import MetricPages

_OPENMETRICS = "application/openmetrics-text"
_STARTED = "process_start_time_seconds"
_QUICK = 1
_SMALL_BYTES = 1024


def metrics_handler(pages: MetricPages, start_time_s: float) -> Handler:
    """Return the handler of metrics that DELETE resets."""

    async def serve(asked: Asked) -> Answer:
        if asked.method == "DELETE":
            pages.reset()
            return text_answer("metrics reset\n")
        if wants_openmetrics(asked.headers.get("Accept", "")):
            return await exposed(asked, pages.openmetrics(), OPENMETRICS_CONTENT_TYPE, start_time_s)
        return await exposed(asked, pages.text(), TEXT_CONTENT_TYPE, start_time_s)

    return serve


def resources_handler(
    resources: Callable[[], str | Iterable[str] | None], start_time_s: float, clock: Clock
) -> Handler:
    """Return the handler of /metrics/resources: empty while somebody else leads."""

    async def serve(asked: Asked) -> Answer:
        given = resources()
        if given is None:
            return Answer(content_type="")
        if asked.method == "DELETE":
            return text_answer("metrics reset\n")
        parts = []
        for part in (given,) if isinstance(given, str) else given:
            parts.append(part)
            # There may be a hundred thousand pods, and others to be decided meanwhile.
            await clock.sleep(0)
        return await exposed(asked, "".join(parts), TEXT_CONTENT_TYPE, start_time_s)

    return serve


def wants_openmetrics(accept: str) -> bool:
    """Return whether a client reads nothing but OpenMetrics.

    kube-scheduler never sends it. A scraper that reads the text format as well gets that one, so
    that the series it keeps are the same as from kube-scheduler: OpenMetrics writes `le` otherwise.
    """
    ranges = [one.partition(";")[0].strip().lower() for one in accept.split(",")]
    return _OPENMETRICS in ranges and not {"text/plain", "text/*", "*/*"} & set(ranges)


async def exposed(asked: Asked, text: str, content_type: str, start_time_s: float) -> Answer:
    """Return metrics, compressed for whoever reads that."""
    headers = {"Process-Start-Time-Unix": str(int(start_time_s))}
    body = text.encode()
    if len(body) > _SMALL_BYTES and _reads_gzip(asked.headers.get("Accept-Encoding", "")):
        # In a thread: pods are decided meanwhile.
        body = await asyncio.to_thread(gzip.compress, body, _QUICK)
        headers["Content-Encoding"] = "gzip"
    return Answer(body, content_type=content_type, headers=headers)


def _reads_gzip(accept_encoding: str) -> bool:
    for one in accept_encoding.split(","):
        name, _, parameters = one.partition(";")
        if name.strip().lower() == "gzip":
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


class SliPages:
    """What /metrics/slis shows."""

    def __init__(self, slis: SliMetrics) -> None:
        self._slis = slis
        self._was_reset = False

    def text(self) -> str:
        """Return the text format."""
        families = self._slis.measures.families()
        # Parity: a reset takes the start of the process along, for good.
        return text_of(one for one in families if not (self._was_reset and one.name == _STARTED))

    def openmetrics(self) -> str:
        """Return OpenMetrics."""
        return openmetrics_of(self._slis.measures)

    def reset(self) -> None:
        """Forget how checks went."""
        self._slis.measures.reset()
        self._was_reset = True
