"""Wire structs of services and controllers, as far as scheduling reads them.

Their selectors give pods their default spreading.
Upstream: staging/src/k8s.io/api/core/v1/types.go, staging/src/k8s.io/api/apps/v1/types.go
"""

from typing import ClassVar

from kubesched.api.meta import KubeResource, LabelSelector, ObjectMeta
from kubesched.api.wire import Int32, Wire


class ServiceSpec(Wire, frozen=True, kw_only=True):
    """The pods behind a service."""

    selector: dict[str, str] = {}
    type: str = ""


class Service(KubeResource, frozen=True, kw_only=True):
    """A service."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Service"

    spec: ServiceSpec = ServiceSpec()


class PodTemplate(Wire, frozen=True, kw_only=True):
    """The template of a controller's pods; only its metadata is read."""

    metadata: ObjectMeta = ObjectMeta()


class ReplicationControllerSpec(Wire, frozen=True, kw_only=True):
    """The number of pods and their selector."""

    replicas: Int32 | None = None
    selector: dict[str, str] = {}
    template: PodTemplate | None = None


class ReplicationController(KubeResource, frozen=True, kw_only=True):
    """A replication controller."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ReplicationController"

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ReplicaSetSpec(Wire, frozen=True, kw_only=True):
    """The number of pods and their selector."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class ReplicaSet(KubeResource, frozen=True, kw_only=True):
    """A replica set."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ReplicaSet"

    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(Wire, frozen=True, kw_only=True):
    """The number of pods and their selector."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    service_name: str = ""


class StatefulSet(KubeResource, frozen=True, kw_only=True):
    """A stateful set."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "StatefulSet"

    spec: StatefulSetSpec = StatefulSetSpec()
