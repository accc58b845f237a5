"""VolumeZone: keeps a pod in the zones and regions that its volumes are labeled with.

Upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    READS_NOTHING,
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
)
from kubesched.framework.status import SKIP, Status, unresolvable
from kubesched.plugins.pod_volumes import (
    CLAIM,
    NO_NAME,
    WAIT_FOR_FIRST_CONSUMER,
    after_named_claim_event,
    binding_mode_unset_text,
    class_of_claim,
    named_claims,
    not_found_text,
    volume_changes,
)
from kubesched.plugins.queueing_hints import on, queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.object_store import ObjectStores
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable

REASON_CONFLICT: Final = "node(s) had no available volume zone"

_STATE_KEY: Final = "PreFilterVolumeZone"
_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_TOPOLOGY_LABELS: Final = (_BETA_ZONE, _BETA_REGION, _ZONE, _REGION)
_TODAYS_LABEL: Final = {_BETA_ZONE: _ZONE, _BETA_REGION: _REGION}
_DELIMITER: Final = "__"
_READS: Final = Reads(
    nodes=True, objects=("persistent_volume_claims", "persistent_volumes", "storage_classes")
)


@dataclass(frozen=True, slots=True)
class VolumeTopology:
    """The values of one topology label that a volume requires."""

    volume_name: str
    key: str
    values: frozenset[str]


class VolumeZone:
    """Rejects nodes outside the zones and regions of the pod's volumes."""

    name = "VolumeZone"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def reads(self, pod: PodInfo) -> Reads | None:
        """Return that verdicts depend on nodes and volumes; None if a claim is invalid."""
        if not named_claims(pod.shape):
            return READS_NOTHING
        topologies = _topologies_of_pod(pod, self._handle.snapshot.objects)
        return None if isinstance(topologies, Status) else _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return the topology labels that the pod's volumes require of a node."""
        view = self._handle.snapshot
        topologies = _topologies_of_pod(pod, view.objects)
        if isinstance(topologies, Status):
            return (view.identity, topologies)
        return (view.identity, *((topology.key, topology.values) for topology in topologies))

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Find the topology labels that the pod's volumes require of a node."""
        topologies = _topologies_of_pod(pod, nodes.view.objects)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return SKIP
        state.write(_STATE_KEY, topologies)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Reject nodes with topology labels whose zone or region is not one of a volume's."""
        topologies = state.get(_STATE_KEY)
        if topologies is None:
            # Parity: volume_zone.go Filter, v1.36, works them out itself if PreFilter did not run.
            topologies = _topologies_of_pod(pod, nodes.view.objects)
            if isinstance(topologies, Status):
                return [Rejected(np.ones(len(nodes), dtype=np.bool_), topologies)]
        constrained = np.zeros(len(nodes), dtype=np.bool_)
        for key in _TOPOLOGY_LABELS:
            constrained |= nodes.has_label(key)
        met = np.ones(len(nodes), dtype=np.bool_)
        for topology in topologies:
            met &= _meets(nodes, topology)
        return [Rejected(constrained & ~met, unresolvable(REASON_CONFLICT))]

    def events_to_register(self) -> list[EventRegistration]:
        changed, claims = ActionType.ADD | ActionType.UPDATE, EventResource.PERSISTENT_VOLUME_CLAIM
        return [
            on(EventResource.STORAGE_CLASS, ActionType.ADD, _after_class_added, reads="nothing"),
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(claims, changed, after_named_claim_event, reads="shape"),
            on(EventResource.PERSISTENT_VOLUME, changed, _after_volume_changed, reads="nothing"),
        ]


def topologies_of(volume: PersistentVolume) -> list[VolumeTopology]:
    """Return the topology labels that a volume requires; one that does not parse is ignored."""
    topologies = []
    for key in _TOPOLOGY_LABELS:
        value = volume.metadata.labels.get(key)
        values = [] if value is None else [part.strip() for part in value.split(_DELIMITER)]
        if values and "" not in values:
            topologies.append(VolumeTopology(volume.metadata.name, key, frozenset(values)))
    return topologies


def _meets(nodes: NodeTable, topology: VolumeTopology) -> BoolColumn:
    own = _has_one_of(nodes, topology.key, topology.values)
    todays = _TODAYS_LABEL.get(topology.key)
    if todays is None:
        return own
    # The beta label of a volume may match the GA label of a node that lacks the beta one.
    return np.where(nodes.has_label(topology.key), own, _has_one_of(nodes, todays, topology.values))


def _has_one_of(nodes: NodeTable, key: str, values: frozenset[str]) -> BoolColumn:
    ids, label_values = nodes.label(key), nodes.label_values(key)
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for value in sorted(values):
        place = label_values.id_of(value)
        if place >= 0:
            mask |= ids == place
    return mask


def _topologies_of_pod(pod: PodInfo, objects: ObjectStores) -> list[VolumeTopology] | Status:
    found: list[VolumeTopology] = []
    for claim_name in named_claims(pod.shape):
        if not claim_name:
            return unresolvable(NO_NAME)
        claim = objects.store_of(PersistentVolumeClaim).get(f"{pod.namespace}/{claim_name}")
        if claim is None:
            return unresolvable(not_found_text(CLAIM, claim_name))
        volume_name = claim.spec.volume_name
        if not volume_name:
            rejection = _rejection_of_unbound(claim, objects)
            if rejection is not None:
                return rejection
            continue
        volume = objects.store_of(PersistentVolume).get(volume_name)
        if volume is None:
            return unresolvable(not_found_text("persistentvolume", volume_name))
        found += topologies_of(volume)
    return found


def _rejection_of_unbound(claim: PersistentVolumeClaim, objects: ObjectStores) -> Status | None:
    class_name = class_of_claim(claim)
    if not class_name:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = objects.store_of(StorageClass).get(class_name)
    if storage_class is None:
        return unresolvable(not_found_text("storageclass.storage.k8s.io", class_name))
    if storage_class.volume_binding_mode is None:
        return unresolvable(binding_mode_unset_text(storage_class))
    if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    return unresolvable("PersistentVolume had no name")


def _after_class_added(_pod: PodInfo, _old: None, new: StorageClass) -> QueueingHint:
    return queue_if(new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def _after_volume_changed(
    _pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume
) -> QueueingHint:
    return queue_if(old is None or topologies_of(old) != topologies_of(new))


PLUGIN = InTreePlugin(
    plugin=VolumeZone,
    watches=(PersistentVolume, PersistentVolumeClaim, StorageClass),
    pod_changes=volume_changes,
    has_shared_changes=True,
)
