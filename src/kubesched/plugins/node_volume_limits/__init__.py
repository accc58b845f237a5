"""NodeVolumeLimits: a node attaches only so many volumes of a driver."""

from kubesched.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
