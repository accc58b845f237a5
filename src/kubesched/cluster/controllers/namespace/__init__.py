"""Deletion of namespaces."""
