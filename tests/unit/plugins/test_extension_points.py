"""Which points each plugin extends decides which configurations are refused."""

from typing import Any

import pytest

from kubesched.framework.interface import points_of
from kubesched.plugins.default_binder import DefaultBinder
from kubesched.plugins.dynamic_resources import DynamicResources
from kubesched.plugins.gang_scheduling import GangScheduling
from kubesched.plugins.image_locality import ImageLocality
from kubesched.plugins.node_affinity import NodeAffinity
from kubesched.plugins.node_declared_features import NodeDeclaredFeatures
from kubesched.plugins.node_name import NodeName
from kubesched.plugins.node_ports import NodePorts
from kubesched.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kubesched.plugins.node_resources.fit import NodeResourcesFit
from kubesched.plugins.node_unschedulable import NodeUnschedulable
from kubesched.plugins.pod_group_pods_count import PodGroupPodsCount
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.plugins.scheduling_gates import SchedulingGates
from kubesched.plugins.taint_toleration import TaintToleration
from kubesched.plugins.topology_placement_generator import TopologyPlacementGenerator

# Source: the `var _ fwk.XPlugin = &Y{}` lines of upstream's plugins.
EXPECTED = {
    SchedulingGates: "preEnqueue",
    PrioritySort: "queueSort",
    NodeUnschedulable: "filter",
    NodeName: "filter",
    TaintToleration: "filter preScore score",
    NodeAffinity: "preFilter filter preScore score",
    NodePorts: "preFilter filter",
    NodeResourcesFit: "preFilter filter preScore score placementScore",
    NodeResourcesBalancedAllocation: "preScore score",
    ImageLocality: "score",
    DefaultBinder: "bind",
    NodeDeclaredFeatures: "preFilter filter",
    DynamicResources: "preEnqueue preFilter filter postFilter score reserve preBind",
    GangScheduling: "preEnqueue permit",
    TopologyPlacementGenerator: "placementGenerate",
    PodGroupPodsCount: "placementScore",
}
WITHOUT_EVENTS = {
    PrioritySort,
    DefaultBinder,
    ImageLocality,
    NodeResourcesBalancedAllocation,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
}


@pytest.mark.parametrize("plugin", EXPECTED, ids=lambda plugin: plugin.name)
def test_a_plugin_extends_the_points_upstream_asserts(plugin: Any) -> None:
    assert points_of(plugin) == set(EXPECTED[plugin].split())


@pytest.mark.parametrize("plugin", EXPECTED, ids=lambda plugin: plugin.name)
def test_a_plugin_registers_events_exactly_if_upstream_does(plugin: Any) -> None:
    assert hasattr(plugin, "events_to_register") == (plugin not in WITHOUT_EVENTS)


@pytest.mark.parametrize("plugin", EXPECTED, ids=lambda plugin: plugin.name)
def test_a_plugin_is_named_as_its_class(plugin: Any) -> None:
    assert plugin.name == plugin.__name__
