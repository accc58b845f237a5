"""Which controllers there are.

Owns the list. Never starts any.
Upstream: cmd/kube-controller-manager/app/controllermanager.go NewControllerDescriptors
"""

from __future__ import annotations

from typing import Final

from kubesched.controllers.cluster_role_aggregation import ClusterRoleAggregation
from kubesched.controllers.controller import Controller
from kubesched.controllers.cron_job import CronJobController
from kubesched.controllers.daemon_set import DaemonSetController
from kubesched.controllers.deployment import DeploymentController
from kubesched.controllers.disruption import DisruptionController
from kubesched.controllers.endpoint_slices import EndpointSliceController
from kubesched.controllers.endpoints import EndpointsController
from kubesched.controllers.ephemeral_volumes import EphemeralVolumeController
from kubesched.controllers.garbage_collector import GarbageCollector
from kubesched.controllers.job import JobController
from kubesched.controllers.job_orphans import JobOrphanController
from kubesched.controllers.namespaces import NamespaceController
from kubesched.controllers.node_lifecycle import NodeLifecycleController
from kubesched.controllers.pod_gc import PodGcController
from kubesched.controllers.replica_set import ReplicaSetController
from kubesched.controllers.replication_controller import ReplicationControllerController
from kubesched.controllers.resource_quotas import ResourceQuotaController
from kubesched.controllers.root_ca import RootCaPublisher
from kubesched.controllers.service_accounts import ServiceAccountsController
from kubesched.controllers.stale_disruption import StaleDisruptionController
from kubesched.controllers.stateful_set import StatefulSetController
from kubesched.controllers.taint_eviction import TaintEvictionController
from kubesched.controllers.ttl_after_finished import TtlAfterFinishedController
from kubesched.controllers.volume_protection import (
    ClaimProtectionController,
    VolumeProtectionController,
)
from kubesched.controllers.volumes import PersistentVolumeController

CONTROLLERS: Final[tuple[type[Controller], ...]] = (
    NamespaceController,
    ServiceAccountsController,
    RootCaPublisher,
    ClusterRoleAggregation,
    EndpointsController,
    EndpointSliceController,
    ResourceQuotaController,
    GarbageCollector,
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
