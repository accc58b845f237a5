"""An API server in one process: Kubernetes' REST interface over documents kept in memory.

Owns what a client sees of a cluster: paths, verbs, versions, watches, defaulting, admission and
validation. It stores whole documents and knows nothing of scheduling.
Upstream: staging/src/k8s.io/apiserver, pkg/registry, pkg/apis
"""
