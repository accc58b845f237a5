"""Whether a change of a pod or a node may let a pod in that affinity kept out.

Owns the queueing hints. Never looks at the whole cluster.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from kubesched.columns.pod_columns import BoundPod
from kubesched.framework.interface import HintReads
from kubesched.model.affinity_terms import AffinityTerm
from kubesched.model.cluster_event import QueueingHint
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo, PodShape
from kubesched.plugins.inter_pod_affinity.matching import matches_all

AnyPod: TypeAlias = PodInfo | BoundPod


class UnparsableTermsError(ValueError):
    """The terms a hint needs did not parse."""


def reads_after_pod_change(_shape: PodShape, old: AnyPod | None, new: AnyPod | None) -> HintReads:
    """Return what the hint reads: labels only against the terms of a pod that went."""
    went = old is not None and new is None
    return "template" if went and old is not None and old.terms.declared else "shape"


def after_pod_change(pod: PodInfo, old: AnyPod | None, new: AnyPod | None) -> QueueingHint:
    """Return the hint for a pod that came, went or changed its labels."""
    # Parity: interpodaffinity/plugin.go isSchedulableAfterPodChange, v1.36.
    if old is not None and new is not None and pod.uid == new.uid:
        return QueueingHint.QUEUE
    if not (_has_place(old) and _has_place(new)):
        return QueueingHint.QUEUE_SKIP
    try:
        return _hint(_pod_matters(pod, old, new))
    except UnparsableTermsError:
        # Parity: a hint that fails has the pod tried again.
        return QueueingHint.QUEUE


def after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo | None) -> QueueingHint:
    """Return the hint for a node that came or changed its labels."""
    # Parity: interpodaffinity/plugin.go isSchedulableAfterNodeChange, v1.36.
    assert new is not None, "the plugin does not register for nodes that go"
    try:
        return _hint(_affinity_moves(pod, old, new) or _anti_affinity_moves(pod, old, new))
    except UnparsableTermsError:
        return QueueingHint.QUEUE


def _hint(queue: bool) -> QueueingHint:
    return QueueingHint.QUEUE if queue else QueueingHint.QUEUE_SKIP


def _has_place(pod: AnyPod | None) -> bool:
    return pod is None or bool(pod.node_name or pod.nominated_node_name)


def _pod_matters(pod: PodInfo, old: AnyPod | None, new: AnyPod | None) -> bool:
    terms, anti_terms = _affinity_terms(pod), _anti_affinity_terms(pod)
    if old is not None and new is not None:
        came = not _matches(terms, old) and _matches(terms, new)
        return came or (_matches(anti_terms, old) and not _matches(anti_terms, new))
    if new is not None:
        return _matches(terms, new)
    assert old is not None, "an event has an old or a new object"
    return _matches(anti_terms, old) or _matches(_anti_affinity_terms(old), pod)


def _matches(terms: Sequence[AffinityTerm], pod: AnyPod) -> bool:
    return matches_all(terms, pod.namespace, pod.labels)


def _affinity_moves(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> bool:
    for term in _affinity_terms(pod):
        value = new.labels.get(term.topology_key)
        if value is not None and (old is None or old.labels.get(term.topology_key) != value):
            return True
    return False


def _anti_affinity_moves(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> bool:
    for term in _anti_affinity_terms(pod):
        if old is None:
            return True
        value = old.labels.get(term.topology_key)
        if value is not None and new.labels.get(term.topology_key) != value:
            return True
    return False


def _affinity_terms(pod: AnyPod) -> Sequence[AffinityTerm]:
    if "requiredAffinityTerms: " in pod.terms.error:
        raise UnparsableTermsError
    return pod.terms.required_affinity


def _anti_affinity_terms(pod: AnyPod) -> Sequence[AffinityTerm]:
    if "requiredAntiAffinityTerms: " in pod.terms.error:
        raise UnparsableTermsError
    return pod.terms.required_anti_affinity
