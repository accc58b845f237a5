"""Wire types of the Kubernetes API, with quantities, times and selectors.

Structs of every kind that the scheduler reads. Nothing here is derived from more than one object,
and nothing does I/O.
Upstream: staging/src/k8s.io/api, staging/src/k8s.io/apimachinery
"""
