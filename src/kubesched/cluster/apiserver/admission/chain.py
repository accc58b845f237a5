"""The enabled admission plugins, in order.

Upstream: pkg/kubeapiserver/options/plugins.go
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.cluster.apiserver.admission.limit_ranger import LimitRanger
from kubesched.cluster.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from kubesched.cluster.apiserver.admission.pods import (
    DefaultTolerationSeconds,
    PodTopologyLabels,
    TaintNodesByCondition,
)
from kubesched.cluster.apiserver.admission.priority import Priority
from kubesched.cluster.apiserver.admission.resource_quota import ResourceQuota
from kubesched.cluster.apiserver.admission.runtime_class import RuntimeClass
from kubesched.cluster.apiserver.admission.service_account import ServiceAccount
from kubesched.cluster.apiserver.admission.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from kubesched.cluster.apiserver.strategy import Admission
from kubesched.kit.rng import RandomStream


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """Plugins that can be disabled."""

    service_account: bool = True
    """Whether pods get a service account and its token, and must have one."""
    taint_nodes_by_condition: bool = True
    """Whether to taint new nodes as not ready."""


WHOLE = AdmissionOptions()
BARE = AdmissionOptions(service_account=False, taint_nodes_by_condition=False)


def admission_chain(options: AdmissionOptions, rng: RandomStream) -> list[Admission]:
    """Return the plugins in upstream's order; `rng` generates their random names."""
    chain: list[Admission] = [NamespaceLifecycle(), LimitRanger()]
    if options.service_account:
        chain.append(ServiceAccount(rng))
    if options.taint_nodes_by_condition:
        chain.append(TaintNodesByCondition())
    chain += [
        Priority(),
        DefaultTolerationSeconds(),
        DefaultStorageClass(),
        StorageObjectInUseProtection(),
        PersistentVolumeClaimResize(),
        RuntimeClass(),
        PodTopologyLabels(),
        ResourceQuota(),
    ]
    return chain
