"""`kubesched apiserver`."""
