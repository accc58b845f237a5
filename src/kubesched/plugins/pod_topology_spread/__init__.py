"""PodTopologySpread: pods of a kind spread evenly over zones, hosts or any other label.

Owns the name under which the plugin is found. Never holds logic: the modules beside it do.
Upstream: pkg/scheduler/framework/plugins/podtopologyspread
"""

from kubesched.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
