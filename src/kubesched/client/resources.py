"""Paths of the API resources that the scheduler, the controllers and the kubelet use.

Kinds that the scheduler reads have an entry in `api.kinds`, and their paths come from there.
Upstream: staging/src/k8s.io/client-go/rest/request.go
"""

from __future__ import annotations

from typing import Final

from kubesched.api.kinds import KINDS
from kubesched.api.kinds import Resource as Resource  # noqa: PLC0414 - offered here as well

_WATCHED: Final = {kind.resource.plural: kind.resource for kind in KINDS}


def _core(plural: str, kind: str) -> Resource:
    return Resource("", "v1", plural, kind)


PODS: Final = _WATCHED["pods"]
BINDINGS: Final = _core("bindings", "Binding")
NODES: Final = _WATCHED["nodes"]
NAMESPACES: Final = _WATCHED["namespaces"]
PERSISTENT_VOLUMES: Final = _WATCHED["persistentvolumes"]
PERSISTENT_VOLUME_CLAIMS: Final = _WATCHED["persistentvolumeclaims"]
SERVICES: Final = _WATCHED["services"]
REPLICATION_CONTROLLERS: Final = _WATCHED["replicationcontrollers"]
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
CORE_EVENTS: Final = _core("events", "Event")
REPLICA_SETS: Final = _WATCHED["replicasets"]
STATEFUL_SETS: Final = _WATCHED["statefulsets"]
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
STORAGE_CLASSES: Final = _WATCHED["storageclasses"]
CSI_NODES: Final = _WATCHED["csinodes"]
CSI_DRIVERS: Final = _WATCHED["csidrivers"]
CSI_STORAGE_CAPACITIES: Final = _WATCHED["csistoragecapacities"]
VOLUME_ATTACHMENTS: Final = _WATCHED["volumeattachments"]
POD_DISRUPTION_BUDGETS: Final = _WATCHED["poddisruptionbudgets"]
PRIORITY_CLASSES: Final = _WATCHED["priorityclasses"]
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
RESOURCE_CLAIMS: Final = _WATCHED["resourceclaims"]
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
