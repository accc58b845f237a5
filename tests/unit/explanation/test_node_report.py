"""The report on one node: every filter's verdict, and free resources."""

from typing import Any

import pytest

from kubesched.explanation.attempt_record import attempt
from kubesched.explanation.comparison import NodeReport, report_on
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status, unresolvable
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_cluster, a_handle, a_node, a_pod, a_profile, built_with


class NotToday:
    """Rejects every pod in PreFilter, and has no filter."""

    name = "NotToday"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Any) -> Status:
        return unresolvable("not today")


class NotTodayEither(NotToday):
    """Rejects every pod in PreFilter, and has a filter that accepts all nodes."""

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
def test_a_plugin_that_rejects_the_pod_in_pre_filter_rejects_the_node(plugin: Any) -> None:
    node_report = report(plugin(), AnyNode())
    assert [(v.plugin, v.code, v.reasons, v.whole) for v in node_report.verdicts] == [
        (plugin.name, "UnschedulableAndUnresolvable", ("not today",), True),
        ("AnyNode", "Success", (), False),
    ]
    assert node_report.rejected == node_report.verdicts[0]
    assert [(c.kind, c.plugin) for c in node_report.changes or ()] == [("plugin", plugin.name)]


def test_room_includes_nominated_pods_of_higher_priority() -> None:
    nominee = [
        a_pod("above", requests={"cpu": "300m"}, priority=9),
        a_pod("equal", requests={"cpu": "200m", "memory": "1Gi"}, priority=5),
        a_pod("below", requests={"cpu": "100m"}, priority=1),
        a_pod("new", requests={"cpu": "500m"}, priority=5),
    ]
    small = {"cpu": "2", "memory": "8Gi", "pods": "9"}
    view = a_cluster(
        [a_node("a", allocatable=small)],
        {"a": [a_pod("there", requests={"cpu": "1"})]},
        nominated={"a": nominee},
    )
    built = built_with()
    profile = built.profiles["default-scheduler"]
    built.handles[profile.name].view = view
    node_report = report_on(attempt(profile, view, nominee[-1]), "a")
    assert [
        (r.resource, r.requested, r.free, r.nominated, r.allocatable) for r in node_report.room
    ] == [
        ("cpu", 500, 1000, 500, 2000),
        ("pods", 1, 8, 2, 9),
    ]
