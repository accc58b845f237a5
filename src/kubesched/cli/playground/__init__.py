"""`kubesched playground`."""
