"""Priority classes.

Owns PriorityClass. Never computes a pod's priority: admission has done that.
Upstream: staging/src/k8s.io/api/scheduling/v1/types.go
"""

from typing import ClassVar

from kubesched.objects.meta import KubeResource
from kubesched.objects.wire import Int32


class PriorityClass(KubeResource, frozen=True, kw_only=True):
    """A name for a priority."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"
    namespaced: ClassVar[bool] = False

    value: Int32 = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None
