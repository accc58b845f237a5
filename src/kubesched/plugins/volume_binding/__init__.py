"""VolumeBinding: finds, assumes and binds the volumes of a pod's claims."""
