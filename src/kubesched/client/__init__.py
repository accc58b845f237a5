"""The client of the API server: the only package that talks to it.

Owns kubeconfigs, credentials, requests, watches, leases and events on the wire. Never decides
anything about pods, and never sees the cache or the queue.
Upstream: staging/src/k8s.io/client-go
"""
