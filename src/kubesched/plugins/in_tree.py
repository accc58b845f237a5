"""The whole list of in-tree plugins: name to class.

Upstream: pkg/scheduler/framework/plugins/registry.go
"""

from __future__ import annotations

from kubesched.framework.registry import PluginFactory, Registry
from kubesched.plugins.default_binder import DefaultBinder
from kubesched.plugins.default_preemption import DefaultPreemption
from kubesched.plugins.dynamic_resources import DynamicResources
from kubesched.plugins.gang_scheduling import GangScheduling
from kubesched.plugins.image_locality import ImageLocality
from kubesched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kubesched.plugins.node_affinity import NodeAffinity
from kubesched.plugins.node_declared_features import NodeDeclaredFeatures
from kubesched.plugins.node_name import NodeName
from kubesched.plugins.node_ports import NodePorts
from kubesched.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kubesched.plugins.node_resources.fit import NodeResourcesFit
from kubesched.plugins.node_unschedulable import NodeUnschedulable
from kubesched.plugins.node_volume_limits import NodeVolumeLimits
from kubesched.plugins.pod_group_pods_count import PodGroupPodsCount
from kubesched.plugins.pod_topology_spread.plugin import PodTopologySpread
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.plugins.scheduling_gates import SchedulingGates
from kubesched.plugins.taint_toleration import TaintToleration
from kubesched.plugins.topology_placement_generator import TopologyPlacementGenerator
from kubesched.plugins.volume_binding.plugin import VolumeBinding
from kubesched.plugins.volume_restrictions import VolumeRestrictions
from kubesched.plugins.volume_zone import VolumeZone

IN_TREE: tuple[PluginFactory, ...] = (
    DynamicResources,
    ImageLocality,
    TaintToleration,
    NodeName,
    NodePorts,
    NodeAffinity,
    NodeDeclaredFeatures,
    PodTopologySpread,
    NodeUnschedulable,
    NodeResourcesFit,
    NodeResourcesBalancedAllocation,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
    NodeVolumeLimits,
    InterPodAffinity,
    PrioritySort,
    DefaultBinder,
    DefaultPreemption,
    SchedulingGates,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)


IN_TREE_NAMES: frozenset[str] = frozenset(
    plugin.name  # type: ignore[attr-defined]  # all are classes with a name
    for plugin in IN_TREE
)


def in_tree_registry() -> Registry:
    """Return a registry of all in-tree plugins, enabled by default or not."""
    return Registry({plugin.name: plugin for plugin in IN_TREE})  # type: ignore[attr-defined]  # all are classes with a name
