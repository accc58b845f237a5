"""Comparable facts about a cluster by node name, independent of rows and ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from kubesched.snapshot.interning import LookupTable
from kubesched.snapshot.pod_counts import DomainTable, Tally
from kubesched.snapshot.view import ClusterView, LiveUsage, NodeRow, NodeTable
from tests.property.changes import IMAGES, LABEL_KEYS

RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "example.com/none")


def facts_of(view: ClusterView) -> dict[str, Any]:
    """Return everything that plugins can read of a cluster, in comparable form."""
    nodes = view.all_nodes()
    return {
        "order": nodes.names,
        "nodes": node_facts(nodes),
        "images": {image: _image(view, image) for image in IMAGES},
        "web pods": _counted(view, _web_pods(view)),
        "live web pods": _counted(view, _web_pods(view, live_only=True)),
        "anti-affinity": _anti_affinity(view),
        "domains": {key: _domains(view, key) for key in LABEL_KEYS},
        "pods": sorted(_pod_facts(view)),
    }


def node_facts(nodes: NodeTable) -> dict[str, Any]:
    """Return each node's columns and cells by its name; both must agree."""
    found: dict[str, Any] = {}
    columns = {
        **{f"allocatable {r}": nodes.allocatable[r] for r in RESOURCES},
        **{f"requested {r}": nodes.requested[r] for r in RESOURCES},
        **{f"nonzero {r}": nodes.nonzero_requested[r] for r in RESOURCES[:2]},
        "pod_count": nodes.pod_count,
        "allowed_pods": nodes.allowed_pods,
        "unschedulable": nodes.unschedulable,
    }
    if isinstance(nodes.usage, LiveUsage):
        for kind in ("allocatable", "requested", "nonzero_requested"):
            by_name = getattr(nodes, kind)
            lines = nodes.lines(kind, RESOURCES[:2], np.float64)
            assert lines.tolist() == [by_name[r].astype(np.float64).tolist() for r in RESOURCES[:2]]
        _check_lines(nodes)
    for position, node in enumerate(nodes):
        row = int(nodes.rows[position])
        view = nodes.view
        if isinstance(nodes.usage, LiveUsage):
            _check_row(view.row(row), {name: column[position] for name, column in columns.items()})
        found[node.name] = {
            **{name: column[position].item() for name, column in columns.items()},
            "labels": {key: _label(nodes, key, position) for key in LABEL_KEYS},
            "taints": nodes.taint_sets.values[nodes.taint_set[position]],
            "features": nodes.feature_sets.values[nodes.feature_set[position]],
            "ports": sorted(node.host_ports),
            "pods": sorted(pod.key for pod in node.pods),
            "nominated": [view.bound_pod(i).key for i in view.nominated_on(row)],
        }
    return found


def _check_lines(nodes: NodeTable) -> None:
    """Check that the resource matrix, if there is one, equals the columns."""
    lines = nodes.view.resource_matrix(nodes.rows)
    if lines is None:
        return
    first, allocatable, requested = RESOURCES[:2], nodes.allocatable, nodes.requested
    assert lines.allocatable.tolist() == [allocatable[name].tolist() for name in first]
    assert lines.requested.tolist() == [requested[name].tolist() for name in first]
    assert lines.left.tolist() == [
        *((allocatable[name] - requested[name]).tolist() for name in first),
        (nodes.allowed_pods - nodes.pod_count).tolist(),
    ]
    assert lines.hundredfold_nonzero_left.tolist() == [
        (100 * (allocatable[name] - nodes.nonzero_requested[name])).tolist() for name in first
    ]


def _check_row(row: NodeRow, cells: dict[str, Any]) -> None:
    """Check that a row's plain numbers equal its cells in the columns."""
    for name in RESOURCES:
        assert row.allocatable[name] == cells[f"allocatable {name}"]
        assert row.requested[name] == cells[f"requested {name}"]
    for name in RESOURCES[:2]:
        assert row.nonzero_requested[name] == cells[f"nonzero {name}"]
    assert row.pod_count == cells["pod_count"]
    assert row.allowed_pods == cells["allowed_pods"]
    assert row.unschedulable == cells["unschedulable"]


def _label(nodes: NodeTable, key: str, position: int) -> str | None:
    value_id = nodes.label(key)[position]
    value = None if value_id < 0 else nodes.label_values(key).values[value_id]
    assert value == nodes[position].labels.get(key)
    return value


def _image(view: ClusterView, image: str) -> Any:
    entry = view.image(image)
    if entry is None:
        return None
    names = sorted(view.nodes_at(np.array(list(entry.size_bytes_by_row))).names)
    return names, entry.size_bytes


def _web_pods(view: ClusterView, *, live_only: bool = False) -> Tally:
    is_web = LookupTable(view.label_classes, lambda found: found.labels.get("app") == "a1")
    return Tally(view.counters, is_web, live_only=live_only)


def _counted(view: ClusterView, tally: Tally) -> dict[str, int]:
    """Return the counts of existing nodes."""
    counts = {name: tally.rows.item(view.row_of(name)) for name in view.all_nodes().names}
    return {name: count for name, count in counts.items() if count}


def _anti_affinity(view: ClusterView) -> dict[str, int]:
    terms = LookupTable(view.term_sets, lambda found: len(found.required_anti_affinity))
    return _counted(view, Tally(view.counters, terms, by_terms=True))


def _domains(view: ClusterView, key: str) -> dict[str, int]:
    tally = Tally(view.counters, LookupTable(view.label_classes, lambda _: True))
    domains = view.counters.topology.domains(key)
    sums = DomainTable(tally, domains.ids, domains).follow().tolist()[:-1]
    values = view.label_values(key).values
    return {value: count for value, count in zip(values, sums, strict=True) if count}


def _pod_facts(view: ClusterView) -> list[tuple[Any, ...]]:
    pods = view.pods
    found = []
    for uid, index in pods.index_of.items():
        pod = view.bound_pod(index)
        columns = (
            int(pods.priority[index]),
            float(pods.start_s[index]),
            bool(pods.counted[index]),
            bool(pods.terminating[index]),
            sorted(view.label_classes.values[pods.label_class[index]].items),
            len(view.term_sets.values[pods.term_set[index]].preferred_affinity),
        )
        found.append((uid, pod.node_name, pod.nominated, sorted(pod.requests.items()), *columns))
    return found
