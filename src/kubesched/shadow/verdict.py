"""Comparison of two schedulers' decisions for one pod, and the reason for a difference.

Owns the comparison and its texts. Decides on the current snapshot; never changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from kubesched.attempt.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.explanation.decision import Decision, decide
from kubesched.explanation.report import difference
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.profile import Profile
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView

Result: TypeAlias = Literal["same", "tie", "different_node", "we_reject", "they_reject", "text"]
RESULTS: Final[tuple[Result, ...]] = get_args(Result)
AGREEING: Final[tuple[Result, ...]] = ("same", "tie")


@dataclass(frozen=True, slots=True)
class TheirDecision:
    """The decision of the other scheduler for a pod."""

    pod: PodInfo
    """The pending pod."""
    node_name: str
    """The node it was bound to; empty if it was rejected."""
    message: str = ""
    """The rejection message."""


class ComparedDecision(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The comparison of both decisions, as a line of the report file has it."""

    pod: str
    profile: str
    result: Result
    theirs: str = ""
    """The other scheduler's node; empty if it rejected the pod."""
    ours: str = ""
    why: str = ""
    """The reason for the difference; empty if there is none."""
    their_total: int | None = None
    our_total: int | None = None
    points: dict[str, int] = {}
    """The lead of our node over theirs by plugin."""
    their_message: str = ""
    our_message: str = ""

    @property
    def agrees(self) -> bool:
        """Return whether the decisions do not differ."""
        return self.result in AGREEING


def compare(
    profile: Profile, view: ClusterView, theirs: TheirDecision, search: Search
) -> ComparedDecision:
    """Decide for the pod on a snapshot, and compare.

    Args:
        profile: the profile of the pod.
        view: the cluster before the pod was bound.
        theirs: the decision of the other scheduler.
        search: the node sampling of the other scheduler; it is not changed.
    """
    their_node, their_text = theirs.node_name, theirs.message
    same = ComparedDecision(theirs.pod.key, profile.name, "same", their_node, their_node)
    if their_node and _quick_choice(profile, view, theirs.pod) == their_node:
        return same
    ours = decide(profile, view, theirs.pod)
    host, our_text = ours.suggested_host, ours.message_after_post_filter or ""
    if not their_node and host:
        why = f"{host} fits; theirs: {their_text}"
        return replace(same, result="they_reject", ours=host, why=why, their_message=their_text)
    if not their_node and our_text == their_text:
        return same
    if not their_node:
        why = f"theirs: {their_text}; ours: {our_text}"
        return replace(same, result="text", why=why, their_message=their_text, our_message=our_text)
    if not host:
        why = f"{_rejection_of(view, their_node, ours)}; ours: {our_text}"
        return replace(same, result="we_reject", ours="", why=why, our_message=our_text)
    if their_node in ours.best:
        return replace(same, result="tie", ours=host)
    return _another_node(replace(same, ours=host), profile, view, theirs.pod, ours, search)


def failed(profile: Profile, theirs: TheirDecision, problem: Exception) -> ComparedDecision:
    """Return the verdict if our decision failed."""
    text = f"{type(problem).__name__}: {problem}"
    return ComparedDecision(
        theirs.pod.key,
        profile.name,
        "we_reject" if theirs.node_name else "text",
        theirs.node_name,
        why=f"kubesched failed to decide: {text}",
        their_message=theirs.message,
        our_message=text,
    )


def _quick_choice(profile: Profile, view: ClusterView, pod: PodInfo) -> str:
    """Return the chosen node, without the detail of a full decision."""
    search = Search(all_nodes=True)
    try:
        attempt = schedule_pod(profile, view, CycleState(), pod, search)
        return run_without_extenders(attempt).suggested_host
    except (FitError, NoNodesError, SchedulingError):
        return ""


def _another_node(  # Both decisions and how they were made.
    verdict: ComparedDecision,
    profile: Profile,
    view: ClusterView,
    pod: PodInfo,
    ours: Decision,
    search: Search,
) -> ComparedDecision:
    host, their_node = verdict.ours, verdict.theirs
    their_scores = ours.scores.get(their_node)
    if their_scores is None:
        why = _rejection_of(view, their_node, ours)
        if host == pod.nominated_node_name:
            why = f"the pod is nominated to {host}, which fits"
        return replace(verdict, result="different_node", why=why)
    our_scores = ours.scores[host]
    our_total, their_total = our_scores["total"], their_scores["total"]
    points = difference(_by_plugin(our_scores), _by_plugin(their_scores))
    listed = ", ".join(f"{plugin} {more:+d}" for plugin, more in points.items())
    why = f"{host} has {our_total} points, {their_node} has {their_total}: {listed}"
    is_sampled = _is_sampled(profile, view, their_node, ours, search)
    if is_sampled:
        why += f"; theirs may be the best node of a sample of the {view.node_count} nodes"
    return replace(
        verdict,
        result="tie" if is_sampled else "different_node",
        why=why,
        their_total=their_total,
        our_total=our_total,
        points=points,
    )


def _by_plugin(scores: Mapping[str, int]) -> dict[str, int]:
    return {plugin: points for plugin, points in scores.items() if plugin != "total"}


def _rejection_of(view: ClusterView, node_name: str, ours: Decision) -> str:
    """Return why kubesched rejects a node."""
    if view.row_of(node_name) < 0:
        return f"{node_name} is unknown"
    status = ours.rejected.get(node_name, ours.pre_filter_rejected)
    if status is None:
        return f"{node_name} was not evaluated"
    by = f" by {status.plugin}" if status.plugin else ""
    return f"{node_name} is rejected{by}: {status.message}"


def _is_sampled(
    profile: Profile, view: ClusterView, theirs: str, ours: Decision, search: Search
) -> bool:
    """Return whether a sampled search may have found their node and no better one.

    The start of a sampled search is unknown, but it visits neighboring nodes: their node must have
    enough fitting neighbors without a better one among them.
    """
    want = search.want(profile, view.node_count)
    fitting = [name for name in view.all_nodes().names if name in ours.scores]
    if want >= len(fitting):
        return False
    total = ours.scores[theirs]["total"]
    place = fitting.index(theirs)
    # Their node first, then the others in visiting order.
    ring = fitting[place:] + fitting[:place]
    better = [at for at, name in enumerate(ring) if ours.scores[name]["total"] > total]
    return better[0] + len(ring) - better[-1] - 1 >= want
