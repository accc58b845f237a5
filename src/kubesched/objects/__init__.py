"""Wire types: what the API server sends, and the texts inside it.

Owns the structs of every kind the scheduler reads, quantities, times and selectors. Never holds
anything derived from more than one object, and never does I/O.
Upstream: staging/src/k8s.io/api, staging/src/k8s.io/apimachinery
"""
