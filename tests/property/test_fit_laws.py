"""`explain` and queueing hints agree with the filter of NodeResourcesFit about resources.

`shortfall` and `fit_hints` implement the filter's rule in other forms. These laws compare all three
one unit below, at and above each boundary: a change to only one of them fails here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Code
from kubesched.plugins.node_resources.fit_hints import after_node_change, after_pod_event
from kubesched.plugins.node_resources.shortfall import (
    REQUESTS,
    request_changes,
    requests_larger_than_any_node,
)
from kubesched.plugins.pod_changes import PodChange, RejectedPod
from kubesched.snapshot.pod_info import PodInfo, resources_of
from kubesched.snapshot.view import NodeTable
from tests.property.hook_worlds import GPU, built, worlds
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, statuses_of

PROFILE, FIT = "default-scheduler", "NodeResourcesFit"
REQUEST = {"cpu": 7, "memory": 11, "ephemeral-storage": 5, GPU: 2}
DELTAS = [-1, 0, 1]


def fit(profile: str = "default") -> Any:
    return built(profile).profiles[PROFILE].plugins[FIT]


def code_of(plugin: Any, pod: PodInfo, nodes: NodeTable) -> Code | None:
    """Return the filter's verdict on a table with one node; None if the pod fits."""
    state = CycleState()
    plugin.pre_filter(state, pod, nodes)
    statuses = statuses_of(plugin.filter_nodes(state, pod, nodes), nodes.names)
    return statuses[nodes.names[0]].code if statuses else None


# -- shortfall ---------------------------------------------------------------------------------


def rejected_pods(profile: str) -> Iterator[RejectedPod]:
    """Yield every pod of the resource worlds with every single node."""
    plugin = fit(profile)
    for world in worlds("resources"):
        if world.title == "int64":
            continue  # Differences overflow there; `explain` shows amounts, which never do.
        view = world.view
        for pod in world.pods:
            for row in view.all_nodes().rows.tolist():
                yield RejectedPod(plugin, pod, view.nodes_at(np.array([row])))


def lowered(change: PodChange, pod: PodInfo, too_little: str) -> PodInfo:
    """Return the changed pod with its requests, one of them a unit larger than in the change."""
    requests = dict(change.edit(pod).requests)
    requests[too_little] += 1
    return PodInfo(pod.object, pod.shape.changed(requests=resources_of(requests)))


@pytest.mark.parametrize("profile", ["default", "weighted"])
def test_a_shortfall_is_the_least_that_the_filter_lacks(profile: str) -> None:
    seen: Counter[str] = Counter()
    for rejected in rejected_pods(profile):
        plugin, pod, nodes = rejected
        verdict, changes = code_of(plugin, pod, nodes), list(request_changes(rejected))
        title = f"requests {dict(pod.requests)}, row {nodes.rows[0]}"
        assert bool(changes) is (verdict is not None), title
        for change in changes:
            changed = code_of(plugin, change.edit(pod), nodes)
            assert (changed is None) is not change.needs_node, title
            for name in change.lacks:
                if name != "pods":
                    still_too_large = lowered(change, pod, name)
                    assert code_of(plugin, still_too_large, nodes) is not None, f"{title}, {name}"
                seen[name] += 1
    assert set(seen) >= {*REQUEST, "pods"}


@pytest.mark.parametrize("profile", ["default", "weighted"])
def test_a_request_larger_than_a_node_is_one_that_preemption_cannot_help(profile: str) -> None:
    seen: Counter[bool] = Counter()
    for rejected in rejected_pods(profile):
        demands = list(requests_larger_than_any_node(rejected))
        is_hopeless = code_of(*rejected) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        title = f"requests {dict(rejected.pod.requests)}, row {rejected.nodes.rows[0]}"
        assert bool(demands) is is_hopeless, title
        assert all(demand.field == REQUESTS for demand in demands)
        seen[is_hopeless] += 1
    assert len(seen) == 2


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("resource", [*REQUEST, "pods"])
def test_a_nominated_pod_takes_room_as_a_bound_one_does(resource: str, delta: int) -> None:
    requests = {} if resource == "pods" else {resource: 3}
    amounts = {name: n + delta + 3 if name in requests else n for name, n in REQUEST.items()}
    node = a_node_of(amounts, pods=2 + delta if resource == "pods" else 110)
    nominee = a_pod("nominee", priority=5, requests=written(requests))
    nodes = a_cluster([node], nominated={"n": [nominee]}).all_nodes()
    lacking = [change.lacks for change in request_changes(RejectedPod(fit(), PENDING, nodes))]
    assert lacking == ([{resource: 1}] if delta < 0 else [])


# -- hints -------------------------------------------------------------------------------------


def written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{n}m" if name == "cpu" else f"{n}" for name, n in amounts.items()}


def a_node_of(amounts: Mapping[str, int], pods: int = 110) -> Any:
    return a_node("n", allocatable={**written(amounts), "pods": f"{pods}"})


def fits(node: Any, *bound: Any) -> bool:
    """Return whether the pending pod passes the filter on a node with some pods."""
    nodes = a_cluster([node], {"n": bound}).all_nodes()
    return code_of(fit(), PENDING, nodes) is None


PENDING = a_pod("pending", requests=written(REQUEST))
SIZES = [
    *(({**REQUEST, name: REQUEST[name] + delta}, 110) for name in REQUEST for delta in DELTAS),
    *((REQUEST, 1 + delta) for delta in DELTAS),
]


@pytest.mark.parametrize(("amounts", "pods"), SIZES)
def test_a_new_node_helps_exactly_if_the_pod_fits_it_empty(amounts: Any, pods: int) -> None:
    node = a_node_of(amounts, pods)
    helps = after_node_change(PENDING, None, node) is QueueingHint.QUEUE
    assert helps is fits(node)


@pytest.mark.parametrize(("amounts", "pods"), SIZES)
@pytest.mark.parametrize("resource", [*REQUEST, "pods"])
def test_a_node_that_grows_by_one_helps_if_the_pod_fits_it_only_then(
    amounts: Any, pods: int, resource: str
) -> None:
    old = a_node_of(amounts, pods)
    more = amounts if resource == "pods" else {**amounts, resource: amounts[resource] + 1}
    new = a_node_of(more, pods + (resource == "pods"))
    hint = after_node_change(PENDING, old, new)
    if not fits(new):
        assert hint is QueueingHint.QUEUE_SKIP
    elif not fits(old):
        assert hint is QueueingHint.QUEUE


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("resource", REQUEST)
def test_a_pod_that_shrinks_or_is_removed_helps_if_the_pod_fits_only_then(
    resource: str, delta: int
) -> None:
    node = a_node_of({**REQUEST, resource: REQUEST[resource] + 3 + delta})
    large, small = (
        a_pod("bound", requests=written({resource: amount}), nodeName="n") for amount in (4, 3)
    )
    assert not fits(node, large) or delta == 1
    assert fits(node, small) is (delta >= 0)
    if fits(node, small) and not fits(node, large):
        assert after_pod_event(PENDING, large, small) is QueueingHint.QUEUE
    if fits(node) and not fits(node, large):
        assert after_pod_event(PENDING, large, None) is QueueingHint.QUEUE
