"""Columns updated change by change equal columns built at once, and so do the decisions."""

from functools import cache
from typing import Any

from hypothesis import given, settings

from kubesched.cache.cache import Cache
from kubesched.config.load import default_config
from kubesched.explanation.decision import decide
from kubesched.kit.rng import RandomStream
from kubesched.profile.build import Built, build
from tests.property.changes import CHANGES, HOST, ZONE, Change, World
from tests.property.facts import facts_of
from tests.unit.builders import a_wire_pod

PROBES: list[dict[str, Any]] = [
    {"requests": {"cpu": "1500m"}, "priority": 25, "labels": {"app": "a1"}},
    {
        "labels": {"app": "a1"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": policy,
                "labelSelector": {"matchLabels": {"app": "a1"}},
            }
            for key, policy in ((ZONE, "DoNotSchedule"), (HOST, "ScheduleAnyway"))
        ],
    },
    {
        "labels": {"app": "a2"},
        "priority": 1000,
        "containers": [
            {"name": "c", "image": "app:1", "ports": [{"hostPort": 8000}, {"hostPort": 8003}]}
        ],
        "nodeSelector": {"disk": "ssd"},
    },
]


@cache
def built() -> Built:
    return build(default_config())


def decisions(cached: Cache) -> list[Any]:
    profile, handle = built().profiles["default-scheduler"], built().handles["default-scheduler"]
    result = []
    for number, parts in enumerate(PROBES):
        handle.rng = RandomStream(0, "test")
        handle.view = cached.snapshot()
        pod = cached.pod_info(a_wire_pod(f"probe-{number}", **parts))
        decision = decide(profile, handle.view, pod)
        result.append((decision.suggested_host, decision.as_json()))
    return result


@settings(max_examples=300)
@given(CHANGES)
def test_facts_equal_those_of_a_rebuild(changes: list[Change]) -> None:
    world = World()
    for change in changes:
        world.apply(change)
    assert facts_of(world.cache.snapshot()) == facts_of(world.rebuilt().snapshot())
    # Pods on unknown or deleted nodes count once the node is added.
    world.complete()
    assert facts_of(world.cache.snapshot()) == facts_of(world.rebuilt().snapshot())


@settings(max_examples=120)
@given(CHANGES)
def test_decisions_equal_those_on_a_rebuild(changes: list[Change]) -> None:
    world = World()
    for change in changes:
        world.apply(change)
        if change.verb == "look":
            decisions(world.cache)  # Decisions may fill caches.
    assert decisions(world.cache) == decisions(world.rebuilt())


@settings(max_examples=120)
@given(CHANGES)
def test_usage_is_the_sum_over_pods(changes: list[Change]) -> None:
    world = World()
    for change in changes:
        world.apply(change)
    for node in world.cache.snapshot().all_nodes():
        assert node.pod_count == len(node.pods)
        for resource in ("cpu", "memory", "example.com/gpu"):
            assert node.requested[resource] == sum(p.requests[resource] for p in node.pods)
        assert node.host_ports == {port for p in node.pods for port in p.shape.host_ports}


@settings(max_examples=30)
@given(CHANGES)
def test_removing_everything_leaves_nothing(changes: list[Change]) -> None:
    world = World()
    for change in changes:
        world.apply(change)
    for name in (*world.bound, *world.nominated):
        world.apply(Change("remove_pod", name))
    for name in list(world.nodes):
        world.apply(Change("remove_node", name))
    cluster = world.cache.snapshot()._cluster
    assert cluster.nodes.row_of == {}
    assert cluster.nodes.images == {}
    assert cluster.pods.index_of == {}
    assert cluster.zones == {}
    for column in (cluster.nodes.requested, cluster.nodes.allocatable, cluster.nodes.pod_count):
        assert not column.any()
