"""Wire struct of priority classes.

The priority of a pod is computed by admission.
Upstream: staging/src/k8s.io/api/scheduling/v1/types.go
"""

from typing import ClassVar

from kubesched.api.meta import KubeResource
from kubesched.api.wire import Int32


class PriorityClass(KubeResource, frozen=True, kw_only=True):
    """A named priority."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"
    namespaced: ClassVar[bool] = False

    value: Int32 = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None
