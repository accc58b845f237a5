"""What is told of one node: every filter's verdict, and how much room there is."""

from typing import Any

import pytest

from kubesched.engine.comparison import NodeReport, report_on
from kubesched.engine.explanation import attempt
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status, unresolvable
from kubesched.model.pod_info import PodInfo
from tests.unit.builders import a_cluster, a_handle, a_node, a_pod, a_profile, built_with


class NotToday:
    """Refuses every pod before it comes to nodes, and is asked about none."""

    name = "NotToday"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Any) -> Status:
        return unresolvable("not today")


class NotTodayEither(NotToday):
    """Refuses every pod before it comes to nodes, and would let any node pass."""

    name = "NotTodayEither"

    def filter(self, state: CycleState, pod: PodInfo, node: Any) -> None:
        return None


class AnyNode:
    name = "AnyNode"

    def filter(self, state: CycleState, pod: PodInfo, node: Any) -> None:
        return None


def report(*plugins: Any) -> NodeReport:
    view = a_cluster([a_node("a"), a_node("b")])
    profile = a_profile(*plugins)
    a_handle(profile, view)
    return report_on(attempt(profile, view, a_pod()), "b")


@pytest.mark.parametrize("plugin", [NotToday, NotTodayEither])
def test_a_plugin_that_refuses_the_pod_as_a_whole_refuses_the_node(plugin: Any) -> None:
    told = report(plugin(), AnyNode())
    assert [(v.plugin, v.code, v.reasons, v.whole) for v in told.verdicts] == [
        (plugin.name, "UnschedulableAndUnresolvable", ("not today",), True),
        ("AnyNode", "Success", (), False),
    ]
    assert told.refused == told.verdicts[0]
    assert [(c.kind, c.plugin) for c in told.changes or ()] == [("plugin", plugin.name)]


def test_room_tells_what_was_promised_to_pods_that_come_first() -> None:
    promised = [
        a_pod("above", requests={"cpu": "300m"}, priority=9),
        a_pod("equal", requests={"cpu": "200m", "memory": "1Gi"}, priority=5),
        a_pod("below", requests={"cpu": "100m"}, priority=1),
        a_pod("new", requests={"cpu": "500m"}, priority=5),
    ]
    small = {"cpu": "2", "memory": "8Gi", "pods": "9"}
    view = a_cluster(
        [a_node("a", allocatable=small)],
        {"a": [a_pod("there", requests={"cpu": "1"})]},
        nominated={"a": promised},
    )
    built = built_with()
    profile = built.profiles["default-scheduler"]
    built.handles[profile.name].view = view
    told = report_on(attempt(profile, view, promised[-1]), "a")
    assert [(r.resource, r.asked, r.free, r.promised, r.allocatable) for r in told.room] == [
        ("cpu", 500, 1000, 500, 2000),
        ("pods", 1, 8, 2, 9),
    ]
