"""The volumes that nodes hold, as pairs of node and volume.

Owns what was resolved of bound pods and attachments, and counts it per node. Never knows a limit.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go Filter
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.object_store import ObjectStores
from kubesched.columns.view import ClusterView, LiveUsage, NodeTable
from kubesched.model.pod_info import PodShape
from kubesched.plugins.node_volume_limits.resolve import (
    Volumes,
    attachments_by_node,
    resolve_or_text,
)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Distinct volumes on nodes, as pairs of a node's position and a volume's id."""

    node_count: int
    positions: IntColumn
    volumes: IntColumn


@dataclass(frozen=True, slots=True)
class _Held:
    """What is attached to some nodes: by their pods, and beyond that by attachments."""

    by_pods: _Pairs
    by_attachments: _Pairs
    failed: Mapping[str, BoolColumn]
    """Where a pod's volumes cannot be resolved, by why not."""


class AttachedVolumes:
    """The volumes of pods and attachments, resolved once as long as their objects stand."""

    def __init__(self) -> None:
        self._epochs: tuple[object, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._ids: dict[str, int] = {}
        self._drivers: list[str] = []
        self._known_shapes = 0
        # Volume ids of all shapes in a row, and where those of each shape start.
        self._flat: IntColumn = np.zeros(0, dtype=np.int64)
        self._starts: IntColumn = np.zeros(1, dtype=np.int64)
        self._texts: dict[int, str] = {}
        self._singly: set[int] = set()
        self._attachments: dict[str, list[int]] = {}

    def follow(self, view: ClusterView) -> None:
        """Drop what other objects than today's told, and resolve shapes that are new."""
        objects = view.objects
        epochs = (
            view.pods,
            objects.persistent_volume_claims.epoch,
            objects.persistent_volumes.epoch,
            objects.storage_classes.epoch,
            objects.volume_attachments.epoch,
        )
        if epochs != self._epochs:
            self._forget()
            self._epochs = epochs
            for node_name, volumes in attachments_by_node(objects).items():
                self._attachments[node_name] = self._ids_of(volumes)
        shapes = view.pods.shapes
        if self._known_shapes == len(shapes):
            return
        found = [
            self._resolve_shape(place, shapes[place], objects)
            for place in range(self._known_shapes, len(shapes))
        ]
        ends = self._starts[-1] + np.cumsum([len(ids) for ids in found], dtype=np.int64)
        self._starts = np.append(self._starts, ends)
        flat = np.array([one for ids in found for one in ids], dtype=np.int64)
        self._flat = np.append(self._flat, flat)
        self._known_shapes = len(shapes)

    def _resolve_shape(self, place: int, shape: PodShape, objects: ObjectStores) -> list[int]:
        if any(volume.ephemeral is not None for volume in shape.volumes):
            # Such claims are named after the pod.
            self._singly.add(place)
            return []
        volumes = resolve_or_text(_AnyPodOf(shape), objects)
        if isinstance(volumes, str):
            self._texts[place] = volumes
            return []
        return self._ids_of(volumes)

    def _ids_of(self, volumes: Volumes) -> list[int]:
        for name, driver in volumes.items():
            if name not in self._ids:
                self._ids[name] = len(self._drivers)
                self._drivers.append(driver)
        return [self._ids[name] for name in volumes]

    def held_on(self, nodes: NodeTable) -> _Held:
        """Return the distinct volumes on each node; `follow` comes first."""
        indices, positions = _pods_on(nodes)
        shapes = nodes.view.pods.shape[indices].astype(np.int64)
        failed: dict[str, BoolColumn] = {}

        def fail(text: str, where: IntColumn) -> None:
            mask = failed.setdefault(text, np.zeros(len(nodes), dtype=np.bool_))
            mask[where] = True

        for place, text in self._texts.items():
            if (where := positions[shapes == place]).size:
                fail(text, where)
        lengths = self._starts[shapes + 1] - self._starts[shapes]
        owner = np.repeat(np.arange(len(shapes)), lengths)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        volumes = [self._flat[self._starts[shapes[owner]] + within]]
        places = [positions[owner]]
        alone = np.isin(shapes, list(self._singly)) if self._singly else shapes < 0
        for one in np.flatnonzero(alone).tolist():
            pod = nodes.view.bound_pod(int(indices[one]))
            resolved = resolve_or_text(pod, nodes.view.objects)
            if isinstance(resolved, str):
                fail(resolved, positions[one : one + 1])
                continue
            ids = np.array(self._ids_of(resolved), dtype=np.int64)
            volumes.append(ids)
            places.append(np.full(len(ids), positions[one]))
        by_pods = self._distinct(len(nodes), np.concatenate(places), np.concatenate(volumes))
        return _Held(by_pods, self._attachments_on(nodes, by_pods), failed)

    def _attachments_on(self, nodes: NodeTable, by_pods: _Pairs) -> _Pairs:
        found = [
            (position, volume)
            for position, name in enumerate(nodes.names if self._attachments else ())
            for volume in self._attachments.get(name, ())
        ]
        positions, volumes = np.array(found, dtype=np.int64).reshape(-1, 2).T
        if not found:
            return _Pairs(len(nodes), positions, volumes)
        size = len(self._drivers)
        known = by_pods.positions * size + by_pods.volumes
        fresh = ~np.isin(positions * size + volumes, known)
        return self._distinct(len(nodes), positions[fresh], volumes[fresh])

    def _distinct(self, node_count: int, positions: IntColumn, volumes: IntColumn) -> _Pairs:
        size = max(len(self._drivers), 1)
        pairs = np.sort(positions * size + volumes)
        # np.unique hashes integers, which takes ten times as long here.
        pairs = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
        return _Pairs(node_count, pairs // size, pairs % size)

    def count_of(self, pairs: _Pairs, names: Iterable[str]) -> IntColumn:
        """Return how many of some volumes each node has."""
        ids = [self._ids[name] for name in names if name in self._ids]
        return _counts(pairs, np.isin(pairs.volumes, ids))

    def count_of_driver(self, held: _Held, driver: str) -> IntColumn:
        """Return how many volumes of a driver each node has."""
        is_its = np.array([of_driver == driver for of_driver in self._drivers], dtype=np.bool_)
        return sum(
            (
                _counts(pairs, is_its[pairs.volumes])
                for pairs in (held.by_pods, held.by_attachments)
            ),
            start=np.zeros(held.by_pods.node_count, dtype=np.int64),
        )


@dataclass(frozen=True, slots=True)
class _AnyPodOf:
    """A pod of a shape; its own names do not matter where no volume is ephemeral."""

    shape: PodShape
    name: str = ""
    uid: str = ""

    @property
    def namespace(self) -> str:
        return self.shape.namespace


def _counts(pairs: _Pairs, chosen: BoolColumn) -> IntColumn:
    counts = np.bincount(pairs.positions[chosen], minlength=pairs.node_count)
    return counts.astype(np.int64)


def _pods_on(nodes: NodeTable) -> tuple[IntColumn, IntColumn]:
    """Return the index of every pod on some nodes, and the position of its node."""
    if isinstance(nodes.usage, LiveUsage):
        pods, count = nodes.view.pods, nodes.view.pods.count
        position_of = np.full(nodes.view.row_count, -1, dtype=np.int64)
        position_of[nodes.rows] = np.arange(len(nodes))
        indices = np.flatnonzero(pods.counted[:count])
        positions = position_of[pods.row[indices]]
        return indices[positions >= 0], positions[positions >= 0]
    on_each = [nodes.usage.pods_on(position) for position in range(len(nodes))]
    indices = np.array([index for on_one in on_each for index in on_one], dtype=np.int64)
    return indices, np.repeat(np.arange(len(nodes)), [len(on_one) for on_one in on_each])
