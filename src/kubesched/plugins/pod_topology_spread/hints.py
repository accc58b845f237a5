"""Queueing hints of PodTopologySpread: whether a changed pod or node may help a rejected pod.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go
"""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.api.times import parse_time
from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.interface import HintReads
from kubesched.plugins.pod_topology_spread.constraints import Constraints
from kubesched.plugins.queueing_hints import AnyPod, has_node, queue_if
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo, PodShape


def reads_after_pod_change(shape: PodShape, _old: object, _new: object) -> HintReads:
    """Return what the hint reads: labels only if a selector is built from them."""
    own = shape.spread_constraints
    return "shape" if own and not any(c.match_label_keys for c in own) else "template"


def reads_after_node_change(shape: PodShape, _old: object, _new: object) -> HintReads:
    """Return what the hint reads: topology keys, or labels too where defaults apply."""
    return "shape" if shape.spread_constraints else "template"


def is_involved(pod: PodInfo, *events: AnyPod | None) -> bool:
    """Return whether the changed pod, before and after, takes part in the pod's spreading."""
    # Parity: podtopologyspread/plugin.go involvedInTopologySpreading, v1.36.
    return all(
        event is None
        or event.uid == pod.uid
        or (has_node(event) and event.namespace == pod.namespace)
        for event in events
    )


def after_pod_change(
    pod: PodInfo, constraints: Constraints, old: AnyPod | None, new: AnyPod | None
) -> QueueingHint:
    """Return the hint for an added, deleted or updated pod that is involved."""
    # Parity: podtopologyspread/plugin.go isSchedulableAfterPodChange, v1.36.
    if old is not None and new is not None:
        return queue_if(_update_matters(pod, constraints, old, new))
    changed = new if new is not None else old
    assert changed is not None, "an event has an old or a new object"
    return queue_if(any(c.selector.matches(changed.labels) for c in constraints))


def _update_matters(pod: PodInfo, constraints: Constraints, old: AnyPod, new: AnyPod) -> bool:
    tolerates_more = pod.uid == new.uid and new.shape.tolerations != old.shape.tolerations
    if tolerates_more and any(c.honors_taints for c in constraints):
        return True
    return new.labels != old.labels and any(
        c.selector.matches(old.labels) != c.selector.matches(new.labels) for c in constraints
    )


def after_node_change(
    constraints: Constraints, old: NodeInfo | None, new: NodeInfo | None
) -> QueueingHint:
    """Return the hint for an added, deleted or updated node."""
    # Parity: podtopologyspread/plugin.go isSchedulableAfterNodeChange, v1.36.
    had = old is not None and _has_all_keys(old.labels, constraints)
    has = new is not None and _has_all_keys(new.labels, constraints)
    if old is None or new is None:
        return queue_if(had or has)
    if had != has:
        return QueueingHint.QUEUE
    moved = any(
        old.labels.get(c.topology_key, "") != new.labels.get(c.topology_key, "")
        for c in constraints
    )
    return queue_if(has and (moved or _taints(old) != _taints(new)))


def _has_all_keys(labels: Mapping[str, str], constraints: Constraints) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


def _taints(node: NodeInfo) -> tuple[object, ...]:
    # Upstream compares the time of a taint too.
    times = tuple(parse_time(time) if time else None for time in node.taint_times)
    return node.taints, times
