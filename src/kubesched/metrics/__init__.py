"""Metrics: definitions, storage and the Prometheus text format."""
