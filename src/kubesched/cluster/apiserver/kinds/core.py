"""Strategies and subresources of the core group and events.k8s.io.

Upstream: pkg/registry/core/rest/storage_core.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.kinds.autoscaling_versions import to_first, to_second
from kubesched.cluster.apiserver.kinds.config_and_secrets import (
    ConfigMapStrategy,
    SecretStrategy,
    ServiceAccountStrategy,
)
from kubesched.cluster.apiserver.kinds.endpoints import EndpointsStrategy
from kubesched.cluster.apiserver.kinds.events import (
    EventStrategy,
    NewEventStrategy,
    from_core,
    to_core,
)
from kubesched.cluster.apiserver.kinds.namespaces import FinalizeStrategy, NamespaceStrategy
from kubesched.cluster.apiserver.kinds.nodes import NodeStrategy
from kubesched.cluster.apiserver.kinds.persistent_volume_claims import PersistentVolumeClaimStrategy
from kubesched.cluster.apiserver.kinds.persistent_volumes import PersistentVolumeStrategy
from kubesched.cluster.apiserver.kinds.pod import (
    EphemeralContainersStrategy,
    PodStrategy,
    ResizeStrategy,
)
from kubesched.cluster.apiserver.kinds.pod_actions import BindingAction, EvictionAction
from kubesched.cluster.apiserver.kinds.quotas import LimitRangeStrategy, ResourceQuotaStrategy
from kubesched.cluster.apiserver.kinds.replication import (
    PodTemplateStrategy,
    ReplicationControllerStrategy,
)
from kubesched.cluster.apiserver.kinds.services import ServiceStrategy
from kubesched.cluster.apiserver.resources import Action, Resource
from kubesched.cluster.apiserver.strategy import Strategy


def core_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies by group and resource."""
    return {
        ("", "configmaps"): ConfigMapStrategy(),
        ("", "endpoints"): EndpointsStrategy(),
        ("", "events"): EventStrategy(),
        ("events.k8s.io", "events"): NewEventStrategy(),
        ("", "limitranges"): LimitRangeStrategy(),
        ("", "namespaces"): NamespaceStrategy(),
        ("", "nodes"): NodeStrategy(),
        ("", "persistentvolumeclaims"): PersistentVolumeClaimStrategy(),
        ("", "persistentvolumes"): PersistentVolumeStrategy(),
        ("", "pods"): PodStrategy(),
        ("", "podtemplates"): PodTemplateStrategy(),
        ("", "replicationcontrollers"): ReplicationControllerStrategy(),
        ("", "resourcequotas"): ResourceQuotaStrategy(),
        ("", "secrets"): SecretStrategy(),
        ("", "serviceaccounts"): ServiceAccountStrategy(),
        ("", "services"): ServiceStrategy(),
    }


def core_views() -> dict[tuple[str, str, str], Strategy]:
    """Return the strategies of subresources other than status."""
    return {
        ("", "pods", "ephemeralcontainers"): EphemeralContainersStrategy(),
        ("", "pods", "resize"): ResizeStrategy(),
        ("", "namespaces", "finalize"): FinalizeStrategy(),
    }


def core_actions() -> dict[tuple[str, str, str], Action]:
    """Return the actions of subresources, by group, resource and subresource."""
    return {
        ("", "pods", "binding"): BindingAction(),
        ("", "pods", "eviction"): EvictionAction(),
    }


def core_collection_actions() -> dict[tuple[str, str], Action]:
    """Return the actions of collections that store nothing, by group and resource."""
    return {("", "bindings"): BindingAction()}


_DEPRECATED = {
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
}


def share_storage(resource: Resource) -> None:
    """Configure conversion of resources with shared storage; set deprecation warnings."""
    if not resource.group:
        resource.deprecation = _DEPRECATED.get(resource.resource, "")
    if (resource.group, resource.resource) == ("events.k8s.io", "events"):
        resource.storage = "/events"
        resource.to_storage = to_core
        resource.from_storage = from_core
    names = (resource.group, resource.version, resource.resource)
    if names == ("autoscaling", "v1", "horizontalpodautoscalers"):
        resource.to_storage = to_second
        resource.from_storage = to_first
