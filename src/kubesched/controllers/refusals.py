"""What a refusal of the API server is about.

Owns the reading of causes. Never decides what follows from one.
Upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go HasStatusCause
"""

from __future__ import annotations

from kubesched.client.errors import ApiError


def is_namespace_ending(error: ApiError) -> bool:
    """Return whether nothing can be made because the namespace is being deleted."""
    causes = error.details.get("causes") or ()
    return any(one.get("reason") == "NamespaceTerminating" for one in causes)
