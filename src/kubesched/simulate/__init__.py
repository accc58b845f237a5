"""Simulated runs over a cluster in memory."""
