"""`kubesched run`."""
