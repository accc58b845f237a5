"""The extension points of each plugin, which determine the rejected configurations."""

from typing import Any

import pytest

from kubesched.framework.interface import points_of
from kubesched.plugins.in_tree import IN_TREE

# Source: the `var _ fwk.XPlugin = &Y{}` lines of upstream's plugins; `events` is EnqueueExtensions.
EXPECTED = {
    "DefaultBinder": "bind",
    "DefaultPreemption": "preEnqueue postFilter events",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind events",
    "GangScheduling": "preEnqueue permit events",
    "ImageLocality": "score",
    "InterPodAffinity": "preFilter filter preScore score events",
    "NodeAffinity": "preFilter filter preScore score events",
    "NodeDeclaredFeatures": "preFilter filter events",
    "NodeName": "filter events",
    "NodePorts": "preFilter filter events",
    "NodeResourcesBalancedAllocation": "preScore score",
    "NodeResourcesFit": "preFilter filter preScore score placementScore events",
    "NodeUnschedulable": "filter events",
    "NodeVolumeLimits": "preFilter filter events",
    "PodGroupPodsCount": "placementScore",
    "PodTopologySpread": "preFilter filter preScore score events",
    "PrioritySort": "queueSort",
    "SchedulingGates": "preEnqueue events",
    "TaintToleration": "filter preScore score events",
    "TopologyPlacementGenerator": "placementGenerate",
    "VolumeBinding": "preFilter filter preScore score reserve preBind events",
    "VolumeRestrictions": "preFilter filter events",
    "VolumeZone": "preFilter filter events",
}


def test_the_expectations_are_those_of_the_listed_plugins() -> None:
    assert sorted(EXPECTED) == sorted(IN_TREE)


@pytest.mark.parametrize("name", IN_TREE)
def test_a_plugin_extends_the_points_upstream_asserts(name: str) -> None:
    plugin: Any = IN_TREE[name].plugin
    events = {"events"} if hasattr(plugin, "events_to_register") else set()
    assert points_of(plugin) | events == set(EXPECTED[name].split())


@pytest.mark.parametrize("name", IN_TREE)
def test_a_plugin_is_named_as_its_class(name: str) -> None:
    plugin: Any = IN_TREE[name].plugin
    assert name == plugin.name == plugin.__name__
