"""All in-tree plugins: the records that the plugin modules define.

Upstream: pkg/scheduler/framework/plugins/registry.go
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from kubesched.framework.runtime.registry import Registry
from kubesched.plugins import (
    default_binder,
    default_preemption,
    dynamic_resources,
    image_locality,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_unschedulable,
    pod_groups,
    priority_sort,
    scheduling_gates,
    taint_toleration,
    volume_restrictions,
    volume_zone,
)
from kubesched.plugins.inter_pod_affinity import plugin as inter_pod_affinity
from kubesched.plugins.node_resources import balanced_allocation, fit
from kubesched.plugins.node_volume_limits import plugin as node_volume_limits
from kubesched.plugins.pod_topology_spread import plugin as pod_topology_spread
from kubesched.plugins.record import InTreePlugin
from kubesched.plugins.volume_binding import plugin as volume_binding

IN_TREE: Final[dict[str, InTreePlugin]] = {
    record.name: record
    for record in (
        balanced_allocation.PLUGIN,
        default_binder.PLUGIN,
        default_preemption.PLUGIN,
        dynamic_resources.PLUGIN,
        fit.PLUGIN,
        image_locality.PLUGIN,
        inter_pod_affinity.PLUGIN,
        node_affinity.PLUGIN,
        node_declared_features.PLUGIN,
        node_name.PLUGIN,
        node_ports.PLUGIN,
        node_unschedulable.PLUGIN,
        node_volume_limits.PLUGIN,
        *pod_groups.PLUGINS,
        pod_topology_spread.PLUGIN,
        priority_sort.PLUGIN,
        scheduling_gates.PLUGIN,
        taint_toleration.PLUGIN,
        volume_binding.PLUGIN,
        volume_restrictions.PLUGIN,
        volume_zone.PLUGIN,
    )
}
"""The record of each in-tree plugin, enabled by default or not."""
IN_TREE_NAMES: Final[AbstractSet[str]] = IN_TREE.keys()


def in_tree_registry() -> Registry:
    """Return a registry of all in-tree plugins."""
    return Registry({name: record.plugin for name, record in IN_TREE.items()})
