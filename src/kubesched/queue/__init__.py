"""Pods that wait: which is tried next, which must wait, and what wakes them.

Owns the parts of the scheduling queue and the nominator. Never blocks, never reads the cluster.
Upstream: pkg/scheduler/backend/queue
"""
