"""Writes the tables of a cluster: every change of a node row or a pod entry happens here.

Only `cache.cache` calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from kubesched.api.node import Node
from kubesched.cache.compaction import compact_if_due
from kubesched.snapshot.change_log import Change
from kubesched.snapshot.node_columns import SMALL_BITS, ImageEntry, NodeCounters
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_columns import (
    ENTRIES_MAX,
    BoundPod,
    Entry,
    LabelClass,
    ShapeItem,
)
from kubesched.snapshot.pod_info import PodInfo, PodShape
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.view import Rows

NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})
_NO_NODE = NodeInfo(Node())


class ClusterWriter:
    """Writes the tables of one cluster, row by row."""

    def __init__(self, cluster: ClusterTables) -> None:
        self._cluster = cluster
        self._nodes = cluster.nodes
        self._pods = cluster.pods

    # -- nodes --------------------------------------------------------------------------------

    def set_node(self, info: NodeInfo) -> None:
        compact_if_due(self._cluster)
        nodes = self._nodes
        row = self._row_for(info.name)
        old = nodes.infos[row]
        nodes.infos[row] = info
        if old is not None and old.is_same_to_rules(info):
            return  # A heartbeat, for example: cached results stay valid.
        self._place_in_zone(old, info)
        self._set_images(row, old, info)
        nodes.valid[row] = True
        self._set_facts(row, info)

    def remove_node(self, name: str) -> None:
        """Remove a node; its row stays as long as pods count on it."""
        nodes = self._nodes
        row = nodes.row_of.get(name, -1)
        info = nodes.infos[row] if row >= 0 else None
        if info is None:
            return
        self._leave_zone(info)
        self._drop_images(row, info)
        nodes.valid[row] = False
        self._clear_facts(row)
        self._free_if_empty(row)

    def add_placeholders(self, infos: Iterable[NodeInfo]) -> Rows:
        """Return rows for nodes that are not part of the cluster, without pods and images.

        A placeholder keeps its row until it is dropped: the same node reuses it unchanged.
        """
        placeholders, seen = self._cluster.placeholders, dict[str, int]()
        rows: list[int] = []
        for info in infos:
            count = seen.get(info.name, 0)
            seen[info.name] = count + 1
            key = (info.name, count)
            row = placeholders.get(key, -1)
            if row < 0:
                row = placeholders[key] = self._new_row(info.name)
            old, self._nodes.infos[row] = self._nodes.infos[row], info
            if old is None or (old is not info and not old.is_same_to_rules(info)):
                self._set_facts(row, info)
            rows.append(row)
        return np.array(rows, dtype=np.int64)

    def drop_placeholders(self) -> None:
        for row in self._cluster.placeholders.values():
            self._clear_facts(row)
            self._free(row)
        self._cluster.placeholders.clear()

    def _set_facts(self, row: int, info: NodeInfo) -> None:
        nodes = self._nodes
        amounts = {nodes.resource_id(name): amount for name, amount in info.allocatable.items()}
        nodes.allocatable[:, row] = 0
        for place, amount in amounts.items():
            nodes.allocatable[place, row] = amount
            if amount >> SMALL_BITS:
                nodes.has_small_numbers = False
        nodes.counters[row].set_allocatable(info.allocatable)
        for key, column in nodes.labels.items():
            value = info.labels.get(key)
            column.ids[row] = -1 if value is None else column.values.intern(value)
        nodes.allowed_pods[row] = nodes.counters[row].allowed_pods = info.allowed_pods
        nodes.unschedulable[row] = info.unschedulable
        nodes.taint_set[row] = nodes.taint_sets.intern(info.taints)
        nodes.feature_set[row] = nodes.feature_sets.intern(info.declared_features)
        self._cluster.node_epoch += 1
        self._log(Change(row))

    def _clear_facts(self, row: int) -> None:
        self._nodes.infos[row] = None
        self._set_facts(row, _NO_NODE)

    def _log(self, change: Change) -> None:
        log = self._cluster.log
        row = change[0]
        self._nodes.stale_rows.add(row)
        self._nodes.stamp[row] = log.stamp
        log.append(change)

    def _row_for(self, name: str) -> int:
        nodes = self._nodes
        row = nodes.row_of.get(name, -1)
        if row < 0:
            row = nodes.row_of[name] = self._new_row(name)
        return row

    def _new_row(self, name: str) -> int:
        nodes = self._nodes
        if nodes.free_rows:
            row = nodes.free_rows.pop()
        else:
            row = nodes.row_count
            nodes.grow_rows(row + 1)
            nodes.row_count += 1
            nodes.names.append("")
            nodes.counters.append(NodeCounters())
            nodes.infos.append(None)
            nodes.pods_of.append([])
            nodes.ports_of.append(set())
        nodes.names[row] = name
        return row

    def _free_if_empty(self, row: int) -> None:
        # A deleted node keeps its row until its last pod is gone: pods and nodes arrive by
        # different watches, and a row dropped early would lose the requests of terminating pods.
        nodes = self._nodes
        if nodes.infos[row] is None and not nodes.pods_of[row] and not nodes.nominated_count[row]:
            nodes.row_of.pop(nodes.names[row], None)
            self._free(row)

    def _free(self, row: int) -> None:
        nodes = self._nodes
        nodes.names[row] = ""
        nodes.requested[:, row] = 0
        nodes.nonzero_requested[:, row] = 0
        nodes.stale_rows.add(row)
        nodes.counters[row] = NodeCounters()
        nodes.ports_of[row] = set()
        nodes.free_rows.append(row)

    def _place_in_zone(self, old: NodeInfo | None, new: NodeInfo) -> None:
        if old is not None:
            if old.zone_key == new.zone_key:
                return
            self._leave_zone(old)
        self._cluster.zones.setdefault(new.zone_key, {})[new.name] = self._nodes.row_of[new.name]
        self._cluster.node_count += 1
        self._cluster.forget_order()

    def _leave_zone(self, info: NodeInfo) -> None:
        zones = self._cluster.zones
        del zones[info.zone_key][info.name]
        if not zones[info.zone_key]:
            del zones[info.zone_key]
        self._cluster.node_count -= 1
        self._cluster.forget_order()

    def _set_images(self, row: int, old: NodeInfo | None, new: NodeInfo) -> None:
        if old is not None:
            self._drop_images(row, old)
        for name, size_bytes in new.images.items():
            entry = self._nodes.images.setdefault(name, ImageEntry())
            entry.size_bytes_by_row[row] = size_bytes

    def _drop_images(self, row: int, info: NodeInfo) -> None:
        images = self._nodes.images
        for name in info.images:
            del images[name].size_bytes_by_row[row]
            if not images[name].size_bytes_by_row:
                del images[name]

    # -- pods ---------------------------------------------------------------------------------

    def add_pod(self, pod: PodInfo, node_name: str, whole: bytes | None = None) -> int:
        """Count a pod on a node, known or not; return the pod's index."""
        bound = BoundPod(pod, node_name, whole)
        row, shape, label_class = self._enter(pod, bound)
        self._pods.writable.counted[bound.index] = True
        self._count_requests(bound, row, shape, label_class, 1)
        return bound.index

    def refresh_pod(self, pod: PodInfo, whole: bytes | None = None) -> bool:
        """Update a pod in place; return False if it changed in a way that plugins count."""
        pods = self._pods
        index = pods.index_of.get(pod.uid)
        bound = None if index is None else pods.pods[index]
        if index is None or bound is None or not _counts_alike(bound, pod):
            return False
        is_moved = (bound.start_s, bound.disruption_target) != (pod.start_s, pod.disruption_target)
        bound.annotations = pod.annotations or NO_ANNOTATIONS
        bound.owners = pods.owners_of(pod)
        bound.generation, bound.resource_version = pod.generation, pod.resource_version
        bound.start_s, bound.disruption_target = pod.start_s, pod.disruption_target
        bound.whole = whole
        if is_moved:  # The order of victims depends on the start time.
            pods.writable.start_s[index] = np.inf if pod.start_s is None else pod.start_s
            self._log(Change(int(pods.row[index])))
        return True

    def nominate_pod(self, pod: PodInfo, node_name: str) -> int:
        """Nominate a pending pod to a node; it does not count in the row's requests."""
        bound = BoundPod(pod, node_name, None, nominated=True)
        row, _, _ = self._enter(pod, bound)
        self._pods.nominated_of.setdefault(row, []).append(bound.index)
        self._nodes.nominated_count[row] += 1
        self._cluster.nomination_epoch += 1
        return bound.index

    def remove_pod(self, uid: str) -> None:
        """Remove a pod from the table, bound or nominated."""
        pods = self._pods
        index = pods.index_of.pop(uid)
        bound = pods.pods[index]
        assert bound is not None
        row = pods.row.item(index)
        if bound.nominated:
            pods.nominated_of[row].remove(index)
            if not pods.nominated_of[row]:
                del pods.nominated_of[row]
            self._nodes.nominated_count[row] -= 1
            self._cluster.nomination_epoch += 1
        else:
            self._count_requests(
                bound, row, pods.shape.item(index), pods.label_class.item(index), -1
            )
        pods.free_index(index)
        self._free_if_empty(row)

    def _enter(self, pod: PodInfo, bound: BoundPod) -> tuple[int, int, int]:
        """Store a pod at a free index; return its row and the ids of its shape and label class."""
        pods, nodes = self._pods, self._nodes
        compact_if_due(self._cluster)
        row = self._row_for(bound.node_name)
        index = pods.free.pop() if pods.free else pods.new_index()
        uid = bound.uid
        assert uid not in pods.index_of, f"pod {pod.key} is in the table already"
        pods.index_of[uid] = index
        pods.pods[index] = bound
        bound.index = index
        columns, pod_shape = pods.writable, bound.shape.base
        entry = pods.entries.get((pod_shape, pod.label_items))
        if entry is None:
            entry = self._new_entry(pod, pod_shape)
        # Labels, owners and names repeat between pods: equal values are stored once.
        shape, label_class, term_set, bound.labels = entry
        if bound.owners:
            bound.owners = pods.owners_of(pod)
        bound.namespace = pod_shape.namespace
        bound.node_name = nodes.names[row]
        if not bound.annotations:
            bound.annotations = NO_ANNOTATIONS
        columns.row[index] = row
        columns.shape[index] = shape
        columns.label_class[index] = label_class
        # Most pods have the default of a free index, and a test is cheaper than a write.
        if term_set:
            columns.term_set[index] = term_set
        if pod.priority:
            columns.priority[index] = pod.priority
        if pod.start_s is not None:
            columns.start_s[index] = pod.start_s
        if pod.terminating:
            columns.terminating[index] = True
        return row, shape, label_class

    def _new_entry(self, pod: PodInfo, pod_shape: PodShape) -> Entry:
        """Return what the first pod of a shape and labels shares with later ones."""
        pods = self._pods
        shape = pods.shape_id(pod_shape)
        if shape < 0:
            usage, resource_id = pod_shape.usage.items(), self._nodes.resource_id
            items = [(resource_id(name), name, value) for name, value in usage if value]
            shape = pods.add_shape(pod_shape, items)
        label_class = pods.label_classes.intern(LabelClass(pod.namespace, pod.label_items))
        labels = pods.class_labels.setdefault(label_class, pod.labels)
        if len(pods.entries) >= ENTRIES_MAX:
            pods.entries.clear()
        entry = (shape, label_class, pods.shape_terms[shape], labels)
        pods.entries[pod_shape, pod.label_items] = entry
        return entry

    def _count_requests(
        self, bound: BoundPod, row: int, shape: int, label_class: int, sign: int
    ) -> None:
        nodes, pods, index = self._nodes, self._pods, bound.index
        counters = nodes.counters[row]
        cpu, memory, cpu_nonzero, memory_nonzero, others = pods.shape_weights[shape]
        cpu = counters.cpu_requested + sign * cpu
        memory = counters.memory_requested + sign * memory
        cpu_nonzero = counters.cpu_nonzero + sign * cpu_nonzero
        memory_nonzero = counters.memory_nonzero + sign * memory_nonzero
        if (cpu | memory | cpu_nonzero | memory_nonzero) >> SMALL_BITS:
            cpu, memory = self._large(cpu), self._large(memory)
            cpu_nonzero, memory_nonzero = (
                self._large(cpu_nonzero),
                self._large(memory_nonzero),
            )
        cpus, memories, nonzero_cpus, nonzero_memories = nodes.usage_rows
        counters.cpu_requested = cpus[row] = cpu
        counters.memory_requested = memories[row] = memory
        counters.cpu_nonzero = nonzero_cpus[row] = cpu_nonzero
        counters.memory_nonzero = nonzero_memories[row] = memory_nonzero
        if others:
            self._count_other_requests(counters, row, others, sign)
        counters.pod_count += sign
        nodes.pod_count[row] = counters.pod_count
        live = 0 if bound.terminating else sign
        change = (row, label_class, pods.shape_terms[shape], sign, live)
        # Half the time of the named constructor.
        self._log(tuple.__new__(Change, change))
        ports = pods.shapes[shape].host_ports
        if sign > 0:
            nodes.pods_of[row].append(index)
            if ports:
                nodes.take_ports(row, ports)
        else:
            nodes.pods_of[row].remove(index)
            if ports:
                nodes.free_ports(row, ports)

    def _count_other_requests(
        self, counters: NodeCounters, row: int, items: Iterable[ShapeItem], sign: int
    ) -> None:
        taken, requested = counters.others_requested, self._nodes.requested
        for place, name, value in items:
            amount = taken[name] + sign * value
            if amount >> SMALL_BITS:
                amount = self._large(amount)
            taken[name] = requested[place, row] = amount

    def _large(self, amount: int) -> int:
        """Return an amount wrapped to int64, and record that floats are no longer exact."""
        self._nodes.has_small_numbers = False
        return (amount + 2**63) % 2**64 - 2**63


def _counts_alike(bound: BoundPod, pod: PodInfo) -> bool:
    return (
        not bound.nominated
        and bound.shape.base is pod.shape.base
        and bound.node_name == pod.node_name
        and bound.priority == pod.priority
        and bound.terminating == pod.terminating
        and bound.labels == pod.labels
    )
