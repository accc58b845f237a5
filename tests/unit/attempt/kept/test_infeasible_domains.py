"""Nodes that do not fit are never chosen, whatever their domain would score."""

import pytest

from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.framework.cycle_state import CycleState
from tests.unit.builders import a_wire_node, a_wire_pod, built_with

ZONE = "topology.kubernetes.io/zone"
TERM = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
NEAR_DB = {
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]
    }
}


@pytest.mark.parametrize("count", [10, 30, 60, 90])
def test_a_cordoned_zone_with_many_matching_pods(count: int) -> None:
    cache, built = Cache(), built_with()
    for zone in "abc":
        for number in range(4):
            name, labels = f"{zone}{number}", {ZONE: zone}
            cache.add_node(a_wire_node(name, labels=labels, unschedulable=zone == "a"))
    cache.add_pod(cache.pod_info(a_wire_pod("db-b", labels={"app": "db"}, nodeName="b0")))
    for number in range(count):
        db = a_wire_pod(f"db-{number}", labels={"app": "db"}, nodeName="a0")
        cache.add_pod(cache.pod_info(db))
    profile = built.profiles["default-scheduler"]
    for number in range(4):
        view = cache.snapshot()
        built.handles[profile.name].view = view
        pod = cache.pod_info(a_wire_pod(f"web-{number}", affinity=NEAR_DB))
        run = schedule_pod(profile, view, CycleState(), pod, Search(all_nodes=True))
        assert run_without_extenders(run).suggested_host.startswith("b")
