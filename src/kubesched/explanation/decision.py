"""A complete decision, as `kubesched decide` and `explain -o decision` print it.

Owns the record of every node's verdict, every plugin's score, the messages and the preemption plan,
and the reading of recorded cases. `attempt_record` makes the attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubesched.api.check import check_object
from kubesched.api.decode import KubeObject, decode_as, decode_object
from kubesched.api.errors import MalformedObject
from kubesched.api.pod import Pod
from kubesched.attempt.diagnosis import FitError, SchedulingError
from kubesched.attempt.request import ScheduleResult
from kubesched.attempt.schedule_pod import best_names
from kubesched.attempt.select_host import best_positions
from kubesched.config.errors import ConfigError
from kubesched.config.load import default_config, load_config_object
from kubesched.explanation.attempt_record import AttemptRecord, attempt
from kubesched.explanation.explain import attempt_subject
from kubesched.framework.interface import PostFilterResult
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.registry import Registry
from kubesched.framework.status import Status
from kubesched.framework.verdicts import NodeToStatus
from kubesched.manifests.scenario import ExplainError, Subject
from kubesched.profile.build import Built, build
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for one pod, with the verdicts and scores behind it."""

    profile: str
    suggested_host: str = ""
    """The chosen node; empty if no node fits."""
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
        """Return the decision in the format in which decisions are compared."""
        return {
            "profile": self.profile,
            "feasible": list(self.feasible),
            "rejected": {name: status_json(status) for name, status in self.rejected.items()},
            "preFilterRejected": (
                None if self.pre_filter_rejected is None else status_json(self.pre_filter_rejected)
            ),
            "scores": {name: dict(scores) for name, scores in self.scores.items()},
            "best": list(self.best),
            "message": self.message,
            "messageAfterPostFilter": self.message_after_post_filter,
            "preemption": None if self.preemption is None else _nomination(self.preemption),
            "error": self.error,
        }


def decide(profile: Profile, view: ClusterView, pod: PodInfo) -> Decision:
    """Decide for one pod over all nodes; changes nothing."""
    return decision_of(attempt(profile, view, pod))


def decision_of(attempted: AttemptRecord) -> Decision:
    """Return the decision of an attempt that kept its detail."""
    if attempted.result is not None:
        return _placed(attempted, attempted.result)
    failure = attempted.failure
    assert failure is not None, "an attempt ends with a result or a failure"
    if isinstance(failure, FitError):
        return _rejected(attempted, failure)
    return _failed(attempted, failure)


def _failed(attempted: AttemptRecord, failure: SchedulingError) -> Decision:
    text = str(failure)
    names: list[str] = []
    rejected: Mapping[str, Status] = {}
    if failure.feasible is not None and failure.diagnosis is not None:
        names = sorted(failure.feasible.names)
        statuses = failure.diagnosis.node_to_status
        rejected = _all_rejections(attempted.view, statuses, set(names))
    return Decision(
        attempted.profile.name,
        feasible=tuple(names),
        rejected=rejected,
        message=text,
        message_after_post_filter=text,
        # Parity: schedule_one.go, v1.36: a cluster without nodes is a rejection, not an error.
        error=text if attempted.is_error else None,
    )


def _placed(attempted: AttemptRecord, result: ScheduleResult) -> Decision:
    detail = result.detail
    assert detail is not None, "the attempt was made with detail"
    names = detail.feasible.names
    scores: dict[str, dict[str, int]] = {}
    best = names
    if detail.scores is not None:
        for position, name in enumerate(names):
            scores[name] = {p: int(s[position]) for p, s in detail.scores.by_plugin.items()}
            scores[name]["total"] = sum(scores[name].values())
        best = best_names(detail.feasible, best_positions(detail.scores.total))
    rejected: Mapping[str, Status] = {}
    if not attempted.is_by_nomination:
        rejected = _all_rejections(attempted.view, detail.diagnosis.node_to_status, set(names))
    return Decision(
        attempted.profile.name,
        suggested_host=result.suggested_host,
        feasible=tuple(sorted(names)),
        rejected=rejected,
        scores=scores,
        best=tuple(sorted(best)),
    )


def _rejected(attempted: AttemptRecord, failure: FitError) -> Decision:
    diagnosis = failure.diagnosis
    pre_filter = diagnosis.pre_filter_status
    statuses = diagnosis.node_to_status
    return Decision(
        attempted.profile.name,
        rejected={} if pre_filter else _all_rejections(attempted.view, statuses, set()),
        pre_filter_rejected=pre_filter,
        message=attempted.message_before_post_filter,
        message_after_post_filter=str(failure),
        preemption=attempted.plan,
    )


def _all_rejections(
    view: ClusterView, statuses: NodeToStatus, feasible: set[str]
) -> dict[str, Status]:
    """Return the verdict on every node that does not fit, unvisited nodes included."""
    by_name = statuses.items()
    names = (name for name in view.all_nodes().names if name not in feasible)
    return {name: by_name.get(name, statuses.absent) for name in sorted(names)}


def status_json(status: Status) -> dict[str, Any]:
    """Return a rejection in the format in which decisions are compared."""
    reasons = sorted(status.reasons)
    return {"plugin": status.plugin, "code": status.code.wire_name, "reasons": reasons}


def _nomination(plan: PostFilterResult) -> dict[str, Any]:
    victims = () if plan.victims is None else plan.victims.pods
    return {
        "nominatedNode": plan.nominated_node_name,
        "victims": sorted(pod.key for pod in victims),
    }


# -- recorded cases -------------------------------------------------------------------------------


class CaseError(ValueError):
    """A case that cannot be decided; the message names the field and the problem."""


class CaseDecider:
    """Decides recorded cases (configuration, objects, pod) and reuses built configurations."""

    def __init__(self, out_of_tree: Registry | None = None) -> None:
        self._out_of_tree = out_of_tree
        self._built: dict[bytes, Built] = {}

    def decide(self, case: Mapping[str, Any]) -> Decision:
        """Return the decision for a case; raise CaseError if the case is invalid."""
        built = self._build(case.get("config"))
        try:
            objects = self._objects(case)
            return decision_of(attempt_subject(built, Subject(self._pod(case), objects)))
        except (MalformedObject, ExplainError) as problem:
            raise CaseError(str(problem)) from None

    def _build(self, config: object) -> Built:
        if config is not None and not isinstance(config, Mapping):
            raise CaseError(f"config: expected an object or null, got {type(config).__name__}")
        try:
            key = msgspec.json.encode(config)
            built = self._built.get(key)
            if built is None:
                loaded = default_config() if config is None else load_config_object(config)
                built = self._built[key] = build(loaded, out_of_tree=self._out_of_tree)
        except ConfigError as problem:
            raise CaseError(f"config: {problem}") from None
        return built

    def _objects(self, case: Mapping[str, Any]) -> list[KubeObject]:
        objects = case.get("objects")
        if not isinstance(objects, list):
            raise CaseError(f"objects: expected a list, got {type(objects).__name__}")
        decoded = []
        for number, document in enumerate(objects):
            if not isinstance(document, Mapping):
                raise CaseError(f"objects[{number}]: expected an object, got {document!r:.80}")
            decoded.append(decode_object(document))
            check_object(decoded[-1], is_stored=True)
        return decoded

    def _pod(self, case: Mapping[str, Any]) -> Pod:
        document = case.get("pod")
        if not isinstance(document, Mapping):
            raise CaseError(f"pod: expected an object, got {type(document).__name__}")
        pod = decode_as(Pod, document)
        check_object(pod, is_stored=True)
        return pod
