"""Queueing hints of InterPodAffinity: whether a changed pod or node may help a rejected pod.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.interface import HintReads
from kubesched.plugins.inter_pod_affinity.matching import matches_all
from kubesched.plugins.queueing_hints import AnyPod, has_node, queue_if
from kubesched.snapshot.affinity_terms import AffinityTerm
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo, PodShape


class UnparsableTermsError(ValueError):
    """The terms that a hint needs cannot be parsed."""


def reads_after_pod_change(_shape: PodShape, old: AnyPod | None, new: AnyPod | None) -> HintReads:
    """Return what the hint reads: labels only for the terms of a deleted pod."""
    went = old is not None and new is None
    return "template" if went and old is not None and old.terms.declared else "shape"


def after_pod_change(pod: PodInfo, old: AnyPod | None, new: AnyPod | None) -> QueueingHint:
    """Return the hint for an added or deleted pod, or one whose labels changed."""
    # Parity: interpodaffinity/plugin.go isSchedulableAfterPodChange, v1.36.
    if old is not None and new is not None and pod.uid == new.uid:
        return QueueingHint.QUEUE
    if not all(changed is None or has_node(changed) for changed in (old, new)):
        return QueueingHint.QUEUE_SKIP
    try:
        return queue_if(_pod_matters(pod, old, new))
    except UnparsableTermsError:
        # Parity: a hint that fails has the pod tried again.
        return QueueingHint.QUEUE


def after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo | None) -> QueueingHint:
    """Return the hint for an added node, or one whose labels changed."""
    # Parity: interpodaffinity/plugin.go isSchedulableAfterNodeChange, v1.36.
    assert new is not None, "the plugin does not register for nodes that go"
    try:
        return queue_if(_affinity_moves(pod, old, new) or _anti_affinity_moves(pod, old, new))
    except UnparsableTermsError:
        return QueueingHint.QUEUE


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
