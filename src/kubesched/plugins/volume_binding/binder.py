"""Finds volumes for a pod's claims on each node, and assumes those of the chosen node.

`volume_writes` sends them to the API server.
Upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeNodeAffinity,
)
from kubesched.framework.handle import Logger
from kubesched.kit.log import NullLog, Ref
from kubesched.plugins.csi_translation import MIGRATED_PLUGIN_NAMES, InTreePlugin, plugin_of
from kubesched.plugins.pod_volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    binding_mode_unset_text,
    claim_uses,
    class_of_claim,
    class_of_volume,
    not_owner_text,
)
from kubesched.plugins.volume_binding.assume_cache import AssumeCache, AssumeError
from kubesched.plugins.volume_binding.delayed_search import (
    REASON_BIND_CONFLICT,
    REASON_NODE_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_VOLUME_NOT_EXIST,
    REASONS,
    SELECTED_NODE,
    DelayedSearch,
    Outcome,
    PodVolumeClaims,
    PodVolumes,
    is_selected,
)
from kubesched.plugins.volume_binding.hints import MIGRATED_PLUGINS
from kubesched.plugins.volume_binding.masks import AffinityRows, node_affinity_mask
from kubesched.plugins.volume_binding.matching import ClassVolumes, bound_volume
from kubesched.plugins.volume_binding.volume_index import VolumeIndex
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.object_store import ObjectStores
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


class BindingError(Exception):
    """The claims of a pod are invalid on every node."""


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """The check of a bound claim's volume on some nodes."""

    reachable: BoolColumn | None = None
    """The nodes that can use it; None for all."""
    failed: BoolColumn | None = None
    """The nodes where the check failed with an error; None if there are none."""
    error: str = ""
    is_missing: bool = False
    """The volume does not exist."""


@dataclass(slots=True)
class Findings:
    """The verdict on the claims, one entry per node."""

    conflicts: dict[str, BoolColumn]
    """The nodes with a conflict, by its reason, in upstream's order."""
    errors: dict[str, BoolColumn]
    group: NDArray[np.int64]
    """The index in `volumes` for each node; meaningless where the node was rejected."""
    volumes: list[PodVolumes]

    @classmethod
    def over(cls, count: int) -> Findings:
        """Return a verdict that rejects none of `count` nodes."""
        conflicts = {reason: np.zeros(count, dtype=np.bool_) for reason in REASONS}
        return cls(conflicts, {}, np.zeros(count, dtype=np.int64), [PodVolumes()])

    def take(self, positions: NDArray[np.int64]) -> Findings:
        """Return the verdict on some of the nodes."""
        conflicts, errors = (
            {text: mask[positions] for text, mask in masks.items()}
            for masks in (self.conflicts, self.errors)
        )
        return Findings(conflicts, errors, self.group[positions], self.volumes)

    def fail(self, where: BoolColumn, text: str) -> None:
        """Record an error on some nodes."""
        if where.any():
            self.errors[text] = self.errors.get(text, False) | where

    def rejected(self) -> BoolColumn:
        """Return the nodes where some claim neither has nor can get a volume."""
        return np.logical_or.reduce([*self.conflicts.values(), *self.errors.values()])

    def failed(self) -> BoolColumn:
        """Return the nodes where an error ended the search."""
        nowhere = np.zeros(len(self.group), dtype=np.bool_)
        return np.logical_or.reduce([nowhere, *self.errors.values()])


class VolumeBinder:
    """Finds volumes for claims among the cluster's objects and their assumed states."""

    def __init__(self, log: Logger | None = None) -> None:
        self._log: Logger = log or NullLog()
        self.volumes = AssumeCache(PersistentVolume, "persistentvolumes", log)
        self.claims = AssumeCache(PersistentVolumeClaim, "persistentvolumeclaims", log)
        self._index = VolumeIndex()
        self._affinities = AffinityRows(self._index)

    def take_over(self, former: VolumeBinder) -> None:
        """Share the assumed objects of another binder."""
        self.volumes, self.claims = former.volumes, former.claims

    # -- claims ---------------------------------------------------------------------------------

    def claims_of(self, pod: PodInfo, objects: ObjectStores) -> PodVolumeClaims:
        """Return the pod's claims by state; BindingError if one is invalid."""
        # Parity: binder.go GetPodVolumeClaims, v1.36.
        bound, delayed, immediate = (list[PersistentVolumeClaim]() for _ in range(3))
        for claim in self._claims_used(pod, objects):
            if is_fully_bound(claim):
                bound.append(claim)
            elif _is_delayed(claim, objects) and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                immediate.append(claim)
        volumes = self._volumes_of_classes(map(class_of_claim, delayed), objects)
        return PodVolumeClaims(tuple(bound), tuple(delayed), tuple(immediate), volumes)

    def _volumes_of_classes(
        self, names: Iterable[str], objects: ObjectStores
    ) -> dict[str, ClassVolumes]:
        store, volumes = objects.store_of(PersistentVolume), {}
        for name in dict.fromkeys(names):
            assumed = {
                volume.metadata.name: volume
                for volume in self.volumes.all_of(objects)
                if class_of_volume(volume) == name
            }
            volumes[name] = ClassVolumes(self._index.pool(store, name), assumed)
        return volumes

    def _claims_used(self, pod: PodInfo, objects: ObjectStores) -> list[PersistentVolumeClaim]:
        claims = []
        for use in claim_uses(pod):
            key = f"{pod.namespace}/{use.claim_name}"
            claim = self.claims.get(objects, key)
            if claim is None:
                missing = f'persistentvolumeclaims "{key}" not found'
                raise BindingError(f'error getting PVC "{key}": {missing}')
            problem = not_owner_text(pod, claim) if use.is_ephemeral else None
            if problem is not None:
                raise BindingError(problem)
            claims.append(claim)
        return claims

    def bound_claims_of(
        self, pod: PodInfo, objects: ObjectStores
    ) -> list[PersistentVolumeClaim] | None:
        """Return the pod's claims if all of them exist and are fully bound."""
        try:
            claims = self._claims_used(pod, objects)
        except BindingError:
            return None
        return claims if all(map(is_fully_bound, claims)) else None

    # -- nodes ----------------------------------------------------------------------------------

    def check_bound(
        self, claims: Sequence[PersistentVolumeClaim], nodes: NodeTable
    ) -> list[BoundCheck]:
        """Check each claim's volume on the nodes; the first that fails gives the reason."""
        # Parity: binder.go checkBoundClaims, v1.36.
        checks = []
        for claim in claims:
            volume = self.volume_of(claim, nodes.view.objects)
            if volume is None:
                checks.append(BoundCheck(is_missing=True))
                break
            checks.append(check_volume(volume, nodes))
        return checks

    def volume_of(
        self, claim: PersistentVolumeClaim, objects: ObjectStores
    ) -> PersistentVolume | None:
        """Return the volume of a bound claim in its assumed state."""
        return self.volumes.get(objects, claim.spec.volume_name)

    def find(self, claims: PodVolumeClaims, nodes: NodeTable) -> Findings:
        """Return on which nodes all claims have, or can get, a volume the node can reach."""
        # Parity: binder.go FindPodVolumes, v1.36.
        findings = Findings.over(len(nodes))
        self._find_bound(claims.bound, nodes, findings)
        if claims.unbound_delayed:
            self._check_unbound(claims, nodes, findings)
        return findings

    def _find_bound(
        self, claims: Sequence[PersistentVolumeClaim], nodes: NodeTable, findings: Findings
    ) -> None:
        undecided = np.ones(len(nodes), dtype=np.bool_)
        for check in self.check_bound(claims, nodes):
            if check.is_missing:
                findings.conflicts[REASON_VOLUME_NOT_EXIST] |= undecided
            if check.failed is not None:
                findings.fail(check.failed & undecided, check.error)
                undecided &= ~check.failed
            if check.reachable is not None:
                findings.conflicts[REASON_NODE_CONFLICT] |= undecided & ~check.reachable
                undecided &= check.reachable

    def _check_unbound(self, claims: PodVolumeClaims, nodes: NodeTable, findings: Findings) -> None:
        selected = {
            claim.metadata.annotations[SELECTED_NODE]
            for claim in filter(is_selected, claims.unbound_delayed)
        }
        elsewhere = np.zeros(len(nodes), dtype=np.bool_)
        if selected:
            elsewhere = np.array([{name} != selected for name in nodes.names], dtype=np.bool_)
        failed = findings.failed()
        findings.conflicts[REASON_BIND_CONFLICT] |= elsewhere & ~failed
        reachable_nodes = ~elsewhere & ~failed
        if not reachable_nodes.any():
            return
        try:
            part = nodes if reachable_nodes.all() else nodes.take(reachable_nodes)
            search = DelayedSearch(claims, part, self._index, self._affinities)
        except ValueError as problem:
            findings.fail(reachable_nodes, str(problem))
            return
        outcomes, group = search.run()
        _spread(findings, np.flatnonzero(reachable_nodes), outcomes, group)

    # -- assuming -------------------------------------------------------------------------------

    def assume(
        self, pod: PodInfo, node_name: str, volumes: PodVolumes, objects: ObjectStores
    ) -> tuple[PodVolumes, bool]:
        """Assume the volumes for the pod; return them, and whether all were bound.

        Raises AssumeError, and assumes nothing, if an object has changed meanwhile.
        """
        # Parity: binder.go AssumePodVolumes, v1.36.
        fields = {"pod": Ref(pod.namespace, pod.name), "node": Ref("", node_name)}
        self._log.info("AssumePodVolumes", level=4, **fields)
        if self.bound_claims_of(pod, objects) is not None:
            text = "AssumePodVolumes: all PVCs bound and nothing to do"
            self._log.info(text, level=4, **fields)
            return volumes, True
        bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
        provisions: list[PersistentVolumeClaim] = []
        try:
            for claim, volume in volumes.static_bindings:
                bound, changed = bound_volume(volume, claim)
                if changed:
                    self.volumes.assume(objects, bound)
                bindings.append((claim, bound))
            for claim in volumes.dynamic_provisions:
                marked = {**claim.metadata.annotations, SELECTED_NODE: node_name}
                metadata = msgspec.structs.replace(claim.metadata, annotations=marked)
                selected = msgspec.structs.replace(claim, metadata=metadata)
                self.claims.assume(objects, selected)
                provisions.append(selected)
        except AssumeError:
            self.revert(PodVolumes(tuple(bindings), tuple(provisions)))
            raise
        return PodVolumes(tuple(bindings), tuple(provisions)), False

    def revert(self, volumes: PodVolumes) -> None:
        """Drop the assumed states."""
        for _, volume in volumes.static_bindings:
            self.volumes.restore(volume)
        for claim in volumes.dynamic_provisions:
            self.claims.restore(claim)


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether the claim is fully bound."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def _is_delayed(claim: PersistentVolumeClaim, objects: ObjectStores) -> bool:
    # Parity: storage/volume/pv_helpers.go IsDelayBindingMode, v1.36.
    class_name = class_of_claim(claim)
    storage_class = objects.store_of(StorageClass).get(class_name) if class_name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise BindingError(binding_mode_unset_text(storage_class))
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def migrated_plugin_of(volume: PersistentVolume) -> InTreePlugin | None:
    """Return the CSI migration of an in-tree volume, on nodes that have migrated."""
    plugin = plugin_of(volume.spec)
    return None if plugin is None or plugin.name not in MIGRATED_PLUGIN_NAMES else plugin


def check_volume(volume: PersistentVolume, nodes: NodeTable) -> BoundCheck:
    """Return which nodes can use a volume."""
    # Parity: binder.go tryTranslatePVToCSI, v1.36.
    in_tree = _affinity_mask(volume.spec.node_affinity, nodes)
    plugin = migrated_plugin_of(volume)
    if plugin is None:
        return BoundCheck(in_tree)
    migrated = _migrated_mask(plugin.name, nodes)
    if not migrated.any():
        return BoundCheck(in_tree)
    try:
        translated = plugin.translate(volume)
    except ValueError as problem:
        return BoundCheck(in_tree, migrated, f"could not translate pv: {problem}")
    by_driver = _affinity_mask(translated.node_affinity, nodes)
    if by_driver is None and in_tree is None:
        return BoundCheck()
    everywhere = np.ones(len(nodes), dtype=np.bool_)
    return BoundCheck(
        np.where(
            migrated,
            everywhere if by_driver is None else by_driver,
            everywhere if in_tree is None else in_tree,
        )
    )


def _affinity_mask(affinity: VolumeNodeAffinity | None, nodes: NodeTable) -> BoolColumn | None:
    if affinity is None or affinity.required is None:
        return None
    return node_affinity_mask(nodes, affinity.required)


def _migrated_mask(plugin_name: str, nodes: NodeTable) -> BoolColumn:
    csi_nodes = nodes.view.objects.store_of(CSINode)
    of_nodes = (csi_nodes.get(name) for name in nodes.names)
    return np.array(
        [
            csi_node is not None
            and plugin_name in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")
            for csi_node in of_nodes
        ],
        dtype=np.bool_,
    )


def _spread(
    findings: Findings,
    positions: NDArray[np.intp],
    outcomes: Sequence[Outcome],
    group: NDArray[np.int64],
) -> None:
    """Write the outcome of each group to its nodes."""

    def nodes_of(flags: Sequence[bool]) -> NDArray[np.intp]:
        return positions[np.array(flags, dtype=np.bool_)[group]]

    for reason in (REASON_BIND_CONFLICT, REASON_NOT_ENOUGH_SPACE):
        findings.conflicts[reason][nodes_of([o.conflict == reason for o in outcomes])] = True
    for text in dict.fromkeys(outcome.error for outcome in outcomes if outcome.error):
        where = np.zeros(len(findings.group), dtype=np.bool_)
        where[nodes_of([outcome.error == text for outcome in outcomes])] = True
        findings.fail(where, text)
    findings.volumes = [outcome.volumes for outcome in outcomes]
    findings.group[positions] = group
