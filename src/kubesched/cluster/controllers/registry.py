"""The list of all controllers.

Upstream: cmd/kube-controller-manager/app/controllermanager.go NewControllerDescriptors
"""

from __future__ import annotations

from typing import Final

from kubesched.cluster.controllers.cluster_role_aggregation.controller import (
    ClusterRoleAggregationController,
)
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.cron_job.controller import CronJobController
from kubesched.cluster.controllers.daemon_set.controller import DaemonSetController
from kubesched.cluster.controllers.deployment.controller import DeploymentController
from kubesched.cluster.controllers.disruption.controller import (
    DisruptionController,
    StaleDisruptionController,
)
from kubesched.cluster.controllers.endpoint_slice.controller import EndpointSliceController
from kubesched.cluster.controllers.endpoints.controller import EndpointsController
from kubesched.cluster.controllers.ephemeral_volume.controller import EphemeralVolumeController
from kubesched.cluster.controllers.garbage_collector.controller import GarbageCollectorController
from kubesched.cluster.controllers.job.controller import JobController, JobOrphanController
from kubesched.cluster.controllers.namespace.controller import NamespaceController
from kubesched.cluster.controllers.node_lifecycle.controller import NodeLifecycleController
from kubesched.cluster.controllers.persistent_volume.controller import PersistentVolumeController
from kubesched.cluster.controllers.pod_gc.controller import PodGcController
from kubesched.cluster.controllers.replica_set.controller import (
    ReplicaSetController,
    ReplicationControllerController,
)
from kubesched.cluster.controllers.resource_quota.controller import ResourceQuotaController
from kubesched.cluster.controllers.root_ca_publisher.controller import RootCaPublisherController
from kubesched.cluster.controllers.service_account.controller import ServiceAccountController
from kubesched.cluster.controllers.stateful_set.controller import StatefulSetController
from kubesched.cluster.controllers.taint_eviction.controller import TaintEvictionController
from kubesched.cluster.controllers.ttl_after_finished.controller import TtlAfterFinishedController
from kubesched.cluster.controllers.volume_protection.controller import (
    ClaimProtectionController,
    VolumeProtectionController,
)

CONTROLLERS: Final[tuple[type[Controller], ...]] = (
    NamespaceController,
    ServiceAccountController,
    RootCaPublisherController,
    ClusterRoleAggregationController,
    EndpointsController,
    EndpointSliceController,
    ResourceQuotaController,
    GarbageCollectorController,
    ReplicaSetController,
    ReplicationControllerController,
    DeploymentController,
    StatefulSetController,
    DaemonSetController,
    PersistentVolumeController,
    ClaimProtectionController,
    VolumeProtectionController,
    EphemeralVolumeController,
    NodeLifecycleController,
    TaintEvictionController,
    JobController,
    JobOrphanController,
    CronJobController,
    TtlAfterFinishedController,
    DisruptionController,
    StaleDisruptionController,
    PodGcController,
)
