"""The `filter` and `prioritize` verbs, served by Python plugins.

Owns the extension points that a verb runs, and the conversion of verdicts into results. A call runs
between two changes of the cluster state without awaiting. Never handles HTTP, and never chooses a
node: the calling scheduler does.
Upstream: pkg/scheduler/extender.go (the client), staging/src/k8s.io/kube-scheduler/extender/v1
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Final, NamedTuple

import numpy as np
from msgspec import Raw

from kubesched.api.decode import decode_as
from kubesched.api.pod import Pod
from kubesched.extender.server.cluster_state import ClusterState, RequestedNodes, requested_nodes
from kubesched.extender.server.prioritize_shortcuts import (
    PredictedCall,
    predict_prioritize,
    state_of,
)
from kubesched.extender.wire import (
    MAX_EXTENDER_PRIORITY,
    ExtenderArgs,
    ExtenderFilterResult,
    NodeList,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Code, Status, unresolvable
from kubesched.framework.verdicts import Verdicts
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import Rows

_NO_SCORES: Final[IntColumn] = np.zeros(0, dtype=np.int64)
_TEMPLATES_MAX: Final = 4096
UNKNOWN_NODE: Final = "the extender does not know the node yet"


class ServiceError(Exception):
    """A call failed: a plugin failed, or the cluster state is incomplete."""


class PodsUnknownError(ServiceError):
    """A plugin may read pods, which are not watched yet."""

    def __init__(self) -> None:
        super().__init__("the extender has not read all pods yet")


class FilterOutcome(NamedTuple):
    """The result of `filter`, and the fields of its log line."""

    result: ExtenderFilterResult
    pod: PodInfo
    node_count: int
    kept: int


class PrioritizeOutcome(NamedTuple):
    """The result of `prioritize`, and the fields of its log line."""

    hosts: Sequence[str]
    rows: Rows
    """Of each of them."""
    scores: IntColumn
    """Of each of them."""
    pod: PodInfo
    node_count: int
    best: str = ""
    """A node with the highest score."""
    state: Hashable = None
    """Changes when a row may belong to another node."""


@dataclass(slots=True)
class ExtenderService:
    """Runs plugins on the cluster state."""

    cluster: ClusterState
    profiles: Mapping[str, Profile]
    """By scheduler name; the first one is for pods with other names."""
    max_score: int = MAX_EXTENDER_PRIORITY
    """The highest score in a result."""
    _next: PredictedCall | None = None
    _without_pods: dict[Hashable, None] = field(default_factory=dict)
    """Pod templates for which no plugin reads pods."""

    def pod_of(self, raw: Raw) -> PodInfo:
        """Return the pod of a call; MalformedObject if it is malformed."""
        data = bytes(raw)
        return self.cluster.cache.pod_info(decode_as(Pod, data), data)

    def profile_of(self, pod: PodInfo) -> Profile:
        """Return the profile of a pod."""
        return self.profiles.get(pod.scheduler_name) or next(iter(self.profiles.values()))

    def check_synced(self) -> None:
        """Raise ServiceError until all kinds have been listed."""
        if not self.cluster.has_synced:
            missing = ", ".join(self.cluster.missing)
            raise ServiceError(f"the extender has not read all {missing} yet")

    def check_pods(self, profile: Profile, pod: PodInfo) -> None:
        """Raise PodsUnknownError if a plugin may read pods and they are not watched."""
        if self.cluster.knows_pods:
            return
        templates, key = self._without_pods, (profile.name, pod.template)
        # The declarations of other plugins may depend on more fields of the pod.
        if key in templates and not profile.pod_keys.guarded:
            return
        if profile.may_read_pods(pod):
            raise PodsUnknownError
        templates[key] = None
        if len(templates) > _TEMPLATES_MAX:
            del templates[next(iter(templates))]

    # -- filter -----------------------------------------------------------------------------------

    def filter(self, args: ExtenderArgs, body: bytes = b"") -> FilterOutcome:
        """Filter nodes.

        Args:
            args: The arguments of the call.
            body: Their JSON, for predicting the `prioritize` call that follows.

        Raises:
            ServiceError: A plugin failed, or the cluster state is incomplete.
            MalformedObject: The pod or a node is malformed.
        """
        self.check_synced()
        pod = self.pod_of(args.pod)
        with requested_nodes(self.cluster, args) as nodes:
            verdicts = self._judge(pod, nodes)
            fits = verdicts.fits
            result = _filter_result(args, nodes, verdicts, fits)
            kept = int(np.count_nonzero(fits))
            if body and result.node_names:
                table, names = nodes.table, result.node_names
                self._next = predict_prioritize(body, pod, names, table.rows[fits], table.view)
        return FilterOutcome(result, pod, len(nodes), kept)

    def _judge(self, pod: PodInfo, nodes: RequestedNodes) -> Verdicts:
        """Return the verdicts on the known nodes, in order."""
        profile, state = self.profile_of(pod), CycleState()
        self.check_pods(profile, pod)
        only, rejection = self.run_pre_filter(profile, state, pod)
        if rejection is not None:
            verdicts = Verdicts(len(nodes.table))
            verdicts.reject(np.ones(len(nodes.table), dtype=np.bool_), rejection)
            return verdicts
        verdicts = profile.run_filter_plugins_with_nominated_pods(state, pod, nodes.table)
        failure = verdicts.first_error()
        if failure is not None:
            raise ServiceError(failure.message)
        if only is not None:
            names, status = only
            outside = np.array([name not in names for name in nodes.table.names], dtype=np.bool_)
            verdicts.ids[outside] = verdicts.id_for(status)
        return verdicts

    def run_pre_filter(
        self, profile: Profile, state: CycleState, pod: PodInfo
    ) -> tuple[tuple[frozenset[str], Status] | None, Status | None]:
        """Run the pre-filter plugins.

        Return the only eligible nodes with the status of all others, and the rejection of the pod;
        each None if there is none.

        Raises:
            ServiceError: A plugin failed.
        """
        if not profile.plugin_names("preFilter"):
            return None, None
        all_nodes = self.cluster.cache.snapshot().all_nodes()
        outcome = profile.run_pre_filter_plugins(state, pod, all_nodes)
        if outcome.status is not None:
            if not outcome.status.is_rejected:
                raise ServiceError(outcome.status.message)
            return None, outcome.status
        if outcome.node_names is None:
            return None, None
        # Parity: schedule_one.go findNodesThatFitPod, v1.36.
        listed = " ".join(outcome.plugins_with_nodes)
        others = unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}]")
        return (outcome.node_names, others), None

    # -- prioritize -------------------------------------------------------------------------------

    def prioritize(self, args: ExtenderArgs) -> PrioritizeOutcome:
        """Score nodes; the result leaves out unknown nodes.

        Raises:
            ServiceError: A plugin failed, or the cluster state is incomplete.
            MalformedObject: The pod or a node is malformed.
        """
        self.check_synced()
        pod = self.pod_of(args.pod)
        with requested_nodes(self.cluster, args) as nodes:
            return self._score_nodes(pod, nodes)

    def prioritize_next(self, body: bytes) -> PrioritizeOutcome | None:
        """Score nodes if the call is the predicted one; None for any other call.

        Raises:
            ServiceError: A plugin failed, or the cluster state is incomplete.
        """
        call, view = self._next, self.cluster.cache.snapshot()
        if call is None or not call.matches(body, view):
            return None
        self.check_synced()
        return self._score_nodes(call.pod, RequestedNodes(call.names, view.nodes_at(call.rows)))

    def _score_nodes(self, pod: PodInfo, nodes: RequestedNodes) -> PrioritizeOutcome:
        profile, state, table = self.profile_of(pod), CycleState(), nodes.table
        if not profile.has_score_plugins or len(table) == 0:
            return PrioritizeOutcome([], _NO_SCORES, _NO_SCORES, pod, len(nodes))
        self.check_pods(profile, pod)
        # The cycle state of the filter call is not kept.
        _, rejection = self.run_pre_filter(profile, state, pod)
        failure = rejection or profile.run_pre_score_plugins(state, pod, table)
        if failure is not None:
            raise ServiceError(failure.message)
        scores = profile.run_score_plugins(state, pod, table)
        if isinstance(scores, Status):
            raise ServiceError(scores.message)
        highest = NODE_SCORE_MAX * sum(profile.score_weights.values())
        scaled = scores.total * self.max_score // highest
        names = nodes.known_names
        best = names[int(scores.total.argmax())]
        rows, nodes_state = table.rows, state_of(table.view)
        return PrioritizeOutcome(names, rows, scaled, pod, len(nodes), best, nodes_state)


def _filter_result(
    args: ExtenderArgs, nodes: RequestedNodes, verdicts: Verdicts, fits: BoolColumn
) -> ExtenderFilterResult:
    """Return the result, with names or whole nodes as in the arguments."""
    if nodes.is_known is None and fits.all():
        return ExtenderFilterResult(nodes=args.nodes, node_names=args.node_names)
    failed, unresolvable_nodes = _rejections(nodes, verdicts)
    result = ExtenderFilterResult(
        failed_nodes=failed, failed_and_unresolvable_nodes=unresolvable_nodes
    )
    chosen = nodes.chosen(fits)
    if args.nodes is not None:
        items = list(compress(args.nodes.items or (), chosen))
        result.nodes = NodeList(metadata=args.nodes.metadata, items=items)
    if args.node_names is not None:
        result.node_names = list(compress(nodes.names, chosen))
    return result


def _rejections(nodes: RequestedNodes, verdicts: Verdicts) -> tuple[dict[str, str], dict[str, str]]:
    """Return the messages of rejected nodes: those that preemption may help, and the others."""
    failed = dict.fromkeys(nodes.unknown_names, UNKNOWN_NODE)
    unresolvable_nodes: dict[str, str] = {}
    names = nodes.known_names
    targets = [
        (
            unresolvable_nodes if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else failed,
            status.message,
        )
        for status in verdicts.statuses
    ]
    rejected = np.flatnonzero(verdicts.ids)
    for place, number in zip(rejected.tolist(), verdicts.ids[rejected].tolist(), strict=True):
        target, text = targets[number]
        target[names[place]] = text
    return failed, unresolvable_nodes
