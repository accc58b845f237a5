"""The arithmetic of controllers, without I/O: the pods, claims and budgets they imply."""
