"""`kubesched extender`."""
