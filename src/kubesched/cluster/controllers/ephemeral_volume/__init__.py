"""PersistentVolumeClaims of ephemeral volumes."""
