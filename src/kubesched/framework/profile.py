"""One profile: a scheduler name and its plugins, in the order in which they run.

Owns what upstream's Framework answers: plugins per point with weights, and one `run_...` method per
point. Core code knows plugins only through it.
Upstream: pkg/scheduler/framework/runtime/framework.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from kubesched.columns.trial import PodRows
from kubesched.columns.view import NodeTable
from kubesched.framework import bind_phase
from kubesched.framework.adapt import (
    ColumnFilter,
    ColumnScore,
    OneNodeFilter,
    OneNodeScore,
    column_filter,
    column_score,
    guarded,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.fenced import FencedPlugin
from kubesched.framework.filter_phase import FilterPhase, PreFilterOutcome
from kubesched.framework.handle import Logger
from kubesched.framework.interface import (
    EXTENSION_POINTS,
    EventRegistration,
    NodeStatuses,
    PostFilterResult,
    SignFragment,
)
from kubesched.framework.kept_columns import PlanParts, declared_reads
from kubesched.framework.measured import Measuring
from kubesched.framework.planner import Planner
from kubesched.framework.plugin_sets import PluginSets
from kubesched.framework.post_filter_phase import post_filter, post_filter_waiting
from kubesched.framework.score_phase import ScorePhase, Scores
from kubesched.framework.status import Code, Status
from kubesched.framework.totals import width_for
from kubesched.framework.verdicts import Verdicts
from kubesched.kit.log import NullLog
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_info import PodInfo

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
        percentage_of_nodes_to_score: int | None = None,
    ) -> None:
        self.name = scheduler_name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.plugins = plugins
        self.log: Logger = NullLog()
        """Where plugins that fail are named; the live scheduler puts its log here."""
        self.measuring: Measuring | None = None
        """What attempts are measured by; None where nobody wants to know."""
        self._sets = sets
        self._at = {
            point: tuple(plugins[name] for name in sets.points.get(point, ()))
            for point in EXTENSION_POINTS
        }
        self._reserving: dict[frozenset[str], tuple[Any, ...]] = {}
        """The plugins that are asked to reserve, by those that are left out of filtering."""
        self.filters = FilterPhase(
            self._at["preFilter"], [column_filter(plugin) for plugin in self._at["filter"]]
        )
        scores = [column_score(plugin) for plugin in self._at["score"]]
        self._scores = ScorePhase(self._at["preScore"], scores, sets.score_weights)
        self.planner: Planner | None = self._planner_over(scores)
        """Keeps what local plugins said; None where every attempt asks everybody."""

    def _planner_over(self, scores: Sequence[ColumnScore | OneNodeScore]) -> Planner | None:
        filters = [column_filter(plugin) for plugin in self._at["filter"]]
        columns = [f for f in filters if isinstance(f, ColumnFilter)]
        one_node = [f for f in filters if isinstance(f, OneNodeFilter)]
        column_scores = [s for s in scores if isinstance(s, ColumnScore)]
        # Which nodes a filter for one node is asked about depends on the filters before it alone.
        if filters != [*columns, *one_node] or not scores:
            return None
        points = (self._at["preFilter"], columns, self._at["preScore"], scores)
        names = tuple(dict.fromkeys(p.name for point in (*points, one_node) for p in point))
        named = [p for p in self._at["preFilter"] if hasattr(p, "named_node")]
        naming = named[0] if len(named) == 1 and named[0] in self._at["filter"] else None
        asked = {p.name for p in (*filters, *scores) if p not in columns and p not in column_scores}
        return Planner(
            PlanParts(
                *points,
                self._sets.score_weights,
                column_scores,
                one_node,
                naming,
                names=names,
                width=width_for(self._sets.score_weights.values()),
                declarations={
                    n: None if n in asked else getattr(self.plugins[n], "reads", None)
                    for n in names
                },
                # Not by inheritance: a class made from another may look at more of a pod.
                same_for_family=frozenset(
                    n for n in names if vars(type(self.plugins[n])).get("same_for_family")
                ),
            )
        )

    def may_read_pods(self, pod: PodInfo) -> bool:
        """Return whether some filter or score may look at what pods take, or at pods, for a pod."""
        used = [plugin for point in _DECIDING for plugin in self._at[point]]
        declared = (declared_reads(getattr(plugin, "reads", None), pod) for plugin in used)
        return any(reads is None or reads.usage or reads.terms for reads in declared)

    def measured_by(self, metrics: SchedulerMetrics, now_s: Callable[[], float]) -> Self:
        """Have every attempt measured, by such a clock; return the profile."""
        self.measuring = measuring = Measuring(metrics, self.name, self._sets.points, now_s)
        for plugin in self.plugins.values():
            if isinstance(plugin, FencedPlugin):
                plugin.kubesched_fence.attempt = lambda: measuring.attempts
        return self

    def _run(self, point: str, call: Callable[..., AnswerT], *arguments: Any) -> AnswerT:
        """Run a point, and have it measured if somebody wants to know."""
        measuring = self.measuring
        return call(*arguments) if measuring is None else measuring.run(point, call, *arguments)

    def _wait(self, point: str, answer: Awaitable[AnswerT]) -> Awaitable[AnswerT]:
        """Return a point to wait for, measured if somebody wants to know."""
        measuring = self.measuring
        return answer if measuring is None else measuring.wait(point, answer)

    def without_caching(self) -> Self:
        """Have every attempt ask every plugin about every node; return the profile."""
        self.planner = None
        self.filters.trusts_reads = False
        return self

    def __repr__(self) -> str:
        return f"<Profile {self.name} with {len(self.plugins)} plugins>"

    # -- what is enabled ------------------------------------------------------------------------

    def plugin_names(self, point: str) -> tuple[str, ...]:
        """Return the plugins of an extension point (`preFilter`, `score`, ...) in run order."""
        return self._sets.points.get(point, ())

    @property
    def score_weights(self) -> Mapping[str, int]:
        """Return the weight of each scoring plugin."""
        return self._sets.score_weights

    def list_plugins(self) -> dict[str, list[tuple[str, int]]]:
        """Return every point that has plugins, with name and weight (0 where none applies)."""
        weights = {"score": self._sets.score_weights}
        weights["placementScore"] = self._sets.placement_score_weights
        return {
            point: [(name, weights.get(point, {}).get(name, 0)) for name in names]
            for point, names in self._sets.points.items()
            if names
        }

    @property
    def has_filter_plugins(self) -> bool:
        """Return whether any plugin filters."""
        return bool(self._at["filter"])

    @property
    def has_post_filter_plugins(self) -> bool:
        """Return whether any plugin tries to make room."""
        return bool(self._at["postFilter"])

    @property
    def has_score_plugins(self) -> bool:
        """Return whether any plugin scores."""
        return bool(self._at["score"])

    def event_registrations(self) -> dict[str, Sequence[EventRegistration] | None]:
        """Return what each plugin registered for; None for one that does not say."""
        return {
            name: plugin.events_to_register() if hasattr(plugin, "events_to_register") else None
            for name, plugin in self.plugins.items()
        }

    # -- queueing -------------------------------------------------------------------------------

    def run_pre_enqueue_plugins(self, pod: PodInfo) -> Status | None:
        """Return why the pod may not be tried yet."""
        for plugin in self._at["preEnqueue"]:
            status: Status | None = guarded(plugin.pre_enqueue, pod)
            if status is not None and not status.is_success:
                return status.by(plugin.name)
        return None

    def less(self, first: Any, second: Any) -> bool:
        """Return whether the first queued pod goes before the second."""
        answer: bool = self._at["queueSort"][0].less(first, second)
        return answer

    def sign_pod(self, pod: PodInfo) -> list[SignFragment] | None:
        """Return what tells pods apart to this profile's plugins; None if that cannot be said."""
        fragments: dict[str, SignFragment] = {}
        signers = {
            plugin.name: plugin
            for point in ("preFilter", "filter", "preScore", "score")
            for plugin in self._at[point]
        }
        for plugin in signers.values():
            if not hasattr(plugin, "sign_pod"):
                return None
            signed = guarded(plugin.sign_pod, pod)
            if isinstance(signed, Status):
                return None
            fragments.update({fragment.key: fragment for fragment in signed})
        return [fragments[key] for key in sorted(fragments)]

    # -- the scheduling cycle ---------------------------------------------------------------------

    def run_pre_filter_plugins(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> PreFilterOutcome:
        """Prepare filtering; nodes are all nodes."""
        outcome = self._run("PreFilter", self.filters.pre_filter, state, pod, nodes)
        if self.measuring is not None:
            last = self._last_asked(outcome)
            self.measuring.evaluated_until("PreFilter", last, state.skip_filter_plugins)
        return outcome

    def _last_asked(self, outcome: PreFilterOutcome) -> str:
        """Return which pre-filter plugin ended its point; none if all were asked."""
        status = outcome.status
        if status is None or status.code is Code.UNSCHEDULABLE:
            return ""
        if status.plugin:
            return status.plugin
        named, in_order = outcome.plugins_with_nodes, reversed(self.plugin_names("preFilter"))
        return next((name for name in in_order if name in named), "")

    def run_pre_filter_extension_add_pods(
        self, state: CycleState, pod: PodInfo, added: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Tell the filters that a pod is supposed on each of a trial's nodes."""
        return self.filters.change_pods("add", state, pod, added, nodes)

    def run_pre_filter_extension_remove_pods(
        self, state: CycleState, pod: PodInfo, removed: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Tell the filters that a pod is supposed gone from each of a trial's nodes."""
        return self.filters.change_pods("remove", state, pod, removed, nodes)

    def run_filter_plugins(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Verdicts:
        """Judge nodes as they are."""
        return self.filters.judge(state, pod, nodes)

    def run_filter_plugins_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Verdicts:
        """Judge nodes with and without the pods that were promised them."""
        return self.filters.judge_with_nominated(state, pod, nodes)

    def run_post_filter_plugins(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Try to make room, where nobody waits."""
        plugins = self._at["postFilter"]
        return self._run("PostFilter", post_filter, plugins, state, pod, statuses)

    async def run_post_filter_plugins_live(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Try to make room; plugins that wait, as for extenders, are waited for."""
        plugins = self._at["postFilter"]
        return await self._wait("PostFilter", post_filter_waiting(plugins, state, pod, statuses))

    def run_pre_score_plugins(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Status | None:
        """Prepare scoring; nodes are those that fit."""
        failure = self._run("PreScore", self._scores.pre_score, state, pod, nodes)
        if self.measuring is not None:
            self.measuring.evaluated("PreScore", state.skip_score_plugins)
        return failure

    def run_score_plugins(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Scores | Status:
        """Score the nodes that fit."""
        scores = self._run("Score", self._scores.score, state, pod, nodes)
        if self.measuring is not None:
            self.measuring.evaluated("Score", state.skip_score_plugins, len(nodes))
        return scores

    def run_reserve_plugins_reserve(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | None:
        """Have plugins take what the node gives; the first failure ends it."""
        skipped = state.skip_filter_plugins
        plugins = self._reserving.get(skipped)
        if plugins is None:
            plugins = self._reserving[skipped] = self._with_something_to_reserve(skipped)
        if state.plugin_times is not None:
            plugins = self._at["reserve"]  # Whoever measures calls wants to see all of them.
        if not plugins and self.measuring is None:
            return None
        return self._run("Reserve", bind_phase.reserve, plugins, state, pod, node_name, self.log)

    def _with_something_to_reserve(self, skipped: frozenset[str]) -> tuple[Any, ...]:
        """Return the plugins to be asked, in order, if some were left out of filtering."""

        def is_idle(plugin: Any) -> bool:
            # Not by inheritance: a class made from another may have more to reserve.
            return vars(type(plugin)).get("reserves_if_skipped") is False

        return tuple(p for p in self._at["reserve"] if p.name not in skipped or not is_idle(p))

    def run_reserve_plugins_unreserve(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> None:
        """Have all plugins give back, in reverse order."""
        plugins = self._at["reserve"]
        self._run("Unreserve", bind_phase.unreserve, plugins, state, pod, node_name, self.log)

    # -- the binding cycle ------------------------------------------------------------------------

    async def run_permit_plugins(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> bind_phase.PermitOutcome:
        """Ask whether the pod may be bound now."""
        permit = bind_phase.permit(self._at["permit"], state, pod, node_name, self.log)
        return await self._wait("Permit", permit)

    def run_pre_bind_pre_flights(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | None:
        """Find out which pre-bind plugins have work, and which may run side by side."""
        plugins, fly = self._at["preBind"], bind_phase.pre_flight
        return self._run("PreBindPreFlight", fly, plugins, state, pod, node_name, self.log)

    async def run_pre_bind_plugins(
        self,
        state: CycleState,
        pod: PodInfo,
        node_name: str,
        side_by_side: bind_phase.SideBySide | None = None,
    ) -> Status | None:
        """Do what must precede the binding; without `side_by_side`, one after the other."""
        plugins, log = self._at["preBind"], self.log
        if side_by_side is not None and self.measuring is not None:
            side_by_side = self.measuring.counting("PreBind", side_by_side)
        pre_bind = bind_phase.pre_bind(plugins, state, pod, node_name, side_by_side, log)
        return await self._wait("PreBind", pre_bind)

    async def run_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Have the first plugin that does not skip write the binding."""
        bind = bind_phase.bind(self._at["bind"], state, pod, node_name, self.log)
        return await self._wait("Bind", bind)

    async def run_post_bind_plugins(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Tell plugins that the pod was bound."""
        post_bind = bind_phase.post_bind(self._at["postBind"], state, pod, node_name, self.log)
        await self._wait("PostBind", post_bind)
