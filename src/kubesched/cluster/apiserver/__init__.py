"""The embedded API server: Kubernetes' REST API over documents in memory.

Paths, verbs, versions, watches, defaulting, admission and validation. It stores whole documents and
knows nothing of scheduling.
Upstream: staging/src/k8s.io/apiserver, pkg/registry, pkg/apis
"""
