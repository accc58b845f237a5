"""What the cluster is, as tables: rows of nodes, rows of pods, small integers."""
