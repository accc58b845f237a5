"""`kubesched explain`."""
