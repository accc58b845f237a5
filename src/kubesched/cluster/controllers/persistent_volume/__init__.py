"""Binding, provisioning and reclaiming of persistent volumes."""
