"""Node lifecycle: heartbeats, conditions, taints and zones."""
