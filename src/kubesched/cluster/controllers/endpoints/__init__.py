"""Endpoints of services."""
