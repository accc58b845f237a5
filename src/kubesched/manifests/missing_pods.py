"""Pods that Jobs and DaemonSets of manifests still have to create.

Translates objects for the rules in `kubesched.workloads`, shared with the running controllers. Time
does not advance: there are no deadlines and no backoff. Job policies are not evaluated: their
results are in the status.
Upstream: pkg/controller/job/job_controller.go manageJob,
pkg/controller/daemon/daemon_controller.go manage
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from kubesched.api.meta import Condition
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.api.wire import Empty, Int32, Wire
from kubesched.cache.cache import TERMINAL_PHASES
from kubesched.workloads.daemon_set import DaemonPlacement, daemon_pod_spec, target_node
from kubesched.workloads.job import Backoff, JobState
from kubesched.workloads.job_pods import (
    TRACKING_FINALIZER,
    end_of,
    is_indexed,
    is_managed_elsewhere,
    is_suspended,
)

# Parity: pkg/apis/batch/v1/defaults.go SetDefaults_Job, v1.36.
_BACKOFF_LIMIT = 6
_BACKOFF_LIMIT_PER_INDEX = 2**31 - 1


class JobSpec(Wire, frozen=True, kw_only=True):
    """The fields of a Job's spec that determine its pods."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str = ""
    suspend: bool = False
    managed_by: str | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    pod_replacement_policy: str = ""
    pod_failure_policy: Empty | None = None


class UncountedPods(Wire, frozen=True, kw_only=True):
    """The uids of terminated pods that are not in the counters yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire, frozen=True, kw_only=True):
    """The progress of a Job."""

    succeeded: Int32 = 0
    failed: Int32 = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingPods:
    """The pods that a workload still has to create."""

    count: int
    indexes: Iterable[int] = field(default_factory=itertools.count)
    """The indexes of these pods, then those of further pods."""


def missing_job_pods(spec: JobSpec, status: JobStatus, pods: Sequence[Pod]) -> MissingPods:
    """Return the pods that a Job still has to create, given its existing pods."""
    job = {"spec": _spec_document(spec), "status": _status_document(status)}
    beyond = itertools.count((spec.completions or 0) if is_indexed(job) else 0)
    if end_of(job) or is_managed_elsewhere(job) or is_suspended(job):
        return MissingPods(0, beyond)
    # A Job without a status is handwritten: none of its pods has been counted.
    is_counted = status != JobStatus()
    state = JobState(job, [_pod_document(pod, is_counted) for pod in pods], Backoff(), now_s=0.0)
    state.evaluate()
    if state.finished is not None:
        return MissingPods(0, beyond)
    count = max(0, state.missing)
    if not is_indexed(job):
        return MissingPods(count, beyond)
    indexes = state.pending_indexes(count)
    return MissingPods(len(indexes), itertools.chain(indexes, beyond))


def _spec_document(spec: JobSpec) -> dict[str, Any]:
    # Parity: defaults.go SetDefaults_Job, v1.36: completions is 1 if neither field is set.
    document: dict[str, Any] = msgspec.to_builtins(spec)
    if "parallelism" not in document:
        document = {"completions": 1, **document, "parallelism": 1}
    per_index = spec.backoff_limit_per_index is not None
    document.setdefault("backoffLimit", _BACKOFF_LIMIT_PER_INDEX if per_index else _BACKOFF_LIMIT)
    return {**document, "template": {"spec": {}}}


def _status_document(status: JobStatus) -> dict[str, Any]:
    conditions = [
        {"type": condition.type, "status": condition.status} for condition in status.conditions
    ]
    return {**msgspec.to_builtins(status), "conditions": conditions}


def _pod_document(pod: Pod, is_counted: bool) -> dict[str, Any]:
    meta = pod.metadata
    return {
        "metadata": {
            "name": meta.name,
            "uid": meta.uid,
            "annotations": meta.annotations,
            "creationTimestamp": meta.creation_timestamp,
            "deletionTimestamp": meta.deletion_timestamp,
            "finalizers": meta.finalizers if is_counted else (TRACKING_FINALIZER,),
        },
        "spec": {},
        "status": {"phase": pod.status.phase},
    }


@dataclass(frozen=True, slots=True)
class Targets:
    """The nodes of one DaemonSet."""

    lacking: tuple[str, ...]
    """Nodes that lack a pod, in the order of the files."""
    served: int
    """Number of nodes that have a pod."""
    excluded: int
    """Number of nodes excluded by node selector, affinity or taints."""


class DaemonNodes:
    """The nodes of a cluster, in the format of the DaemonSet rule."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = [_document(node) for node in nodes]

    def targets(self, template: Mapping[str, Any], pods: Sequence[Pod]) -> Targets:
        """Return the nodes of a DaemonSet, given its template and its pods."""
        # Parity: daemon_controller.go podsShouldBeOnNode, v1.36: a terminated pod is replaced,
        # a terminating one is not replaced yet.
        placement = DaemonPlacement({"spec": {"template": template}})
        taken = {_target(pod) for pod in pods if pod.status.phase not in TERMINAL_PHASES}
        lacking: list[str] = []
        served = 0
        for node in self._nodes:
            name = node["metadata"]["name"]
            verdict = placement.verdict(node)
            if name in taken and verdict.should_continue_running:
                served += 1
            elif verdict.should_run:
                lacking.append(name)
        return Targets(tuple(lacking), served, len(self._nodes) - served - len(lacking))


def _document(node: Node) -> dict[str, Any]:
    taints = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect}
        for taint in node.spec.taints
    ]
    return {
        "metadata": {"name": node.metadata.name, "labels": node.metadata.labels},
        "spec": {"taints": taints},
    }


def _target(pod: Pod) -> str | None:
    if pod.spec.node_name or pod.spec.affinity is None:
        return pod.spec.node_name or None
    return target_node({"spec": {"affinity": msgspec.to_builtins(pod.spec.affinity)}})


def daemon_template(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with the tolerations that every pod of a DaemonSet gets."""
    return {**template, "spec": daemon_pod_spec(dict(template["spec"]), "")}


def for_node(pod: Pod, node_name: str) -> Pod:
    """Return a pod of a DaemonSet with node affinity to one node."""
    affinity = pod.spec.affinity or Affinity()
    name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=required,
    )
    affinity = replace(affinity, node_affinity=node_affinity)
    return replace(pod, spec=replace(pod.spec, affinity=affinity))
