"""A cluster in memory in which pods are placed, nominated and preempted.

Owns one attempt with all its effects: assume, reserve, permit, nominate, preempt. It uses the cache
and the scheduling code of the running scheduler; the effects of the API server and of controllers
are applied immediately. Never writes anywhere else; equal seeds give equal results.
Upstream: pkg/scheduler/schedule_one.go schedulingCycle, framework/preemption/executor.go
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from msgspec.structs import replace

from kubesched.api.decode import KubeObject
from kubesched.api.pod import Pod, PodStatus
from kubesched.api.policy import PodDisruptionBudget
from kubesched.api.storage import PersistentVolumeClaim
from kubesched.attempt.diagnosis import Diagnosis, FitError, NoNodesError, SchedulingError
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache, load_objects
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PostFilterResult, Victims
from kubesched.framework.preemption.disruption_budgets import covered_pods
from kubesched.framework.runtime.bind_phase import PermitOutcome
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Code, Status
from kubesched.manifests.controller_state import ClaimBinder, ephemeral_claims
from kubesched.manifests.defaulting import Admission
from kubesched.plugins.in_tree import IN_TREE_NAMES
from kubesched.profile.build import Built
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView

ResultT = TypeVar("ResultT")


class ResultKind(StrEnum):
    """The result of an attempt, or the reason why there was none."""

    PLACED = "Placed"
    UNSCHEDULABLE = "Unschedulable"
    ERROR = "Error"
    HELD = "Held"
    """A pre-enqueue plugin keeps the pod out of the queue."""
    DELETING = "Deleting"
    OTHER_SCHEDULER = "OtherScheduler"


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The outcome of one attempt."""

    kind: ResultKind
    node: str = ""
    message: str = ""
    """The event's text; empty for a pod that was placed."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Number of nodes by reason."""
    diagnosis: Diagnosis | None = None
    plan: PostFilterResult | None = None
    """The preemption plan; None if preemption does not help or was not tried."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A preempted pod, and the pod that its controller creates in its place."""

    pod: BoundPod
    successor: PodInfo | None

    @property
    def recreated_as(self) -> str:
        """Return the name of the successor; empty without a controller."""
        return "" if self.successor is None else self.successor.key


@dataclass(frozen=True, slots=True)
class Preemption:
    """The preemption of pods on one node for a pod."""

    pod: PodInfo
    """The preemptor, now nominated to the node."""
    node: str
    victims: tuple[Victim, ...]
    released: tuple[PodInfo, ...]
    """Pods with lower priority that lost their nomination to the node."""
    pdb_violation_count: int


class World:
    """A cluster and its scheduler."""

    def __init__(self, built: Built, objects: Iterable[KubeObject]) -> None:
        self.built = built
        self.cache = Cache(keep_whole_pods=built.reads_bound_pods)
        self.version = 0
        """Incremented with every change that could alter a decision."""
        self._generation: dict[str, int] = {}
        objects = list(objects)
        self._binder = ClaimBinder(objects)
        bound = self._binder.bind_all(objects)
        self.pending: list[PodInfo] = load_objects(self.cache, bound, built.profiles)
        """The pending pods at the start, in the order of the objects."""
        self._admission = Admission(bound)
        for info in self.pending:
            self._claim_volumes(info.object)
        self._wire = {_uid_of(obj): obj for obj in bound if isinstance(obj, Pod)}
        self._keys = {pod.key for pod in self._wire.values()}
        self.has_own_plugins = any(
            name not in IN_TREE_NAMES
            for profile in built.profiles.values()
            for name in profile.plugins
        )
        """Whether an out-of-tree plugin may distinguish pods that in-tree plugins do not."""
        self._search = Search(default_percentage=built.config.percentage_of_nodes_to_score or 0)

    @property
    def view(self) -> ClusterView:
        return self.cache.snapshot()

    def add_pod(self, pod: Pod, like: PodInfo | None = None) -> PodInfo:
        """Add a pending pod; `like` is a pod with the same spec, whose compiled form is reused."""
        info = self.cache.pod_info(pod) if like is None else PodInfo(pod, like.shape)
        self._wire[info.uid] = pod
        self._keys.add(info.key)
        self._claim_volumes(pod)
        return info

    def _claim_volumes(self, pod: Pod) -> None:
        """Create the claims of a pod's ephemeral volumes unless their names are taken."""
        for claim in ephemeral_claims(pod, self._admission):
            self.add_claim(claim)

    def waiting_pod(self, uid: str) -> PodInfo:
        """Return the current state of a pending pod; KeyError if there is none."""
        return self.cache.pod_info(self._wire[uid])

    def has_pod(self, key: str) -> bool:
        """Return whether there is or was a pod with that name."""
        return key in self._keys

    def add_claim(self, claim: PersistentVolumeClaim) -> None:
        """Add a claim, bound if possible, unless its name is taken."""
        if self.view.objects.store_of(PersistentVolumeClaim).get(claim.key) is None:
            for obj in self._binder.bind(claim):
                self.cache.put(obj)
            self.version += 1

    # -- one attempt ------------------------------------------------------------------------------

    def why_not_queued(self, pod: PodInfo) -> AttemptResult | None:
        profile = self.built.profiles.get(pod.scheduler_name)
        if profile is None:
            names = ", ".join(self.built.profiles)
            text = f"no profile has the scheduler name {pod.scheduler_name} (profiles: {names})"
            return AttemptResult(ResultKind.OTHER_SCHEDULER, message=text)
        if pod.terminating:
            return AttemptResult(ResultKind.DELETING, message="the pod is being deleted")
        held = profile.run_pre_enqueue_plugins(pod)
        if held is not None:
            return AttemptResult(ResultKind.HELD, message=f"{held.plugin}: {held.message}")
        return None

    def attempt(self, pod: PodInfo, *, preempts: bool = True) -> AttemptResult:
        """Try to place a pod; if it fits, it is assumed on its node.

        Args:
            pod: a pending pod of one of the profiles.
            preempts: run PostFilter if no node fits; nothing is preempted yet.
        """
        profile = self.built.profiles[pod.scheduler_name]
        view = self.built.handles[profile.name].view = self.view
        state = CycleState()
        # A configured percentage is respected; without one every node is evaluated, so that the
        # outcome depends on the cluster alone. See ADR 6.
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self._search.default_percentage
        self._search.all_nodes = percentage == 0
        try:
            result = run_without_extenders(schedule_pod(profile, view, state, pod, self._search))
        except FitError as failure:
            return self._rejected(profile, state, pod, failure, preempts)
        except NoNodesError as failure:
            return AttemptResult(ResultKind.UNSCHEDULABLE, message=str(failure))
        except SchedulingError as failure:
            return AttemptResult(ResultKind.ERROR, message=str(failure))
        return self._take(profile, state, pod, result.suggested_host)

    def _take(self, profile: Profile, state: CycleState, pod: PodInfo, node: str) -> AttemptResult:
        # Parity: schedule_one.go prepareForBindingCycle, v1.36: assume, reserve, permit.
        nominated = pod.nominated_node_name
        self.cache.assume_pod(pod, node)
        failure = profile.run_reserve_plugins_reserve(state, pod, node)
        if failure is None:
            permit: PermitOutcome = _at_once(profile.run_permit_plugins(state, pod, node))
            failure = None if permit.status.is_success else permit.status
        if failure is None:
            self.version += 1
            return AttemptResult(ResultKind.PLACED, node=node)
        profile.run_reserve_plugins_unreserve(state, pod, node)
        self.cache.forget_pod(pod)
        if nominated:
            self.cache.nominate_pod(pod, nominated)
        return AttemptResult(_kind_of(failure), message=_text_of(failure))

    def _rejected(
        self,
        profile: Profile,
        state: CycleState,
        pod: PodInfo,
        failure: FitError,
        preempts: bool,
    ) -> AttemptResult:
        diagnosis = failure.diagnosis
        plan: PostFilterResult | None = None
        if preempts and profile.has_post_filter_plugins:
            plan, status = profile.run_post_filter_plugins(state, pod, diagnosis.node_to_status)
            diagnosis.post_filter_message = status.message
            if not status.is_success and plan is not None and plan.nominated_node_name:
                plan = None
        return AttemptResult(
            ResultKind.UNSCHEDULABLE,
            message=str(failure),
            reasons=_reasons(failure),
            diagnosis=diagnosis,
            plan=plan,
        )

    # -- preemption -------------------------------------------------------------------------------

    def nominate(self, pod: PodInfo, node: str) -> PodInfo:
        """Nominate a pending pod to a node, or clear its nomination; return the updated pod."""
        if pod.nominated_node_name == node:
            return pod
        status = replace(pod.object.status, nominated_node_name=node)
        nominated = self.add_pod(replace(pod.object, status=status), like=pod)
        self.cache.nominate_pod(nominated, node)
        self.version += 1
        return nominated

    def preempt(self, pod: PodInfo, victims: Victims) -> Preemption:
        """Evict the victims of a plan, and nominate the pod to their node."""
        # Parity: executor.go prepareCandidate, v1.36: victims are deleted, and pods with lower
        # priority lose their nomination.
        view, node = self.view, victims.node_name
        less_important = [
            view.bound_pod(index)
            for index in view.nominated_on(view.row_of(node))
            if view.bound_pod(index).priority < pod.priority
        ]
        evicted = tuple(self._evict(victim) for victim in victims.pods)
        released = tuple(
            self.nominate(self.waiting_pod(other.uid), "")
            for other in less_important
            if other.uid != pod.uid
        )
        nominated = self.nominate(pod, node)
        return Preemption(nominated, node, evicted, released, victims.pdb_violation_count)

    def _evict(self, victim: BoundPod) -> Victim:
        wire = self._wire.pop(victim.uid)
        self.cache.remove_pod(self.cache.pod_info(wire))
        for claim in ephemeral_claims(wire, self._admission):
            self.cache.drop(claim)  # The pod owns it.
        self._spend_budgets(victim)
        self.version += 1
        if not any(owner.controller for owner in victim.owners):
            return Victim(victim, None)
        return Victim(victim, self.add_pod(self._successor(wire)))

    def _successor(self, pod: Pod) -> Pod:
        """Return the pod that a controller creates in place of an evicted one."""
        meta = pod.metadata
        origin = meta.uid.partition("#")[0]
        count = self._generation[origin] = self._generation.get(origin, 0) + 1
        name = meta.name
        if not any(
            owner.controller and owner.kind == "StatefulSet" for owner in meta.owner_references
        ):
            name = f"{name.partition('-again-')[0]}-again-{count}"
        meta = replace(meta, name=name, uid=f"{origin}#{count}", deletion_timestamp=None)
        return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""), status=PodStatus())

    def _spend_budgets(self, victim: BoundPod) -> None:
        """Subtract an eviction from its budgets, as the disruption controller would."""
        for budget in list(self.view.objects.store_of(PodDisruptionBudget)):
            if not covered_pods(budget, [victim]):
                continue
            status = replace(
                budget.status,
                disruptions_allowed=max(0, budget.status.disruptions_allowed - 1),
                current_healthy=max(0, budget.status.current_healthy - 1),
            )
            self.cache.put(replace(budget, status=status))


def _uid_of(pod: Pod) -> str:
    # As in PodInfo: a handwritten pod may lack a uid.
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


def _reasons(failure: FitError) -> Mapping[str, int]:
    diagnosis = failure.diagnosis
    if diagnosis.pre_filter_status is not None:
        return {diagnosis.pre_filter_status.message: failure.node_count}
    counts = diagnosis.node_to_status.reason_counts(failure.node_count)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _kind_of(status: Status) -> ResultKind:
    return (
        ResultKind.UNSCHEDULABLE
        if status.is_rejected or status.code is Code.WAIT
        else ResultKind.ERROR
    )


def _text_of(status: Status) -> str:
    return f"{status.plugin}: {status.message}" if status.plugin else status.message


def _at_once(call: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine that does not wait."""
    try:
        call.send(None)
    except StopIteration as done:
        result: ResultT = done.value
        return result
    call.close()
    raise WorldError("a Permit plugin waits for something outside of the simulation")


class WorldError(RuntimeError):
    """A plugin needs something that only a running scheduler provides."""
