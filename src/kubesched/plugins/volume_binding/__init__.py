"""VolumeBinding: finds, assumes and binds the volumes of a pod's claims."""

from kubesched.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
