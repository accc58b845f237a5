"""One pod, decided by two schedulers: whether that came out the same, and if not, why.

Owns the comparison and its words. It decides by itself, over the columns as they stand; never
writes a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from kubesched.columns.view import ClusterView
from kubesched.engine.decide import Decision, decide
from kubesched.engine.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.engine.explanation import difference
from kubesched.engine.schedule_pod import schedule_without_extenders
from kubesched.engine.search import Search
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.profile import Profile
from kubesched.framework.status import Status
from kubesched.model.pod_info import PodInfo

Result: TypeAlias = Literal["same", "tie", "different_node", "we_refuse", "they_refuse", "text"]
RESULTS: Final[tuple[Result, ...]] = get_args(Result)
AGREEING: Final[tuple[Result, ...]] = ("same", "tie")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the other scheduler made of a pod."""

    pod: PodInfo
    """As it waited."""
    node_name: str
    """Where it was bound to; empty if it was refused."""
    message: str = ""
    """Why it was refused."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How both decisions compare."""

    pod: str
    profile: str
    result: Result
    theirs: str
    """The node that the other scheduler chose; empty if it chose none."""
    ours: str
    why: str = ""
    """What makes the difference, for people; empty where there is none."""
    their_total: int | None = None
    our_total: int | None = None
    points: Mapping[str, int] = field(default_factory=dict)
    """By plugin, how many points our node has more than theirs."""
    their_message: str = ""
    our_message: str = ""

    @property
    def agrees(self) -> bool:
        """Return whether there is no difference."""
        return self.result in AGREEING


def compare(profile: Profile, view: ClusterView, theirs: Outcome, search: Search) -> Verdict:
    """Decide for the pod as things stand, and compare.

    Args:
        profile: that decides.
        view: the cluster, as it was before the pod was bound.
        theirs: what the other scheduler decided.
        search: how far that one looks; nothing is changed in it.
    """
    if theirs.node_name and _quick_choice(profile, view, theirs.pod) == theirs.node_name:
        return _verdict(profile, theirs, "same", theirs.node_name)
    ours = decide(profile, view, theirs.pod)
    if not theirs.node_name:
        return _both_or_one_refused(profile, theirs, ours)
    if not ours.suggested_host:
        return _refused_by_us(profile, view, theirs, ours)
    if theirs.node_name in ours.best:
        return _verdict(profile, theirs, "tie", ours.suggested_host)
    return _another_node(profile, view, theirs, ours, search)


def failed(profile: Profile, theirs: Outcome, problem: Exception) -> Verdict:
    """Return the verdict where our own decision broke off."""
    text = f"{type(problem).__name__}: {problem}"
    return Verdict(
        theirs.pod.key,
        profile.name,
        "we_refuse" if theirs.node_name else "text",
        theirs.node_name,
        "",
        f"our decision broke off: {text}",
        their_message=theirs.message,
        our_message=text,
    )


def _quick_choice(profile: Profile, view: ClusterView, pod: PodInfo) -> str:
    """Return the node that is chosen, without what an explanation needs."""
    search = Search(all_nodes=True)
    try:
        return schedule_without_extenders(profile, view, CycleState(), pod, search).suggested_host
    except (FitError, NoNodesError, SchedulingError):
        return ""


def _verdict(profile: Profile, theirs: Outcome, result: Result, ours: str) -> Verdict:
    return Verdict(theirs.pod.key, profile.name, result, theirs.node_name, ours)


def _both_or_one_refused(profile: Profile, theirs: Outcome, ours: Decision) -> Verdict:
    pod, their_text = theirs.pod.key, theirs.message
    if ours.suggested_host:
        return Verdict(
            pod,
            profile.name,
            "they_refuse",
            "",
            ours.suggested_host,
            f"{ours.suggested_host} fits; they say: {their_text}",
            their_message=their_text,
        )
    our_text = ours.message_after_post_filter or ""
    if our_text == their_text:
        return _verdict(profile, theirs, "same", "")
    return Verdict(
        pod,
        profile.name,
        "text",
        "",
        "",
        f"they say: {their_text}; we say: {our_text}",
        their_message=their_text,
        our_message=our_text,
    )


def _refused_by_us(profile: Profile, view: ClusterView, theirs: Outcome, ours: Decision) -> Verdict:
    our_text = ours.message_after_post_filter or ""
    return Verdict(
        theirs.pod.key,
        profile.name,
        "we_refuse",
        theirs.node_name,
        "",
        f"{_refusal_of(view, theirs.node_name, ours)}; we say: {our_text}",
        our_message=our_text,
    )


def _another_node(
    profile: Profile, view: ClusterView, theirs: Outcome, ours: Decision, search: Search
) -> Verdict:
    pod, host = theirs.pod.key, ours.suggested_host
    their_scores = ours.scores.get(theirs.node_name)
    if their_scores is None:
        why = _refusal_of(view, theirs.node_name, ours)
        if host == theirs.pod.nominated_node_name:
            why = f"{host} was promised to the pod, and fits"
        return Verdict(pod, profile.name, "different_node", theirs.node_name, host, why)
    our_scores = ours.scores[host]
    our_total, their_total = our_scores["total"], their_scores["total"]
    points = difference(_by_plugin(our_scores), _by_plugin(their_scores))
    listed = ", ".join(f"{plugin} {more:+d}" for plugin, more in points.items())
    why = f"{host} has {our_total} points, {theirs.node_name} has {their_total}: {listed}"
    sampled = _is_sampled(profile, view, theirs.node_name, ours, search)
    if sampled:
        why += f"; of {view.node_count} nodes only a part is looked at, where theirs may be best"
    return Verdict(
        pod,
        profile.name,
        "tie" if sampled else "different_node",
        theirs.node_name,
        host,
        why,
        their_total,
        our_total,
        points,
    )


def _by_plugin(scores: Mapping[str, int]) -> dict[str, int]:
    return {plugin: points for plugin, points in scores.items() if plugin != "total"}


def _refusal_of(view: ClusterView, node_name: str, ours: Decision) -> str:
    """Return in words why a node does not fit in our eyes."""
    if view.row_of(node_name) < 0:
        return f"{node_name} is no node that is known"
    status = ours.rejected.get(node_name, ours.pre_filter_rejected)
    if status is None:
        return f"{node_name} was not judged"
    return f"{node_name} would have been refused{_said(status)}"


def _said(status: Status) -> str:
    by = f" by {status.plugin}" if status.plugin else ""
    return f"{by}: {status.message}"


def _is_sampled(
    profile: Profile, view: ClusterView, theirs: str, ours: Decision, search: Search
) -> bool:
    """Return whether a search that ends early may have met their node and no better one.

    Where such a search begins cannot be seen from outside, but it looks at neighbours: among those
    that fit, so many as it wants must stand together around their node.
    """
    want = search.want(profile, view.node_count)
    fitting = [name for name in view.all_nodes().names if name in ours.scores]
    if want >= len(fitting):
        return False
    total = ours.scores[theirs]["total"]
    place = fitting.index(theirs)
    # Their node first, then the others around the ring.
    ring = fitting[place:] + fitting[:place]
    better = [at for at, name in enumerate(ring) if ours.scores[name]["total"] > total]
    return better[0] + len(ring) - better[-1] - 1 >= want
