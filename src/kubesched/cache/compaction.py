"""Compaction of interned values: drops those that no node or pod uses, and renumbers the rest.

Without it, values that come and go (host names of autoscaled nodes, labels of single pods, taints
with a timestamp) would fill the tables. Ids keep their meaning until a compaction; afterwards every
cache over the cluster is invalid, which is visible in the cluster's new `identity`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubesched.snapshot.interning import Interner, ValueT
from kubesched.snapshot.node_columns import IdColumn
from kubesched.snapshot.pod_columns import PodColumns
from kubesched.snapshot.tables import ClusterTables

SPARE = 1024
CHECK_EVERY = 256


def compact_if_due(cluster: ClusterTables) -> None:
    """Compact if more values are unused than used; the sizes are checked periodically."""
    cluster.arrival_count += 1
    if cluster.arrival_count % CHECK_EVERY:
        return
    size = _size(cluster)
    if size < cluster.compact_at:
        return
    if size > 2 * _used_count(cluster) + SPARE:
        _compact(cluster)
        size = _size(cluster)
    # Counting takes a pass over the tables: the next one waits until the tables have doubled.
    cluster.compact_at = 2 * size + SPARE


def _size(cluster: ClusterTables) -> int:
    pods, nodes = cluster.pods, cluster.nodes
    values = max((len(column.values) for column in nodes.labels.values()), default=0)
    return (
        len(pods.label_classes)
        + len(pods.term_sets)
        + len(pods.shapes)
        + len(nodes.taint_sets)
        + len(nodes.feature_sets)
        + len(cluster.shapes)
        + values
    )


def _used_count(cluster: ClusterTables) -> int:
    """Return the number of values that are in use."""
    pods, nodes = cluster.pods, cluster.nodes
    used = pods.row[: pods.count] >= 0
    columns = (pods.label_class, pods.term_set, pods.shape, pods.shape)
    count = sum(len(_distinct(column[: pods.count][used])) for column in columns)
    rows = nodes.row_count
    count += len(_distinct(nodes.taint_set[:rows])) + len(_distinct(nodes.feature_set[:rows]))
    return count + max(
        # A node without the label has -1.
        (len(_distinct(column.ids[:rows] + 1)) for column in nodes.labels.values()),
        default=0,
    )


def _distinct(ids: IdColumn) -> NDArray[np.intp]:
    """Return the distinct ids of a column in ascending order."""
    # Counting takes a tenth of the time of sorting or hashing: ids have no gaps.
    return np.flatnonzero(np.bincount(ids))


def _compact(cluster: ClusterTables) -> None:
    pods, nodes = cluster.pods, cluster.nodes
    used = pods.row[: pods.count] >= 0
    pods.label_classes = _renumbered(pods.label_classes, pods.writable.label_class, used, ())
    pods.entries.clear()
    pods.class_labels.clear()
    pods.known_owners.clear()
    _compact_shapes(cluster, pods, used)
    rows = np.ones(nodes.row_count, dtype=np.bool_)
    nodes.taint_sets = _renumbered(nodes.taint_sets, nodes.taint_set, rows, ((),))
    nodes.feature_sets = _renumbered(nodes.feature_sets, nodes.feature_set, rows, ((),))
    nodes.labels.clear()  # Rebuilt from the nodes at their next use.
    cluster.begin_epoch()


def _compact_shapes(cluster: ClusterTables, pods: PodColumns, used: NDArray[np.bool_]) -> None:
    """Renumber shapes and term sets."""
    column = pods.writable.shape[: pods.count]
    used_shapes = _distinct(column[used]).tolist()
    old_shapes, old_items = pods.shapes, pods.shape_items
    pods.forget_shapes()
    places = np.zeros(len(old_shapes) + 1, dtype=np.int32)
    for old in used_shapes:
        places[old] = pods.add_shape(old_shapes[old], old_items[old])
    column[used] = places[column[used]]
    terms = np.array([*pods.shape_terms, 0], dtype=np.int32)
    term_sets = pods.writable.term_set[: pods.count]
    term_sets[used] = terms[column[used]]
    # Free indexes are looked up with the others: their ids must be valid.
    column[~used] = term_sets[~used] = 0
    cluster.shapes.keep_only(old_shapes[old] for old in used_shapes)


def _renumbered(
    interner: Interner[ValueT],
    column: IdColumn,
    used: NDArray[np.bool_],
    first: Iterable[ValueT],
) -> Interner[ValueT]:
    """Return an interner of the used values only, and renumber the column in place."""
    renumbered: Interner[ValueT] = Interner()
    for value in first:
        renumbered.intern(value)
    ids = column[: len(used)]
    places = np.zeros(len(interner) + 1, dtype=np.int32)
    for old in _distinct(ids[used]).tolist():
        places[old] = renumbered.intern(interner.values[old])
    ids[used] = places[ids[used]]
    # Free indexes are looked up with the others: their ids must be valid.
    ids[~used] = 0
    return renumbered
