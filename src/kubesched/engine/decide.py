"""A whole decision, kept: every node's verdict, every plugin's score, the texts, the plan.

Owns the record that `decide`, `explain` and the simulator show. The attempt itself is
`schedule_pod`'s, with all nodes evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesched.columns.view import ClusterView
from kubesched.engine.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.engine.schedule_pod import best_names, schedule_without_extenders
from kubesched.engine.search import ScheduleResult, Search
from kubesched.engine.selection import best_positions
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PostFilterResult
from kubesched.framework.profile import Profile
from kubesched.framework.status import Status
from kubesched.framework.verdicts import NodeToStatus
from kubesched.model.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one pod, and why."""

    profile: str
    suggested_host: str = ""
    """The node taken; empty when none fits."""
    feasible: tuple[str, ...] = ()
    rejected: Mapping[str, Status] = field(default_factory=dict)
    pre_filter_rejected: Status | None = None
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Node to plugin to weighted score; `total` is the sum."""
    best: tuple[str, ...] = ()
    message: str | None = None
    message_after_post_filter: str | None = None
    preemption: PostFilterResult | None = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the decision in the form in which decisions are compared."""
        return {
            "profile": self.profile,
            "feasible": list(self.feasible),
            "rejected": {name: _rejection(status) for name, status in self.rejected.items()},
            "preFilterRejected": (
                None if self.pre_filter_rejected is None else _rejection(self.pre_filter_rejected)
            ),
            "scores": {name: dict(scores) for name, scores in self.scores.items()},
            "best": list(self.best),
            "message": self.message,
            "messageAfterPostFilter": self.message_after_post_filter,
            "preemption": None if self.preemption is None else _nomination(self.preemption),
            "error": self.error,
        }


def decide(profile: Profile, view: ClusterView, pod: PodInfo) -> Decision:
    """Decide for one pod over all nodes; nothing is changed."""
    state = CycleState()
    search = Search(all_nodes=True, detail=True)
    try:
        result = schedule_without_extenders(profile, view, state, pod, search)
    except FitError as failure:
        return _refused(profile, view, state, pod, failure)
    except NoNodesError as failure:
        # Parity: schedule_one.go, v1.36: a refusal, though no plugin is asked to make room.
        text = str(failure)
        return Decision(profile.name, message=text, message_after_post_filter=text)
    except SchedulingError as failure:
        return _failed(profile, view, failure)
    return _placed(profile, view, pod, result)


def _failed(profile: Profile, view: ClusterView, failure: SchedulingError) -> Decision:
    text = str(failure)
    names: list[str] = []
    rejected: Mapping[str, Status] = {}
    if failure.feasible is not None and failure.diagnosis is not None:
        names = sorted(failure.feasible.names)
        rejected = _all_rejections(view, failure.diagnosis.node_to_status, set(names))
    return Decision(
        profile.name,
        feasible=tuple(names),
        rejected=rejected,
        message=text,
        message_after_post_filter=text,
        error=text,
    )


def _placed(profile: Profile, view: ClusterView, pod: PodInfo, result: ScheduleResult) -> Decision:
    detail = result.detail
    assert detail is not None, "the search asked for it"
    names = detail.feasible.names
    by_nomination = names == [pod.nominated_node_name] and len(detail.diagnosis.node_to_status) == 0
    scores: dict[str, dict[str, int]] = {}
    best = names
    if detail.scores is not None:
        for place, name in enumerate(names):
            scores[name] = {p: int(s[place]) for p, s in detail.scores.by_plugin.items()}
            scores[name]["total"] = sum(scores[name].values())
        best = best_names(detail.feasible, best_positions(detail.scores.total))
    rejected: Mapping[str, Status] = {}
    if not by_nomination:
        rejected = _all_rejections(view, detail.diagnosis.node_to_status, set(names))
    return Decision(
        profile.name,
        suggested_host=result.suggested_host,
        feasible=tuple(sorted(names)),
        rejected=rejected,
        scores=scores,
        best=tuple(sorted(best)),
    )


def _refused(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, failure: FitError
) -> Decision:
    diagnosis = failure.diagnosis
    before = str(failure)
    plan: PostFilterResult | None = None
    if profile.has_post_filter_plugins:
        plan, status = profile.run_post_filter_plugins(state, pod, diagnosis.node_to_status)
        diagnosis.post_filter_message = status.message
        if not status.is_success or plan is None or not plan.nominated_node_name:
            plan = None
    pre_filter = diagnosis.pre_filter_status
    rejected = {} if pre_filter else _all_rejections(view, diagnosis.node_to_status, set())
    return Decision(
        profile.name,
        rejected=rejected,
        pre_filter_rejected=pre_filter,
        message=before,
        message_after_post_filter=str(failure),
        preemption=plan,
    )


def _all_rejections(
    view: ClusterView, statuses: NodeToStatus, feasible: set[str]
) -> dict[str, Status]:
    """Return the verdict on every node that does not fit, those never looked at included."""
    given = statuses.items()
    names = (name for name in view.all_nodes().names if name not in feasible)
    return {name: given.get(name, statuses.absent) for name in sorted(names)}


def _rejection(status: Status) -> dict[str, Any]:
    reasons = sorted(status.reasons)
    return {"plugin": status.plugin, "code": status.code.wire_name, "reasons": reasons}


def _nomination(plan: PostFilterResult) -> dict[str, Any]:
    victims = () if plan.victims is None else plan.victims.pods
    return {
        "nominatedNode": plan.nominated_node_name,
        "victims": sorted(pod.key for pod in victims),
    }
