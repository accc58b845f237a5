"""A scheduler that only looks on, and what it tells.

Owns how the parts of a live scheduler are joined so that they compare instead of placing pods, and
the report: a line in the log for each difference, counters, a summary, a file of JSON lines. Never
writes to the API server: its client cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TextIO

import msgspec

from kubesched.app.live import LiveScheduler, LiveSettings, Outside
from kubesched.client.read_only import ReadOnlyClient
from kubesched.engine.search import Search
from kubesched.framework.enqueue import queue_sort_key
from kubesched.framework.profile import Profile
from kubesched.kit.clock import Clock
from kubesched.kit.heap import order_by_less
from kubesched.kit.log import Log, Ref
from kubesched.kit.measures import Maker, Measures
from kubesched.objects.times import micro_time_text
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.shadow import Shadow, ShadowLoop
from kubesched.scheduler.shadow_verdict import AGREEING, RESULTS, Result, Verdict

SUMMARY_S: Final = 60.0
EXAMPLES_MAX: Final = 5
_WORDS: Final[dict[Result, str]] = {
    "same": "the same",
    "tie": "as good",
    "different_node": "on another node",
    "we_refuse": "refused by us only",
    "they_refuse": "refused by them only",
    "text": "refused with another text",
}


class Line(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """A difference, as the report has it."""

    time: str
    pod: str
    profile: str
    result: str
    theirs: str = ""
    ours: str = ""
    why: str = ""
    their_total: int | None = None
    our_total: int | None = None
    points: dict[str, int] = {}
    their_message: str = ""
    our_message: str = ""


class ShadowReport:
    """Tells how decisions compare."""

    def __init__(
        self,
        measures: Measures,
        *,
        clock: Clock,
        log: Log,
        out: TextIO,
        file: TextIO | None = None,
    ) -> None:
        """Begin with nothing compared.

        Args:
            measures: where the counters are shown.
            clock: what time it is.
            log: where differences are written.
            out: where summaries are written.
            file: where differences are written as JSON lines.
        """
        self._clock = clock
        self._log = log
        self._out = out
        self._file = file
        family = Maker(measures, "kubesched_").counter_vec(
            "shadow_decisions_total",
            "Number of decisions of another scheduler that were compared, by the result: same, tie,"
            " different_node, we_refuse, they_refuse or text.",
            "ALPHA",
            ("result",),
        )
        self._counters = {result: family.labels(result) for result in RESULTS}
        self.counts: Counter[Result] = Counter()
        self._examples: list[Verdict] = []
        """The first differences since the last summary."""
        self._summed_up = 0

    def told(self, verdict: Verdict) -> None:
        """Take note of one decision."""
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
            self._file.write(msgspec.json.encode(self._line(verdict)).decode() + "\n")
            self._file.flush()

    def _line(self, verdict: Verdict) -> Line:
        return Line(
            time=micro_time_text(self._clock.now_s()),
            pod=verdict.pod,
            profile=verdict.profile,
            result=verdict.result,
            theirs=verdict.theirs,
            ours=verdict.ours,
            why=verdict.why,
            their_total=verdict.their_total,
            our_total=verdict.our_total,
            points=dict(verdict.points),
            their_message=verdict.their_message,
            our_message=verdict.our_message,
        )

    def sum_up(self, waiting_count: int, *, is_last: bool = False) -> None:
        """Write a summary if something was compared since the last one, or if it is the last."""
        total = self.counts.total()
        if not is_last and total == self._summed_up:
            return
        self._summed_up = total
        print(self.summary(waiting_count), file=self._out, flush=True)
        self._examples.clear()

    def summary(self, waiting_count: int) -> str:
        """Return what was found so far, with the differences since the last summary."""
        counts = self.counts
        differing = sum(count for result, count in counts.items() if result not in AGREEING)
        found = [f"{counts[result]} {_WORDS[result]}" for result in RESULTS if counts[result]]
        lines = [f"shadow: {counts.total()} decisions compared, {differing} differ"]
        lines += [f"  {', '.join(found)}"] if found else []
        if waiting_count:
            lines.append(f"  {waiting_count} pods wait for the other scheduler")
        lines += [f"  {one.pod}: {one.result}: {one.why}" for one in self._examples]
        return "\n".join(lines)


class ShadowScheduler(LiveScheduler):
    """Watches a cluster, and decides for the pods that another scheduler places."""

    def __init__(self, settings: LiveSettings, outside: Outside, report: ShadowReport) -> None:
        assert isinstance(outside.client, ReadOnlyClient), "who only looks on cannot write"
        self.report = report
        super().__init__(settings, outside)
        if len(self.generation.extenders):
            # They may act on what they are asked, and would be asked about every pod twice.
            names = [one.name for one in self.generation.extenders]
            message = "Extenders are not asked by who only looks on; decisions may differ by them"
            outside.log.info(message, extenders=names)

    def _scheduler(self) -> Scheduler:
        live = super()._scheduler()
        outside = self.outside
        percentage = self.settings.config.percentage_of_nodes_to_score or 0
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
                order=_order_of(next(iter(self.profiles.values()))),
                told=self.report.told,
                clock=outside.clock,
                log=outside.log,
            ),
        )
        return self.loop

    def start_scheduling(self) -> None:
        """Begin to compare."""
        super().start_scheduling()
        self.tasks.start(self._sum_up(), name="shadow summary")

    async def _sum_up(self) -> None:
        while True:
            await self.outside.clock.sleep(SUMMARY_S)
            self.report.sum_up(self.loop.shadow.waiting_count)

    async def stop(self) -> None:
        """Compare what has come, tell what was found, and end."""
        self.loop.finish()
        await super().stop()
        self.report.sum_up(self.loop.shadow.waiting_count, is_last=True)


def _order_of(profile: Profile) -> Callable[[Any], Any]:
    return queue_sort_key(profile) or order_by_less(profile.less)
