"""The cluster as columns: nodes, pods and other objects as tables of small integers."""
