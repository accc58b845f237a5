"""The scheduler's own HTTPS server, for kubelets, Prometheus and people.

Owns health, metrics and debugging pages, their TLS, and who may read them. Never decides anything
about pods: what is shown is handed in.
Upstream: cmd/kube-scheduler/app/server.go, staging/src/k8s.io/apiserver/pkg/server
"""
