"""Wire struct of namespaces, whose labels affinity terms select.

Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

from typing import ClassVar

from kubesched.api.meta import KubeResource
from kubesched.api.wire import Wire


class NamespaceStatus(Wire, frozen=True, kw_only=True):
    """The phase of a namespace: active or terminating."""

    phase: str = ""


class Namespace(KubeResource, frozen=True, kw_only=True):
    """A namespace."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"
    namespaced: ClassVar[bool] = False

    status: NamespaceStatus = NamespaceStatus()
