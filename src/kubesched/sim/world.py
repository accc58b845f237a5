"""A cluster in memory in which pods are placed, evicted and promised nodes.

Owns one attempt with all that follows from it: assume, reserve, permit, nominate, evict. Cache and
engine are the running scheduler's own; what an API server and controllers would do is done here at
once. Never writes anywhere else, and the same seed gives the same world.
Upstream: pkg/scheduler/schedule_one.go schedulingCycle, framework/preemption/executor.go
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from msgspec.structs import replace

from kubesched.app.admission import Admission
from kubesched.app.build import Built
from kubesched.app.cluster import load_objects
from kubesched.cache.cache import Cache
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView
from kubesched.engine.diagnosis import Diagnosis, FitError, NoNodesError, SchedulingError
from kubesched.engine.schedule_pod import schedule_without_extenders
from kubesched.engine.search import Search
from kubesched.framework.bind_phase import PermitOutcome
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PostFilterResult, Victims
from kubesched.framework.profile import Profile
from kubesched.framework.status import Code, Status
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import KubeObject
from kubesched.objects.pod import Pod, PodStatus
from kubesched.objects.policy import PodDisruptionBudget
from kubesched.objects.selectors import label_selector
from kubesched.objects.storage import PersistentVolumeClaim
from kubesched.plugins.in_tree import IN_TREE
from kubesched.sim.claims import ClaimBinder
from kubesched.sim.ephemeral import ephemeral_claims
from kubesched.sim.usage import Usage, usage_of

ResultT = TypeVar("ResultT")


class Verdict(StrEnum):
    """What became of an attempt, or why there was none."""

    PLACED = "Placed"
    UNSCHEDULABLE = "Unschedulable"
    ERROR = "Error"
    HELD = "Held"
    """A pre-enqueue plugin keeps the pod out of the queue."""
    DELETING = "Deleting"
    OTHER_SCHEDULER = "OtherScheduler"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt came to."""

    verdict: Verdict
    node: str = ""
    message: str = ""
    """The event's text; empty for a pod that was placed."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How many nodes gave each reason."""
    diagnosis: Diagnosis | None = None
    plan: PostFilterResult | None = None
    """Whom to evict where; None if that does not help, or was not asked."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that had to go, and the one its controller makes in its place."""

    pod: BoundPod
    successor: PodInfo | None


@dataclass(frozen=True, slots=True)
class Room:
    """Room that was made for a pod by evicting others."""

    pod: PodInfo
    """The pod, now promised the node."""
    evicted: tuple[Evicted, ...]
    released: tuple[PodInfo, ...]
    """Less important pods that had been promised the same node, and no longer are."""
    pdb_violation_count: int = 0


class World:
    """A cluster, and the scheduler that fills it."""

    def __init__(self, built: Built, objects: Iterable[KubeObject]) -> None:
        self.built = built
        self.cache = Cache(keep_whole_pods=built.reads_bound_pods)
        self.version = 0
        """Moves with every change that could alter a decision."""
        self._generation: dict[str, int] = {}
        given = list(objects)
        self._binder = ClaimBinder(given)
        kept = self._binder.all_bound(given)
        self.pending: list[PodInfo] = load_objects(self.cache, kept, built.profiles)
        """The pods that wait for a node at the start, in the order of the objects."""
        self._admission = Admission(kept)
        for info in self.pending:
            self._claim_volumes(info.object)
        self._wire = {_uid_of(obj): obj for obj in kept if isinstance(obj, Pod)}
        self._keys = {pod.key for pod in self._wire.values()}
        self.has_own_plugins = any(
            type(plugin) not in IN_TREE
            for profile in built.profiles.values()
            for plugin in profile.plugins.values()
        )
        """Whether a plugin might tell apart pods that look alike to kube-scheduler's own."""
        self._search = Search(default_percentage=built.config.percentage_of_nodes_to_score or 0)

    def __repr__(self) -> str:
        return f"<World {self.cache!r}, version {self.version}>"

    @property
    def view(self) -> ClusterView:
        """Return the cluster as it stands."""
        return self.cache.snapshot()

    def usage(self) -> Usage:
        """Return how full the cluster is now."""
        return usage_of(self.view)

    def profile_of(self, pod: PodInfo) -> Profile | None:
        """Return the profile that is to place a pod; None if another scheduler is."""
        return self.built.profiles.get(pod.scheduler_name)

    def add_pod(self, pod: Pod, like: PodInfo | None = None) -> PodInfo:
        """Make a waiting pod known; `like` is one of the same content, which saves compiling."""
        info = self.cache.pod_info(pod) if like is None else PodInfo(pod, like.shape)
        self._wire[info.uid] = pod
        self._keys.add(info.key)
        self._claim_volumes(pod)
        return info

    def _claim_volumes(self, pod: Pod) -> None:
        """Make the claims for a pod's ephemeral volumes, unless there are any of their names."""
        for claim in ephemeral_claims(pod, self._admission):
            self.add_claim(claim)

    def waiting_pod(self, uid: str) -> PodInfo:
        """Return a waiting pod as it is now; KeyError if there is none."""
        return self.cache.pod_info(self._wire[uid])

    def has_pod(self, key: str) -> bool:
        """Return whether there is, or was, a pod of that name."""
        return key in self._keys

    def add_claim(self, claim: PersistentVolumeClaim) -> None:
        """Add a claim as a controller leaves it, unless there is one of its name."""
        if self.view.objects.persistent_volume_claims.get(claim.key) is None:
            for one in self._binder.bound(claim):
                self.cache.put(one)
            self.version += 1

    # -- one attempt ------------------------------------------------------------------------------

    def why_not_queued(self, pod: PodInfo) -> Outcome | None:
        """Return why the scheduler would not even try the pod."""
        profile = self.profile_of(pod)
        if profile is None:
            names = ", ".join(self.built.profiles)
            text = f"no profile has the scheduler name {pod.scheduler_name} (there are: {names})"
            return Outcome(Verdict.OTHER_SCHEDULER, message=text)
        if pod.terminating:
            return Outcome(Verdict.DELETING, message="the pod is being deleted")
        held = profile.run_pre_enqueue_plugins(pod)
        if held is not None:
            return Outcome(Verdict.HELD, message=f"{held.plugin}: {held.message}")
        return None

    def attempt(self, pod: PodInfo, *, make_room: bool = True) -> Outcome:
        """Try to place a pod; if it fits, it counts on its node afterwards.

        Args:
            pod: a waiting pod of one of the profiles.
            make_room: ask who could be evicted if it fits nowhere; nobody is evicted yet.
        """
        profile = self.built.profiles[pod.scheduler_name]
        view = self.built.handles[profile.name].view = self.view
        state = CycleState()
        self._aim(profile)
        try:
            result = schedule_without_extenders(profile, view, state, pod, self._search)
        except FitError as failure:
            return self._refused(profile, state, pod, failure, make_room)
        except NoNodesError as failure:
            return Outcome(Verdict.UNSCHEDULABLE, message=str(failure))
        except SchedulingError as failure:
            return Outcome(Verdict.ERROR, message=str(failure))
        return self._take(profile, state, pod, result.suggested_host)

    def _aim(self, profile: Profile) -> None:
        # A configured percentage is honoured; left to itself every node is judged, so that the
        # outcome depends on nothing but the cluster. See ADR 6.
        own = profile.percentage_of_nodes_to_score
        percentage = self._search.default_percentage if own is None else own
        self._search.all_nodes = percentage == 0

    def _take(self, profile: Profile, state: CycleState, pod: PodInfo, node: str) -> Outcome:
        # Parity: schedule_one.go prepareForBindingCycle, v1.36: assume, reserve, permit.
        promised = pod.nominated_node_name
        self.cache.assume_pod(pod, node)
        failure = profile.run_reserve_plugins_reserve(state, pod, node)
        if failure is None:
            permit: PermitOutcome = _at_once(profile.run_permit_plugins(state, pod, node))
            failure = None if permit.status.is_success else permit.status
        if failure is None:
            self.version += 1
            return Outcome(Verdict.PLACED, node=node)
        profile.run_reserve_plugins_unreserve(state, pod, node)
        self.cache.forget_pod(pod)
        if promised:
            self.cache.nominate_pod(pod, promised)
        return Outcome(_verdict_of(failure), message=_text_of(failure))

    def _refused(
        self,
        profile: Profile,
        state: CycleState,
        pod: PodInfo,
        failure: FitError,
        make_room: bool,
    ) -> Outcome:
        diagnosis = failure.diagnosis
        plan: PostFilterResult | None = None
        if make_room and profile.has_post_filter_plugins:
            plan, status = profile.run_post_filter_plugins(state, pod, diagnosis.node_to_status)
            diagnosis.post_filter_message = status.message
            if not status.is_success and plan is not None and plan.nominated_node_name:
                plan = None
        return Outcome(
            Verdict.UNSCHEDULABLE,
            message=str(failure),
            reasons=_reasons(failure),
            diagnosis=diagnosis,
            plan=plan,
        )

    # -- what follows from a plan -----------------------------------------------------------------

    def promise(self, pod: PodInfo, node: str) -> PodInfo:
        """Promise a waiting pod a node, or take the promise back; return the pod as it is then."""
        if pod.nominated_node_name == node:
            return pod
        status = replace(pod.object.status, nominated_node_name=node)
        promised = self.add_pod(replace(pod.object, status=status), like=pod)
        self.cache.nominate_pod(promised, node)
        self.version += 1
        return promised

    def make_room(self, pod: PodInfo, victims: Victims) -> Room:
        """Evict the victims of a plan, and promise the pod their node."""
        # Parity: executor.go prepareCandidate, v1.36: victims go, and less important pods lose
        # their promise of the node.
        view, node = self.view, victims.node_name
        less_important = [
            view.bound_pod(index)
            for index in view.nominated_on(view.row_of(node))
            if view.bound_pod(index).priority < pod.priority
        ]
        evicted = tuple(self._evict(victim) for victim in victims.pods)
        released = tuple(self._release(one) for one in less_important if one.uid != pod.uid)
        promised = self.promise(pod, node)
        return Room(promised, evicted, released, victims.pdb_violation_count)

    def _evict(self, victim: BoundPod) -> Evicted:
        wire = self._wire.pop(victim.uid)
        self.cache.remove_pod(self.cache.pod_info(wire))
        for claim in ephemeral_claims(wire, self._admission):
            self.cache.drop(claim)  # It goes with the pod that owns it.
        self._spend_budgets(victim)
        self.version += 1
        if not any(owner.controller for owner in victim.owners):
            return Evicted(victim, None)
        return Evicted(victim, self.add_pod(self._successor(wire)))

    def _release(self, promised: BoundPod) -> PodInfo:
        return self.promise(self.waiting_pod(promised.uid), "")

    def _successor(self, pod: Pod) -> Pod:
        """Return the pod a controller makes in place of one that was evicted."""
        meta = pod.metadata
        origin = meta.uid.partition("#")[0]
        count = self._generation[origin] = self._generation.get(origin, 0) + 1
        name = meta.name
        if not any(o.controller and o.kind == "StatefulSet" for o in meta.owner_references):
            name = f"{name.partition('-again-')[0]}-again-{count}"
        meta = replace(meta, name=name, uid=f"{origin}#{count}", deletion_timestamp=None)
        return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""), status=PodStatus())

    def _spend_budgets(self, victim: BoundPod) -> None:
        """Take an eviction from the budgets that cover it, as the disruption controller would."""
        spent: list[PodDisruptionBudget] = []
        for budget in self.view.objects.pod_disruption_budgets:
            if budget.metadata.namespace != victim.namespace or not victim.labels:
                continue
            try:
                selector = label_selector(budget.spec.selector)
            except ValueError:
                continue  # A budget with an invalid selector matches nothing, here as in a plan.
            if not selector.is_empty and selector.matches(victim.labels):
                spent.append(budget)
        for budget in spent:
            status = replace(
                budget.status,
                disruptions_allowed=max(0, budget.status.disruptions_allowed - 1),
                current_healthy=max(0, budget.status.current_healthy - 1),
            )
            self.cache.put(replace(budget, status=status))


def _uid_of(pod: Pod) -> str:
    # As PodInfo has it: what a user wrote by hand may lack a uid.
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


def _reasons(failure: FitError) -> Mapping[str, int]:
    diagnosis = failure.diagnosis
    if diagnosis.pre_filter_status is not None:
        return {diagnosis.pre_filter_status.message: failure.node_count}
    counts = diagnosis.node_to_status.reason_counts(failure.node_count)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _verdict_of(status: Status) -> Verdict:
    return (
        Verdict.UNSCHEDULABLE if status.is_rejected or status.code is Code.WAIT else Verdict.ERROR
    )


def _text_of(status: Status) -> str:
    return f"{status.plugin}: {status.message}" if status.plugin else status.message


def _at_once(call: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine that has nothing to wait for here."""
    try:
        call.send(None)
    except StopIteration as done:
        result: ResultT = done.value
        return result
    call.close()
    raise WorldError("a permit plugin waits for something outside of the simulation")


class WorldError(RuntimeError):
    """Something that only a running scheduler can do was asked for."""
