"""Dropping what nothing uses any more.

Owns when a cluster's ids are dealt anew, and the dealing. Names that come and go (host names of
autoscaled nodes, labels of single pods, taints that hold a time) would otherwise fill the tables
for ever. Ids keep their meaning until then; afterwards every cache over the cluster is void, which
the new `identity` tells their keepers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.cluster import Cluster
from kubesched.columns.interning import Interner, ValueT
from kubesched.columns.node_columns import IdColumn
from kubesched.columns.pod_columns import PodColumns

SPARE = 1024
LOOK_EVERY = 256


def compact_if_due(cluster: Cluster) -> bool:
    """Deal ids anew if the dead outnumber the living; return whether that was done."""
    cluster.arrival_count += 1
    if cluster.arrival_count % LOOK_EVERY:
        return False
    size = _size(cluster)
    if size < cluster.compact_at:
        return False
    if size > 2 * _living(cluster) + SPARE:
        _compact(cluster)
        size = _size(cluster)
    # Looking costs a pass over the tables, so the next look waits until much has come.
    cluster.compact_at = 2 * size + SPARE
    return True


def _size(cluster: Cluster) -> int:
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


def _living(cluster: Cluster) -> int:
    """Return how large the tables would be if only what is used were in them."""
    pods, nodes = cluster.pods, cluster.nodes
    used = pods.row[: pods.count] >= 0
    columns = (pods.label_class, pods.term_set, pods.shape, pods.shape)
    living = sum(len(_distinct(column[: pods.count][used])) for column in columns)
    rows = nodes.row_count
    living += len(_distinct(nodes.taint_set[:rows])) + len(_distinct(nodes.feature_set[:rows]))
    return living + max(
        # A node without the label has -1.
        (len(_distinct(column.ids[:rows] + 1)) for column in nodes.labels.values()),
        default=0,
    )


def _distinct(ids: IdColumn) -> NDArray[np.intp]:
    """Return the ids of a column once each, in their order."""
    # Counting takes a tenth of the time of sorting or hashing: ids are dealt without gaps.
    return np.flatnonzero(np.bincount(ids))


def _compact(cluster: Cluster) -> None:
    pods, nodes = cluster.pods, cluster.nodes
    used = pods.row[: pods.count] >= 0
    pods.label_classes = _dealt_anew(pods.label_classes, pods.writable.label_class, used, ())
    pods.entries.clear()
    pods.class_labels.clear()
    pods.known_owners.clear()
    _compact_shapes(cluster, pods, used)
    rows = np.ones(nodes.row_count, dtype=np.bool_)
    nodes.taint_sets = _dealt_anew(nodes.taint_sets, nodes.taint_set, rows, ((),))
    nodes.feature_sets = _dealt_anew(nodes.feature_sets, nodes.feature_set, rows, ((),))
    nodes.labels.clear()  # Built again from the nodes when a rule asks.
    cluster.begin_epoch()


def _compact_shapes(cluster: Cluster, pods: PodColumns, used: NDArray[np.bool_]) -> None:
    """Deal shapes and term sets anew; both come with the pods that have them."""
    column = pods.writable.shape[: pods.count]
    living = _distinct(column[used]).tolist()
    old_shapes, old_items = pods.shapes, pods.shape_items
    pods.forget_shapes()
    places = np.zeros(len(old_shapes) + 1, dtype=np.int32)
    for old in living:
        places[old] = pods.add_shape(old_shapes[old], old_items[old])
    column[used] = places[column[used]]
    terms = np.array([*pods.shape_terms, 0], dtype=np.int32)
    term_sets = pods.writable.term_set[: pods.count]
    term_sets[used] = terms[column[used]]
    # Places that are free are looked up with the others: no id there may be too large.
    column[~used] = term_sets[~used] = 0
    cluster.shapes.keep_only(old_shapes[old] for old in living)


def _dealt_anew(
    interner: Interner[ValueT],
    column: IdColumn,
    used: NDArray[np.bool_],
    first: Iterable[ValueT],
) -> Interner[ValueT]:
    """Return an interner of the used values only, and renumber the column in place."""
    dealt: Interner[ValueT] = Interner()
    for value in first:
        dealt.intern(value)
    ids = column[: len(used)]
    places = np.zeros(len(interner) + 1, dtype=np.int32)
    for old in _distinct(ids[used]).tolist():
        places[old] = dealt.intern(interner.values[old])
    ids[used] = places[ids[used]]
    # Places that are free are looked up with the others: no id there may be too large.
    ids[~used] = 0
    return dealt
