"""What an explanation needs of a cluster given as objects: which pod, which profile, which columns.

Owns the choice of the pod and what a user should know about it. The decision and its explanation
are the engine's, and workloads `sim.scenario`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from kubesched.app.build import Built
from kubesched.app.cluster import load_objects
from kubesched.cache.cache import TERMINAL_PHASES, Cache
from kubesched.columns.view import ClusterView
from kubesched.engine.naming import nearest
from kubesched.framework.profile import Profile
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import KubeObject
from kubesched.objects.pod import Pod


class ExplainError(ValueError):
    """A pod that cannot be explained, and why, in one line."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The pod to explain, as if pending, the cluster around it, and what to know about both."""

    pod: Pod
    others: Sequence[KubeObject]
    notes: tuple[str, ...] = ()


class Prepared(NamedTuple):
    """What an attempt needs."""

    profile: Profile
    view: ClusterView
    pod: PodInfo


def prepare(built: Built, subject: Subject) -> Prepared:
    """Put the cluster around a pod into columns, and find the profile that is to place the pod.

    Raises:
        ExplainError: No profile is for this pod.
    """
    cache = Cache(keep_whole_pods=built.reads_bound_pods)
    load_objects(cache, subject.others, built.profiles)
    pod = cache.pod_info(subject.pod)
    profile = built.profiles.get(pod.scheduler_name)
    if profile is None:
        raise ExplainError(
            f"pod {pod.key}: no profile has the scheduler name {pod.scheduler_name!r}; "
            f"the configuration has {', '.join(map(repr, built.profiles))}"
        )
    view = cache.snapshot()
    built.handles[profile.name].view = view
    return Prepared(profile, view, pod)


def choose_pod(objects: Sequence[KubeObject], name: str | None) -> Subject:
    """Return the pod of a name, or the only pending one.

    Raises:
        ExplainError: There is no such pod, there are several, or it has ended.
    """
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    pod = _only_pending(pods) if name is None else _by_name(pods, name)
    others = [obj for obj in objects if obj is not pod]
    notes: list[str] = []
    if pod.status.phase in TERMINAL_PHASES:
        raise ExplainError(
            f"pod {pod.key} has ended (phase {pod.status.phase}): no node is sought for it"
        )
    if pod.metadata.deletion_timestamp:
        notes.append(f"pod {pod.key} is being deleted; the scheduler passes over it")
    if pod.spec.node_name:
        notes.append(
            f"pod {pod.key} is bound to {pod.spec.node_name} already; "
            "explained as if it were pending and not there"
        )
        pod = replace(
            pod,
            spec=replace(pod.spec, node_name=""),
            status=replace(pod.status, nominated_node_name=""),
        )
    return Subject(pod, others, tuple(notes))


def is_waiting(pod: Pod) -> bool:
    """Return whether a pod has no node and has not ended."""
    return not pod.spec.node_name and pod.status.phase not in TERMINAL_PHASES


def _only_pending(pods: Iterable[Pod]) -> Pod:
    pods = list(pods)
    pending = [pod for pod in pods if is_waiting(pod)]
    if not pods:
        raise ExplainError("there is no pod in the files; give one, or a workload")
    if not pending:
        raise ExplainError(
            f"no pod is pending in the files; name the pod to explain: {_listed(pods)}"
        )
    if len(pending) > 1:
        raise ExplainError(f"{len(pending)} pods are pending; name one of {_listed(pending)}")
    return pending[0]


def _by_name(pods: Sequence[Pod], name: str) -> Pod:
    found = [pod for pod in pods if name in (pod.key, pod.metadata.name)]
    if len(found) > 1:
        raise ExplainError(f"several pods have the name {name}: {_listed(found)}; say which")
    if not found:
        hint = f"; there are {_listed(pods, name)}" if pods else "; they hold no pod at all"
        raise ExplainError(f"pod {name} is not in the files{hint}")
    return found[0]


def _listed(pods: Sequence[Pod], like: str = "") -> str:
    return nearest((pod.key for pod in pods), like)
