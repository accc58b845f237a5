"""The scheduling queue: pending pods, their order, and the events that move them.

Owns the queue, its queueing hints and the nominator. Never blocks, never reads the cluster.
Upstream: pkg/scheduler/backend/queue
"""
