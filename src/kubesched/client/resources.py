"""Which kinds the scheduler asks for, and under which paths the API server has them.

Owns group, version and plural of every kind, and how a path is put together. Never sends anything.
Upstream: staging/src/k8s.io/client-go/rest/request.go
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    root: str = field(init=False, repr=False, compare=False)
    """The path of its group and version, with a slash at the end."""

    def __post_init__(self) -> None:
        root = f"/apis/{self.group}/{self.version}/" if self.group else f"/api/{self.version}/"
        object.__setattr__(self, "root", root)

    @property
    def api_version(self) -> str:
        """Return what a document of this kind has as its apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """Return the plural with its group, as messages of the API server name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of one object, or of all in a namespace, or of all there are.

        Names and namespaces are DNS labels, so that nothing in them has to be quoted.
        """
        path = self.root
        if namespace and self.namespaced:
            path += f"namespaces/{namespace}/"
        path += self.plural
        if name:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, namespaced)


def _storage(plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource("storage.k8s.io", "v1", plural, kind, namespaced)


def _devices(plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource("resource.k8s.io", "v1", plural, kind, namespaced)


PODS: Final = _core("pods", "Pod")
BINDINGS: Final = _core("bindings", "Binding")
NODES: Final = _core("nodes", "Node", namespaced=False)
NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False)
PERSISTENT_VOLUMES: Final = _core("persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
SERVICES: Final = _core("services", "Service")
REPLICATION_CONTROLLERS: Final = _core("replicationcontrollers", "ReplicationController")
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
CORE_EVENTS: Final = _core("events", "Event")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
SECRETS: Final = _core("secrets", "Secret")
RESOURCE_QUOTAS: Final = _core("resourcequotas", "ResourceQuota")
ENDPOINTS: Final = _core("endpoints", "Endpoints")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CLUSTER_ROLES: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False
)
STORAGE_CLASSES: Final = _storage("storageclasses", "StorageClass")
CSI_NODES: Final = _storage("csinodes", "CSINode")
CSI_DRIVERS: Final = _storage("csidrivers", "CSIDriver")
CSI_STORAGE_CAPACITIES: Final = _storage(
    "csistoragecapacities", "CSIStorageCapacity", namespaced=True
)
VOLUME_ATTACHMENTS: Final = _storage("volumeattachments", "VolumeAttachment")
POD_DISRUPTION_BUDGETS: Final = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"
)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
RESOURCE_CLAIMS: Final = _devices("resourceclaims", "ResourceClaim", namespaced=True)
RESOURCE_SLICES: Final = _devices("resourceslices", "ResourceSlice")
DEVICE_CLASSES: Final = _devices("deviceclasses", "DeviceClass")
TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
