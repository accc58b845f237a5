"""The admission plugins that are on, in order.

Owns which plugins a server has. Never admits anything itself.
Upstream: pkg/kubeapiserver/options/plugins.go
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.apiserver.admission.limit_ranger import LimitRanger
from kubesched.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from kubesched.apiserver.admission.nodes import TaintNodesByCondition
from kubesched.apiserver.admission.pods import DefaultTolerationSeconds, PodTopologyLabels
from kubesched.apiserver.admission.priority import Priority
from kubesched.apiserver.admission.resource_quota import ResourceQuota
from kubesched.apiserver.admission.runtime_class import RuntimeClass
from kubesched.apiserver.admission.service_account import ServiceAccount
from kubesched.apiserver.admission.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from kubesched.apiserver.strategy import Admission
from kubesched.kit.rng import Generator


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """What may be off."""

    service_account: bool = True
    """Whether pods get a service account and its token, and must have one."""
    taint_nodes_by_condition: bool = True
    """Whether new nodes are tainted not-ready until somebody says they are ready."""


WHOLE = AdmissionOptions()
BARE = AdmissionOptions(service_account=False, taint_nodes_by_condition=False)


def admission_chain(options: AdmissionOptions, rng: Generator) -> list[Admission]:
    """Return the plugins in upstream's order; names they generate come from `rng`."""
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
