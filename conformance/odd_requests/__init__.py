"""Requests that no client should send, and clients that behave as none should."""
