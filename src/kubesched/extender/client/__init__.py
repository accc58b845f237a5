"""Calls the HTTP extenders that a configuration names."""
