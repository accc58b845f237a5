"""InterPodAffinity: pods that want, or do not want, to be near each other.

Owns the name under which the plugin is found. Never holds logic: the modules beside it do.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity
"""

from kubesched.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
