"""The shadow scheduler of `kubesched run --shadow`, and its report.

Owns the wiring of a live scheduler that compares decisions instead of binding pods, and the report:
log lines, counters, summaries and a file of JSON lines. Never writes to the API server: its client
is read-only.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, TextIO

import msgspec

from kubesched.api.times import micro_time_text
from kubesched.attempt.request import Search
from kubesched.client.read_only import ReadOnlyClient
from kubesched.framework.runtime.enqueue import queue_sort_key
from kubesched.kit.clock import Clock
from kubesched.kit.heap import order_by_less
from kubesched.kit.log import Log, Ref
from kubesched.metrics.instruments import Maker, Measures
from kubesched.run.live_scheduler import Environment, LiveScheduler, LiveSettings
from kubesched.scheduler.scheduler import Scheduler
from kubesched.shadow.scheduler import Shadow, ShadowLoop
from kubesched.shadow.verdict import AGREEING, RESULTS, ComparedDecision, Result

SUMMARY_S: Final = 60.0
EXAMPLES_MAX: Final = 5
_WORDS: Final[dict[Result, str]] = {
    "same": "the same",
    "tie": "tied",
    "different_node": "on another node",
    "we_reject": "rejected only by kubesched",
    "they_reject": "rejected only by the other scheduler",
    "text": "rejected with another message",
}


class ShadowReport:
    """Reports how decisions compare."""

    def __init__(
        self,
        measures: Measures,
        *,
        clock: Clock,
        log: Log,
        out: TextIO,
        file: TextIO | None = None,
    ) -> None:
        """Start with nothing compared.

        Args:
            measures: the registry of the counters.
            clock: the clock of the report's timestamps.
            log: receives differences.
            out: receives summaries.
            file: receives differences as JSON lines.
        """
        self._clock = clock
        self._log = log
        self._out = out
        self._file = file
        family = Maker(measures, "kubesched_").counter_vec(
            "shadow_decisions_total",
            "Number of compared decisions of another scheduler, by result: same, tie,"
            " different_node, we_reject, they_reject or text.",
            "ALPHA",
            ("result",),
        )
        self._counters = {result: family.labels(result) for result in RESULTS}
        self.counts: Counter[Result] = Counter()
        self._examples: list[ComparedDecision] = []
        """The first differences since the last summary."""
        self._summed_up = 0

    def add(self, verdict: ComparedDecision) -> None:
        """Record one compared decision."""
        self.counts[verdict.result] += 1
        self._counters[verdict.result].inc()
        if verdict.agrees:
            return
        namespace, _, name = verdict.pod.partition("/")
        self._log.info(
            "Decision differs",
            pod=Ref(namespace, name),
            profile=verdict.profile,
            result=verdict.result,
            theirs=verdict.theirs,
            ours=verdict.ours,
            why=verdict.why,
        )
        if len(self._examples) < EXAMPLES_MAX:
            self._examples.append(verdict)
        if self._file is not None:
            line = {"time": micro_time_text(self._clock.now_s()), **msgspec.to_builtins(verdict)}
            print(msgspec.json.encode(line).decode(), file=self._file, flush=True)

    def sum_up(self, waiting_count: int, *, is_last: bool = False) -> None:
        """Write a summary if something was compared since the last one, or at the end."""
        total = self.counts.total()
        if not is_last and total == self._summed_up:
            return
        self._summed_up = total
        print(self.summary(waiting_count), file=self._out, flush=True)
        self._examples.clear()

    def summary(self, waiting_count: int) -> str:
        """Return the counts so far and the differences since the last summary."""
        counts = self.counts
        differing = sum(count for result, count in counts.items() if result not in AGREEING)
        listed = [f"{counts[result]} {_WORDS[result]}" for result in RESULTS if counts[result]]
        lines = [f"shadow: {counts.total()} decisions compared, {differing} differ"]
        lines += [f"  {', '.join(listed)}"] if listed else []
        if waiting_count:
            lines.append(f"  {waiting_count} pods pending")
        lines += [f"  {each.pod}: {each.result}: {each.why}" for each in self._examples]
        return "\n".join(lines)


class ShadowScheduler(LiveScheduler):
    """Watches a cluster and decides for the pods that another scheduler places."""

    def __init__(self, settings: LiveSettings, outside: Environment, report: ShadowReport) -> None:
        assert isinstance(outside.client, ReadOnlyClient), "a shadow never writes"
        self.report = report
        super().__init__(settings, outside)
        if len(self.profile_set.extenders):
            # Extenders may have side effects, and would be called twice for every pod.
            names = [extender.name for extender in self.profile_set.extenders]
            message = "Extenders are not called in shadow mode; decisions may differ"
            outside.log.info(message, extenders=names)

    def _scheduler(self) -> Scheduler:
        live = super()._scheduler()
        outside = self.environment
        percentage = self.settings.config.percentage_of_nodes_to_score or 0
        profile = next(iter(self.profiles.values()))
        self.loop = ShadowLoop(
            inbox=live.inbox,
            handlers=live.handlers,
            queue=live.queue,
            cycle=live.cycle,
            binders=live.binders,
            outstanding=live.outstanding,
            clock=live.clock,
            log=live.log,
            shadow=Shadow(
                handlers=live.handlers,
                cache=self.cache,
                profiles=self.profiles,
                search=Search(default_percentage=percentage),
                order=queue_sort_key(profile) or order_by_less(profile.less),
                report=self.report.add,
                clock=outside.clock,
                log=outside.log,
            ),
        )
        return self.loop

    def start_scheduling(self) -> None:
        """Start comparing."""
        super().start_scheduling()
        self.tasks.start(self._sum_up(), name="shadow summary")

    async def _sum_up(self) -> None:
        while True:
            await self.environment.clock.sleep(SUMMARY_S)
            self.report.sum_up(self.loop.shadow.waiting_count)

    async def stop(self) -> None:
        """Compare what was received, write the last summary, and stop."""
        self.loop.finish()
        await super().stop()
        self.report.sum_up(self.loop.shadow.waiting_count, is_last=True)
