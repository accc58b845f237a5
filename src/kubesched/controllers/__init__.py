"""Controllers: what turns Deployments, Jobs, claims and the like into pods, volumes and statuses.

Owns what kube-controller-manager does for a small cluster, one module for each of its controllers.
Uses only REST, so that any API server will do. Never schedules, and never runs a pod.
Upstream: pkg/controller
"""
