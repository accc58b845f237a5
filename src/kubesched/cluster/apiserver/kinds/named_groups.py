"""Strategies of the named API groups; those of events.k8s.io are in `core`."""

from __future__ import annotations

from kubesched.cluster.apiserver.kinds.apps import apps_strategies
from kubesched.cluster.apiserver.kinds.batch import batch_strategies
from kubesched.cluster.apiserver.kinds.devices import device_strategies
from kubesched.cluster.apiserver.kinds.networking import networking_strategies
from kubesched.cluster.apiserver.kinds.other_kinds import other_strategies
from kubesched.cluster.apiserver.kinds.policy import policy_strategies
from kubesched.cluster.apiserver.kinds.rbac_and_classes import cluster_strategies
from kubesched.cluster.apiserver.kinds.storage import storage_strategies
from kubesched.cluster.apiserver.strategy import Strategy


def named_group_strategies() -> dict[tuple[str, str], Strategy]:
    """Return strategies by group and resource."""
    return {
        **apps_strategies(),
        **batch_strategies(),
        **cluster_strategies(),
        **device_strategies(),
        **networking_strategies(),
        **other_strategies(),
        **policy_strategies(),
        **storage_strategies(),
    }
