"""Python plugins as an extender: what they say when another scheduler asks.

Owns which plugins answer which verb, and how their verdicts become the answer. A call is answered
between two changes of the cluster, in one go; only binding waits. Never speaks HTTP, and never
chooses a node: the scheduler that asks does.
Upstream: pkg/scheduler/extender.go (the other end), staging/src/k8s.io/kube-scheduler/extender/v1
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Final, NamedTuple

import numpy as np
from msgspec import Raw

from kubesched.app.extender_foreseen import Foreseen, foreseen, state_of
from kubesched.app.extender_nodes import AskedNodes, asked_nodes
from kubesched.app.extender_world import ExtenderWorld
from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import Rows
from kubesched.extender.wire import (
    MAX_EXTENDER_PRIORITY,
    ExtenderArgs,
    ExtenderFilterResult,
    NodeList,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.profile import Profile
from kubesched.framework.status import Code, Status, unresolvable
from kubesched.framework.verdicts import Verdicts
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import decode_as
from kubesched.objects.pod import Pod

_NO_SCORES: Final[IntColumn] = np.zeros(0, dtype=np.int64)
_TEMPLATES_MAX: Final = 4096
UNKNOWN_NODE: Final = "the extender has not heard of the node yet"


class ServiceError(Exception):
    """A call that cannot be answered: a plugin failed, or too little is known of the cluster."""


class PodsUnknownError(ServiceError):
    """A plugin may look at pods, which nobody has read so far."""

    def __init__(self) -> None:
        super().__init__("the extender has not read all pods yet")


class Filtered(NamedTuple):
    """The answer to `filter`, and what the log says of it."""

    result: ExtenderFilterResult
    pod: PodInfo
    asked: int
    kept: int


class Prioritized(NamedTuple):
    """The answer to `prioritize`, and what the log says of it."""

    hosts: Sequence[str]
    rows: Rows
    """Of each of them."""
    scores: IntColumn
    """Of each of them."""
    pod: PodInfo
    asked: int
    best: str = ""
    """A node with the highest score."""
    state: Hashable = None
    """Tells when rows may have become other nodes'."""


@dataclass(slots=True)
class ExtenderService:
    """Answers calls from what is known of the cluster and what plugins say."""

    world: ExtenderWorld
    profiles: Mapping[str, Profile]
    """By scheduler name; pods that name none of them are the first one's."""
    max_score: int = MAX_EXTENDER_PRIORITY
    """What the highest score of a plugin is told as."""
    _next: Foreseen | None = None
    _without_pods: dict[Hashable, None] = field(default_factory=dict)
    """Templates for which no plugin looks at pods."""

    def pod_of(self, raw: Raw) -> PodInfo:
        """Return the pod of a call; MalformedObject if it is none."""
        data = bytes(raw)
        return self.world.cache.pod_info(decode_as(Pod, data), data)

    def profile_of(self, pod: PodInfo) -> Profile:
        """Return the plugins that a pod is judged by."""
        found = self.profiles.get(pod.scheduler_name)
        return next(iter(self.profiles.values())) if found is None else found

    def check_synced(self) -> None:
        """Raise ServiceError while nodes and pods are still being read."""
        if not self.world.has_synced:
            missing = ", ".join(self.world.missing)
            raise ServiceError(f"the extender has not read all {missing} yet")

    def check_pods(self, profile: Profile, pod: PodInfo) -> None:
        """Raise PodsUnknownError if plugins may look at pods, and nobody reads them."""
        if self.world.knows_pods:
            return
        known, key = self._without_pods, (profile.name, pod.template)
        if key in known:
            return
        if profile.may_read_pods(pod):
            raise PodsUnknownError
        known[key] = None
        if len(known) > _TEMPLATES_MAX:
            del known[next(iter(known))]

    # -- filter -----------------------------------------------------------------------------------

    def filter(self, args: ExtenderArgs, body: bytes = b"") -> Filtered:
        """Have plugins refuse nodes.

        Args:
            args: What is asked.
            body: The same as it came, if `prioritize_next` is to know what comes after it.

        Raises:
            ServiceError: A plugin failed, or not everything is known yet.
            MalformedObject: The pod or a node cannot be read.
        """
        self.check_synced()
        pod = self.pod_of(args.pod)
        with asked_nodes(self.world, args) as nodes:
            verdicts = self._judged(pod, nodes)
            fits = verdicts.fits
            result = _filter_result(args, nodes, verdicts, fits)
            kept = int(np.count_nonzero(fits))
            if body and result.node_names:
                table, left = nodes.table, result.node_names
                self._next = foreseen(body, pod, left, table.rows[fits], table.view)
        return Filtered(result, pod, len(nodes), kept)

    def _judged(self, pod: PodInfo, nodes: AskedNodes) -> Verdicts:
        """Return the verdict on every node that is known, in their order."""
        profile, state = self.profile_of(pod), CycleState()
        self.check_pods(profile, pod)
        only, refusal = self.prepared(profile, state, pod)
        if refusal is not None:
            verdicts = Verdicts(len(nodes.table))
            verdicts.refuse(np.ones(len(nodes.table), dtype=np.bool_), refusal)
            return verdicts
        verdicts = profile.run_filter_plugins_with_nominated_pods(state, pod, nodes.table)
        failure = verdicts.first_error()
        if failure is not None:
            raise ServiceError(failure.message)
        if only is not None:
            names, by_whom = only
            outside = np.array([name not in names for name in nodes.table.names], dtype=np.bool_)
            verdicts.ids[outside] = verdicts.id_for(by_whom)
        return verdicts

    def prepared(
        self, profile: Profile, state: CycleState, pod: PodInfo
    ) -> tuple[tuple[frozenset[str], Status] | None, Status | None]:
        """Have plugins look at a pod, and at all nodes, before they judge single ones.

        Return the only nodes worth looking at with the verdict on the others, and the refusal of
        the pod as a whole; each None if there is none.

        Raises:
            ServiceError: A plugin failed.
        """
        if not profile.plugin_names("preFilter"):
            return None, None
        everything = self.world.cache.snapshot().all_nodes()
        outcome = profile.run_pre_filter_plugins(state, pod, everything)
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

    def prioritize(self, args: ExtenderArgs) -> Prioritized:
        """Have plugins score nodes; those that are not known get nothing.

        Raises:
            ServiceError: A plugin failed, or not everything is known yet.
            MalformedObject: The pod or a node cannot be read.
        """
        self.check_synced()
        pod = self.pod_of(args.pod)
        with asked_nodes(self.world, args) as nodes:
            return self._prioritized(pod, nodes)

    def prioritize_next(self, body: bytes) -> Prioritized | None:
        """Have plugins score the nodes that `filter` has just left; None if others are asked about.

        Raises:
            ServiceError: A plugin failed, or not everything is known any more.
        """
        call, view = self._next, self.world.cache.snapshot()
        if call is None or not call.is_asked_by(body, view):
            return None
        self.check_synced()
        return self._prioritized(call.pod, AskedNodes(call.names, view.nodes_at(call.rows)))

    def _prioritized(self, pod: PodInfo, nodes: AskedNodes) -> Prioritized:
        profile, state, table = self.profile_of(pod), CycleState(), nodes.table
        if not profile.has_score_plugins or len(table) == 0:
            return Prioritized([], _NO_SCORES, _NO_SCORES, pod, len(nodes))
        self.check_pods(profile, pod)
        # What a plugin wrote when it filtered went with that call.
        _, refusal = self.prepared(profile, state, pod)
        failure = refusal or profile.run_pre_score_plugins(state, pod, table)
        if failure is not None:
            raise ServiceError(failure.message)
        scores = profile.run_score_plugins(state, pod, table)
        if isinstance(scores, Status):
            raise ServiceError(scores.message)
        highest = NODE_SCORE_MAX * sum(profile.score_weights.values())
        told = scores.total * self.max_score // highest
        names = nodes.known_names
        best = names[int(scores.total.argmax())]
        state_now = state_of(table.view)
        return Prioritized(names, table.rows, told, pod, len(nodes), best, state_now)


def _filter_result(
    args: ExtenderArgs, nodes: AskedNodes, verdicts: Verdicts, fits: BoolColumn
) -> ExtenderFilterResult:
    """Return the answer in the form in which nodes were given."""
    if nodes.is_known is None and fits.all():
        return ExtenderFilterResult(nodes=args.nodes, node_names=args.node_names)
    failed, unresolvable_nodes = _refusals(nodes, verdicts)
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


def _refusals(nodes: AskedNodes, verdicts: Verdicts) -> tuple[dict[str, str], dict[str, str]]:
    """Return why nodes are refused: those that removing pods may cure, and the others."""
    failed = dict.fromkeys(nodes.unknown_names, UNKNOWN_NODE)
    incurable: dict[str, str] = {}
    names = nodes.known_names
    answers = [
        (
            incurable if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else failed,
            status.message,
        )
        for status in verdicts.statuses
    ]
    refused = np.flatnonzero(verdicts.ids)
    for place, number in zip(refused.tolist(), verdicts.ids[refused].tolist(), strict=True):
        answer, text = answers[number]
        answer[names[place]] = text
    return failed, incurable
