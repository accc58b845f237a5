"""One profile: a scheduler name and its plugins, in the order in which they run.

Owns the plugins per point with their weights, and one `run_...` method per point, as upstream's
Framework. Core code knows plugins only through it.
Upstream: pkg/scheduler/framework/runtime/framework.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Logger
from kubesched.framework.interface import (
    EXTENSION_POINTS,
    EventRegistration,
    NodeStatuses,
    PostFilterResult,
)
from kubesched.framework.pod_keys import PodKeys
from kubesched.framework.runtime import bind_phase
from kubesched.framework.runtime.adapters import (
    declared_reads,
    guarded,
    reserves_if_skipped,
)
from kubesched.framework.runtime.filter_phase import FilterPhase, PreFilterOutcome
from kubesched.framework.runtime.plugin_sets import PluginSets
from kubesched.framework.runtime.post_filter_phase import post_filter, post_filter_waiting
from kubesched.framework.runtime.score_phase import ScorePhase, Scores
from kubesched.framework.runtime.timing import Measuring
from kubesched.framework.sandbox.sandboxed_plugin import SandboxedPlugin
from kubesched.framework.status import Code, Status
from kubesched.framework.verdicts import Verdicts
from kubesched.kit.log import NullLog
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable

AnswerT = TypeVar("AnswerT")
_DECIDING: Final = ("preFilter", "filter", "preScore", "score")


class Profile:
    """A scheduler name's plugins, built and in order."""

    def __init__(
        self,
        scheduler_name: str,
        sets: PluginSets,
        plugins: Mapping[str, Any],
        *,
        in_tree: Collection[str] = (),
        percentage_of_nodes_to_score: int | None = None,
    ) -> None:
        """Put plugins in order; those not named `in_tree` are guarded while verdicts are kept."""
        self.name = scheduler_name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.plugins = plugins
        self.log: Logger = NullLog()
        """Logs failures of plugins; set by the live scheduler."""
        self.measuring: Measuring | None = None
        """Measures attempts; None if they are not measured."""
        self._sets = sets
        self._in_tree = in_tree
        self._at = {
            point: tuple(plugins[name] for name in sets.points.get(point, ()))
            for point in EXTENSION_POINTS
        }
        self.has_filter_plugins = bool(self._at["filter"])
        self.has_post_filter_plugins = bool(self._at["postFilter"])
        self.has_score_plugins = bool(self._at["score"])
        self.score_weights: Mapping[str, int] = sets.score_weights
        self._reserving: dict[frozenset[str], tuple[Any, ...]] = {}
        """The Reserve plugins to call, by the plugins that were skipped in filtering."""
        self.filters = FilterPhase(self._at["preFilter"], self._at["filter"])
        self.scores = ScorePhase(self._at["preScore"], self._at["score"], sets.score_weights)
        self.pod_keys = PodKeys(
            name
            for name, plugin in plugins.items()
            if name not in in_tree and hasattr(plugin, "reads")
        )
        """The keys of kept verdicts."""
        self.keeps_verdicts = True
        """Whether attempts may keep verdicts; tests compare with a profile that keeps none."""

    def with_points(self, points: Mapping[str, tuple[str, ...]]) -> Profile:
        """Return a profile with some of the plugins, at some of their extension points."""
        weights = {name: self.score_weights[name] for name in points.get("score", ())}
        plugins = {name: self.plugins[name] for names in points.values() for name in names}
        sets = PluginSets(dict(points), weights, {})
        return Profile(self.name, sets, plugins, in_tree=self._in_tree)

    def may_read_pods(self, pod: PodInfo) -> bool:
        """Return whether a filter or score may read usage or pods to place a pod."""
        used = [plugin for point in _DECIDING for plugin in self._at[point]]
        declared = (declared_reads(plugin, pod) for plugin in used)
        return any(reads is None or reads.usage or reads.terms for reads in declared)

    def measured_by(self, metrics: SchedulerMetrics, now_s: Callable[[], float]) -> Self:
        """Measure every attempt; return the profile."""
        self.measuring = measuring = Measuring(metrics, self.name, self._sets.points, now_s)
        for plugin in self.plugins.values():
            if isinstance(plugin, SandboxedPlugin):
                plugin.kubesched_sandbox.attempt = lambda: measuring.attempts
        return self

    def _run(self, point: str, call: Callable[..., AnswerT], *arguments: Any) -> AnswerT:
        """Run a point, measured if the profile is."""
        measuring = self.measuring
        return call(*arguments) if measuring is None else measuring.run(point, call, *arguments)

    def _wait(self, point: str, answer: Awaitable[AnswerT]) -> Awaitable[AnswerT]:
        """Return a point to wait for, measured if the profile is."""
        measuring = self.measuring
        return answer if measuring is None else measuring.wait(point, answer)

    def without_caching(self) -> Self:
        """Call every plugin for every node in every attempt; return the profile."""
        self.keeps_verdicts = False
        self.filters.trusts_reads = False
        return self

    def __repr__(self) -> str:
        return f"<Profile {self.name} with {len(self.plugins)} plugins>"

    # -- what is enabled ------------------------------------------------------------------------

    def plugin_names(self, point: str) -> tuple[str, ...]:
        """Return the plugins of an extension point (`preFilter`, `score`, ...) in run order."""
        return self._sets.points.get(point, ())

    def list_plugins(self) -> dict[str, list[tuple[str, int]]]:
        """Return every point that has plugins, with name and weight (0 where none applies)."""
        weights = {"score": self._sets.score_weights}
        weights["placementScore"] = self._sets.placement_score_weights
        return {
            point: [(name, weights.get(point, {}).get(name, 0)) for name in names]
            for point, names in self._sets.points.items()
            if names
        }

    def event_registrations(self) -> dict[str, Sequence[EventRegistration] | None]:
        """Return the registrations of each plugin; None if it has no `events_to_register`."""
        return {
            name: plugin.events_to_register() if hasattr(plugin, "events_to_register") else None
            for name, plugin in self.plugins.items()
        }

    # -- queueing -------------------------------------------------------------------------------

    def run_pre_enqueue_plugins(self, pod: PodInfo) -> Status | None:
        """Return the rejection of a pod that may not enter the active queue."""
        for plugin in self._at["preEnqueue"]:
            status: Status | None = guarded(plugin.pre_enqueue, pod)
            if status is not None and not status.is_success:
                return status.by(plugin.name)
        return None

    def less(self, first: Any, second: Any) -> bool:
        """Return whether the first queued pod goes before the second."""
        return self._at["queueSort"][0].less(first, second)

    # -- the scheduling cycle ---------------------------------------------------------------------

    def run_pre_filter_plugins(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> PreFilterOutcome:
        """Prepare filtering; nodes are all nodes."""
        outcome = self._run("PreFilter", self.filters.pre_filter, state, pod, nodes)
        if self.measuring is not None:
            last = self._last_called(outcome)
            self.measuring.evaluated("PreFilter", state.skip_filter_plugins, last=last)
        return outcome

    def _last_called(self, outcome: PreFilterOutcome) -> str:
        """Return the pre-filter plugin that ended its point; empty if all ran."""
        status = outcome.status
        if status is None or status.code is Code.UNSCHEDULABLE:
            return ""
        if status.plugin:
            return status.plugin
        named, in_order = outcome.plugins_with_nodes, reversed(self.plugin_names("preFilter"))
        return next((name for name in in_order if name in named), "")

    def run_filter_plugins_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Verdicts:
        """Evaluate nodes with and without their nominated pods."""
        return self.filters.judge_with_nominated(state, pod, nodes)

    def run_post_filter_plugins(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Run PostFilter without waiting."""
        plugins = self._at["postFilter"]
        return self._run("PostFilter", post_filter, plugins, state, pod, statuses)

    async def run_post_filter_plugins_live(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Run PostFilter, and wait for plugins that wait, as for extenders."""
        plugins = self._at["postFilter"]
        return await self._wait("PostFilter", post_filter_waiting(plugins, state, pod, statuses))

    def run_pre_score_plugins(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Status | None:
        """Prepare scoring; nodes are the feasible ones."""
        failure = self._run("PreScore", self.scores.pre_score, state, pod, nodes)
        if self.measuring is not None:
            self.measuring.evaluated("PreScore", state.skip_score_plugins)
        return failure

    def run_score_plugins(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Scores | Status:
        """Score the feasible nodes."""
        scores = self._run("Score", self.scores.score, state, pod, nodes)
        if self.measuring is not None:
            self.measuring.evaluated("Score", state.skip_score_plugins, len(nodes))
        return scores

    def run_reserve_plugins_reserve(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | None:
        """Reserve the node; the first failure ends it."""
        skipped = state.skip_filter_plugins
        plugins = self._reserving.get(skipped)
        if plugins is None:
            plugins = self._reserving[skipped] = tuple(
                p for p in self._at["reserve"] if p.name not in skipped or reserves_if_skipped(p)
            )
        if state.plugin_times is not None:
            plugins = self._at["reserve"]  # A sampled attempt measures every call.
        if not plugins and self.measuring is None:
            return None
        return self._run("Reserve", bind_phase.reserve, plugins, state, pod, node_name, self.log)

    def run_reserve_plugins_unreserve(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> None:
        """Undo Reserve of all plugins, in reverse order."""
        plugins = self._at["reserve"]
        self._run("Unreserve", bind_phase.unreserve, plugins, state, pod, node_name, self.log)

    # -- the binding cycle ------------------------------------------------------------------------

    async def run_permit_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> bind_phase.PermitOutcome:
        """Run Permit: bind now, wait, or reject the pod."""
        permit = bind_phase.permit(self._at["permit"], state, pod, node_name, self.log)
        return await self._wait("Permit", permit)

    def run_pre_bind_pre_flights(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | None:
        """Find out which PreBind plugins have work, and which may run in parallel."""
        plugins, run = self._at["preBind"], bind_phase.pre_flight
        return self._run("PreBindPreFlight", run, plugins, state, pod, node_name, self.log)

    async def run_pre_bind_plugins(
        self,
        state: CycleState,
        pod: PodInfo,
        node_name: str,
        parallelizer: bind_phase.Parallelizer | None = None,
    ) -> Status | None:
        """Run PreBind; without a parallelizer, one plugin after the other."""
        plugins, log = self._at["preBind"], self.log
        if parallelizer is not None and self.measuring is not None:
            parallelizer = self.measuring.counting(parallelizer)
        pre_bind = bind_phase.pre_bind(plugins, state, pod, node_name, parallelizer, log)
        return await self._wait("PreBind", pre_bind)

    async def run_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind with the first plugin that does not skip."""
        bind = bind_phase.bind(self._at["bind"], state, pod, node_name, self.log)
        return await self._wait("Bind", bind)

    async def run_post_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Run PostBind."""
        post_bind = bind_phase.post_bind(self._at["postBind"], state, pod, node_name, self.log)
        await self._wait("PostBind", post_bind)
