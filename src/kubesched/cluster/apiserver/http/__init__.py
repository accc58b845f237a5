"""Requests and responses of the embedded API server."""
