"""How much room a pod lacks on nodes, and which of its requests no node can hold, for `explain`.

`explanation.counterfactual` tries whether lower requests open a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kubesched.api.amounts import amount
from kubesched.api.resource_requests import PODS
from kubesched.framework.runtime.nominated_pods import nominated_by_node
from kubesched.plugins.pod_changes import PodChange, RejectedPod, UnmetDemand
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_info import PodInfo, resources_of

REQUESTS = "spec.containers[*].resources.requests"


def request_changes(rejected: RejectedPod) -> Iterator[PodChange]:
    """Yield lower requests for the node that lacks least."""
    pod, nodes = rejected.pod, rejected.nodes
    columns = _shortages(rejected)
    if not columns:
        return
    requests = [1 if name == PODS else pod.requests[name] for name in columns]
    shares = np.array([c / r for c, r in zip(columns.values(), requests, strict=True)])
    worst = np.where(shares.any(axis=0), shares.max(axis=0), np.inf)
    # Of nodes that lack as large a share of one request, the one that lacks less of the others.
    place = int(np.lexsort((shares.sum(axis=0), worst))[0])
    short = {name: column.item(place) for name, column in columns.items() if column[place]}
    if short:
        change = _lower_requests(pod, short)
        text = _shortfall_text(pod, short, nodes.names[place], len(nodes))
        yield change._replace(row=nodes.rows.item(place), text_alone=text)


def _lower_requests(pod: PodInfo, short: Mapping[str, int]) -> PodChange:
    """Return the change to requests that fit a node which is short of some resources."""
    # A request cannot fall below zero, which is enough on an overcommitted node.
    lower = {name: min(n, pod.requests[name]) for name, n in short.items() if name != PODS}
    phrases = [
        f"no {name}" if value == pod.requests[name] else f"{_up(name, value)} {name} less"
        for name, value in lower.items()
    ]
    needs_node = PODS in short
    return PodChange(
        "resources",
        "" if needs_node else REQUESTS,
        f"requesting {' and '.join(phrases)}",
        lambda pod: _with_lower_requests(pod, lower),
        is_of_shape=True,
        lacks={name: lower.get(name, value) for name, value in short.items()},
        needs_node=needs_node,
    )


def _shortfall_text(pod: PodInfo, short: Mapping[str, int], node: str, node_count: int) -> str:
    """Return in words what a node lacks, the least of some nodes."""
    parts, over = [], []
    for name, value in short.items():
        request = pod.requests[name]
        if name == PODS:
            more = "one more pod" if value == 1 else f"{value} more pods"
            parts.append(f"room for {more}")
        elif value <= request:
            parts.append(f"{_up(name, value)} {name}")
        else:
            parts.append(f"all of its {_up(name, request)} {name}")
            over.append(f"{_up(name, value - request)} {name}")
    note = f" (overcommitted by {' and '.join(over)})" if over else ""
    least = f", the least short of {node_count} nodes that would fit otherwise"
    return f"lacks {' and '.join(parts)} on {node}{note}{least if node_count > 1 else ''}"


def requests_larger_than_any_node(rejected: RejectedPod) -> Iterator[UnmetDemand]:
    """Yield the requests that no node could hold even if it were empty."""
    for name, request in _checked_requests(rejected):
        largest = int(rejected.nodes.allocatable[name].max(initial=0))
        if request <= largest:
            continue
        has = f"the largest node has {amount(name, largest)}" if largest else "no node has any"
        text = f"requests {_up(name, request)} {name}; {has}"
        yield UnmetDemand(REQUESTS, text, {name: request - largest})


def _shortages(rejected: RejectedPod) -> dict[str, IntColumn]:
    """Return by resource how much each node lacks, with nominated pods counted as present."""
    nodes = rejected.nodes
    nominated = nominated_by_node(nodes, rejected.pod)
    columns: dict[str, IntColumn] = {}
    for name, request in _checked_requests(rejected):
        taken = np.array([sum(p.requests[name] for p in pods) for pods in nominated])
        free = nodes.allocatable[name] - nodes.requested[name] - taken
        columns[name] = np.maximum(request - free, 0)
    count = nodes.pod_count + np.array([len(pods) for pods in nominated])
    columns[PODS] = np.maximum(count + 1 - nodes.allowed_pods, 0)
    return {name: column for name, column in columns.items() if column.any()}


def _checked_requests(rejected: RejectedPod) -> list[tuple[str, int]]:
    """Return the requests that the plugin compares with nodes: it may ignore some resources."""
    return [
        (name, request)
        for name, request in rejected.pod.requests.items()
        if request > 0 and not rejected.plugin.ignores(name)
    ]


def _with_lower_requests(pod: PodInfo, less: Mapping[str, int]) -> PodInfo:
    requests = {name: value - less.get(name, 0) for name, value in pod.requests.items()}
    return PodInfo(pod.object, pod.shape.changed(requests=resources_of(requests)))


def _up(resource: str, value: int) -> str:
    """Return an amount that is at least as much."""
    return amount(resource, value, up=True)
