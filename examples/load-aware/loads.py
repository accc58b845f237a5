"""Loads of nodes, read in the background from a Prometheus-compatible endpoint."""

import math
from contextlib import suppress

import aiohttp
import msgspec

from kubesched import Handle
from kubesched.framework.handle import NotLiveError


class LoadAwareArgs(msgspec.Struct, frozen=True):
    """The arguments under pluginConfig; keys are in camelCase."""

    url: str = "http://localhost:9090"
    query: str = '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[1m]))'
    label: str = "node"
    interval_seconds: float = 15
    max_age_seconds: float = 60

    def validate(self) -> list[str]:
        """Return the problems of the values."""
        wrong = [] if self.url.startswith("http") else ["url: must begin with http"]
        return wrong + ([] if self.interval_seconds > 0 else ["intervalSeconds: must be positive"])


class Loads:
    """The newest sample of each node, as a score: 100 for an idle node, 0 for a busy one."""

    def __init__(self, args: LoadAwareArgs, handle: Handle) -> None:
        """Start to read; `kubesched explain` and `simulate` read nothing: nodes are neutral."""
        self.args, self.handle = args, handle
        self.samples: dict[str, tuple[float, int]] = {}
        self.readings = 0
        with suppress(NotLiveError):
            handle.start_task("load-aware", self._read_on)

    @property
    def oldest_s(self) -> float:
        """Return the time before which a sample is stale."""
        return self.handle.clock.now_s() - self.args.max_age_seconds

    async def _read_on(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self.args.interval_seconds + 5)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            while True:
                try:
                    await self._read(http)
                except (aiohttp.ClientError, TimeoutError, ValueError, LookupError) as error:
                    # Earlier samples stay until they are stale.
                    self.handle.log.error("Unable to read loads", err=error, url=self.args.url)
                await self.handle.clock.sleep(self.args.interval_seconds)

    async def _read(self, http: aiohttp.ClientSession) -> None:
        url, query = f"{self.args.url}/api/v1/query", {"query": self.args.query}
        async with http.get(url, params=query, raise_for_status=True) as answer:
            found = (await answer.json(content_type=None))["data"]["result"]
        samples = {}
        for one in found:
            (time_s, text), name = one["value"], one["metric"].get(self.args.label, "")
            if math.isfinite(load := float(text)):
                samples[name] = (float(time_s), round(100 - 100 * min(max(load, 0), 1)))
        self.samples, self.readings = samples, self.readings + 1
