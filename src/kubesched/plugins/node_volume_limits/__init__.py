"""NodeVolumeLimits: limits how many volumes of a driver a node attaches."""
