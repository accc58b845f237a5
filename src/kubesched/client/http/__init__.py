"""Requests on the wire: connections, TLS, proxies, priorities and rate limits."""
