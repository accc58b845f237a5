"""Namespaces.

Owns the namespace, of which the labels count. Never selects namespaces: selectors does.
Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

from typing import ClassVar

from kubesched.objects.meta import KubeResource
from kubesched.objects.wire import Wire


class NamespaceStatus(Wire, frozen=True, kw_only=True):
    """Whether the namespace is going away."""

    phase: str = ""


class Namespace(KubeResource, frozen=True, kw_only=True):
    """A namespace."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"
    namespaced: ClassVar[bool] = False

    status: NamespaceStatus = NamespaceStatus()
