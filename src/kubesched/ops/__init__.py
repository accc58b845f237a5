"""The scheduler's own HTTPS server, for kubelets, Prometheus and people.

Owns health, metrics and debugging pages, their TLS, authentication and authorization. Never
decides anything about pods; the caller supplies the content.
Upstream: cmd/kube-scheduler/app/server.go, staging/src/k8s.io/apiserver/pkg/server
"""
