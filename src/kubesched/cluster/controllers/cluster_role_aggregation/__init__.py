"""Aggregated ClusterRoles."""
