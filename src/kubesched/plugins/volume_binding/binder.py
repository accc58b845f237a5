"""Finds and assumes the volumes of a pod's claims.

Owns the sorting of claims into bound and unbound ones, the verdict on nodes by groups of equal
masks, and what is assumed when a node was chosen. Never talks to the API server.
Upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn
from kubesched.columns.object_store import ObjectStores
from kubesched.columns.view import NodeTable
from kubesched.framework.handle import Logger
from kubesched.kit.log import NullLog, Ref
from kubesched.model.pod_info import PodInfo
from kubesched.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeNodeAffinity,
)
from kubesched.plugins.csi_translation import (
    MIGRATED_PLUGIN_NAMES,
    InTreePlugin,
    plugin_of_volume,
)
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

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


class BindingError(Exception):
    """Something about a pod's claims is wrong in itself, on whatever node."""


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """What a bound claim's volume means for some nodes."""

    reachable: BoolColumn | None = None
    """Where it can be used; None: everywhere."""
    failed: BoolColumn | None = None
    """Where it cannot be told; None: nowhere."""
    error: str = ""
    is_missing: bool = False
    """The volume is not there."""


@dataclass(slots=True)
class Findings:
    """The verdict on the claims, one entry per node."""

    node_conflict: BoolColumn
    bind_conflict: BoolColumn
    not_enough_space: BoolColumn
    volume_missing: BoolColumn
    errors: dict[str, BoolColumn]
    group: NDArray[np.int64]
    """Which of `volumes` is the node's; meaningless where the node was refused."""
    volumes: list[PodVolumes]

    @classmethod
    def over(cls, count: int) -> Findings:
        """Return a verdict that refuses none of `count` nodes."""

        def none() -> BoolColumn:
            return np.zeros(count, dtype=np.bool_)

        group = np.zeros(count, dtype=np.int64)
        return cls(none(), none(), none(), none(), {}, group, [PodVolumes()])

    def take(self, positions: NDArray[np.int64]) -> Findings:
        """Return the verdict on some of the nodes."""
        return Findings(
            self.node_conflict[positions],
            self.bind_conflict[positions],
            self.not_enough_space[positions],
            self.volume_missing[positions],
            {text: where[positions] for text, where in self.errors.items()},
            self.group[positions],
            self.volumes,
        )

    def fail(self, where: BoolColumn, text: str) -> None:
        """Note an error on some nodes."""
        if where.any():
            self.errors[text] = self.errors.get(text, False) | where

    def refused(self) -> BoolColumn:
        """Return where not all claims have, or can get, a volume."""
        conflicts = self.node_conflict | self.bind_conflict
        return conflicts | self.not_enough_space | self.volume_missing | self.failed()

    def failed(self) -> BoolColumn:
        """Return where an error ended the search."""
        ended = np.zeros_like(self.node_conflict)
        for where in self.errors.values():
            ended |= where
        return ended


class VolumeBinder:
    """Finds volumes for claims over the cluster's objects and what was assumed of them."""

    def __init__(self, log: Logger | None = None) -> None:
        self._log: Logger = log or NullLog()
        self._volumes: AssumeCache[PersistentVolume] = AssumeCache("persistentvolumes", log)
        self._index = VolumeIndex()
        self._affinities = AffinityRows(self._index)
        self._claims: AssumeCache[PersistentVolumeClaim] = AssumeCache(
            "persistentvolumeclaims", log
        )

    def take_over(self, former: VolumeBinder) -> None:
        """Go on with what another has assumed; either may take it back."""
        self._volumes, self._claims = former._volumes, former._claims

    # -- claims ---------------------------------------------------------------------------------

    def claims_of(self, pod: PodInfo, objects: ObjectStores) -> PodVolumeClaims:
        """Return the pod's claims by what must happen to them; BindingError if one is wrong."""
        # Parity: binder.go GetPodVolumeClaims, v1.36.
        sorted_claims: tuple[list[PersistentVolumeClaim], ...] = ([], [], [])
        bound, delayed, immediate = sorted_claims
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
        store, found = objects.persistent_volumes, {}
        for name in dict.fromkeys(names):
            assumed = {
                volume.metadata.name: volume
                for volume in self._volumes.all_of(store)
                if class_of_volume(volume) == name
            }
            found[name] = ClassVolumes(self._index.pool(store, name), assumed)
        return found

    def _claims_used(self, pod: PodInfo, objects: ObjectStores) -> list[PersistentVolumeClaim]:
        claims = []
        for use in claim_uses(pod):
            key = f"{pod.namespace}/{use.claim_name}"
            claim = self._claims.get(objects.persistent_volume_claims, key)
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
        """Return the pod's claims if all of them are there and have their volumes for good."""
        try:
            claims = self._claims_used(pod, objects)
        except BindingError:
            return None
        return claims if all(map(is_fully_bound, claims)) else None

    # -- nodes ----------------------------------------------------------------------------------

    def check_bound(
        self, claims: Sequence[PersistentVolumeClaim], nodes: NodeTable
    ) -> list[BoundCheck]:
        """Return what each claim's volume means for the nodes; the first in the way tells why."""
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
        """Return the volume of a bound claim, as it is assumed to be."""
        return self._volumes.get(objects.persistent_volumes, claim.spec.volume_name)

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
                findings.volume_missing |= undecided
            if check.failed is not None:
                findings.fail(check.failed & undecided, check.error)
                undecided &= ~check.failed
            if check.reachable is not None:
                findings.node_conflict |= undecided & ~check.reachable
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
        findings.bind_conflict |= elsewhere & ~failed
        asked = ~elsewhere & ~failed
        if not asked.any():
            return
        try:
            part = nodes if asked.all() else nodes.take(asked)
            search = DelayedSearch(claims, part, self._index, self._affinities)
        except ValueError as problem:
            findings.fail(asked, str(problem))
            return
        outcomes, group = search.run()
        _spread(findings, np.flatnonzero(asked), outcomes, group)

    # -- assuming -------------------------------------------------------------------------------

    def assume(
        self, pod: PodInfo, node_name: str, volumes: PodVolumes, objects: ObjectStores
    ) -> tuple[PodVolumes, bool]:
        """Take the volumes for the pod's; return them as assumed, and whether all were bound.

        AssumeError tells what is in the way; nothing is assumed then.
        """
        # Parity: binder.go AssumePodVolumes, v1.36.
        fields = {"pod": Ref(pod.namespace, pod.name), "node": Ref("", node_name)}
        self._log.info("AssumePodVolumes", level=4, **fields)
        if self._all_bound(pod, objects):
            text = "AssumePodVolumes: all PVCs bound and nothing to do"
            self._log.info(text, level=4, **fields)
            return volumes, True
        bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
        provisions: list[PersistentVolumeClaim] = []
        try:
            for claim, volume in volumes.static_bindings:
                bound, changed = bound_volume(volume, claim)
                if changed:
                    self._volumes.assume(objects.persistent_volumes, bound)
                bindings.append((claim, bound))
            for claim in volumes.dynamic_provisions:
                marked = {**claim.metadata.annotations, SELECTED_NODE: node_name}
                metadata = msgspec.structs.replace(claim.metadata, annotations=marked)
                wanted = msgspec.structs.replace(claim, metadata=metadata)
                self._claims.assume(objects.persistent_volume_claims, wanted)
                provisions.append(wanted)
        except AssumeError:
            self.revert(PodVolumes(tuple(bindings), tuple(provisions)))
            raise
        return PodVolumes(tuple(bindings), tuple(provisions)), False

    def revert(self, volumes: PodVolumes) -> None:
        """Give back what was assumed."""
        for _, volume in volumes.static_bindings:
            self._volumes.restore(volume)
        for claim in volumes.dynamic_provisions:
            self._claims.restore(claim)

    def stored_volume(self, name: str, objects: ObjectStores) -> PersistentVolume:
        """Return a volume as the API server last showed it; AssumeError if it is not there."""
        return self._volumes.stored(objects.persistent_volumes, name)

    def stored_claim(self, key: str, objects: ObjectStores) -> PersistentVolumeClaim:
        """Return a claim as the API server last showed it; AssumeError if it is not there."""
        return self._claims.stored(objects.persistent_volume_claims, key)

    def _all_bound(self, pod: PodInfo, objects: ObjectStores) -> bool:
        return self.bound_claims_of(pod, objects) is not None


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Tell whether the claim has its volume for good."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def _is_delayed(claim: PersistentVolumeClaim, objects: ObjectStores) -> bool:
    # Parity: storage/volume/pv_helpers.go IsDelayBindingMode, v1.36.
    class_name = class_of_claim(claim)
    storage_class = objects.storage_classes.get(class_name) if class_name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise BindingError(binding_mode_unset_text(storage_class))
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def migrated_plugin_of(volume: PersistentVolume) -> InTreePlugin | None:
    """Return what moves an in-tree volume to a driver, on nodes that say so."""
    plugin = plugin_of_volume(volume)
    return None if plugin is None or plugin.name not in MIGRATED_PLUGIN_NAMES else plugin


def check_volume(volume: PersistentVolume, nodes: NodeTable) -> BoundCheck:
    """Return which nodes a volume can be used from."""
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
    csi_nodes = nodes.view.objects.csi_nodes
    found = (csi_nodes.get(name) for name in nodes.names)
    return np.array(
        [
            csi_node is not None
            and plugin_name in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")
            for csi_node in found
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

    findings.bind_conflict[nodes_of([one.bind_conflict for one in outcomes])] = True
    findings.not_enough_space[nodes_of([one.not_enough_space for one in outcomes])] = True
    for text in dict.fromkeys(one.error for one in outcomes if one.error):
        where = np.zeros_like(findings.bind_conflict)
        where[nodes_of([one.error == text for one in outcomes])] = True
        findings.fail(where, text)
    findings.volumes = [one.volumes for one in outcomes]
    findings.group[positions] = group
