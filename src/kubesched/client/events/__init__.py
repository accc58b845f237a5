"""Kubernetes Events: series, correlation and writing."""
