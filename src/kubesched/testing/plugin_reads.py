"""Checks that a column plugin reads no more than it declares with `reads`.

Owns the experiments, for the results that a scheduler keeps between attempts: another pod on one
node must not change the results for others, one row must get the same result as all rows, and a
field of the pod that its template does not cover must not be read unnoticed.
Upstream: none; attempt/kept keeps results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, Final, get_args

import numpy as np
from msgspec.structs import fields, replace

from kubesched.api.pod import Pod, PodSpec
from kubesched.cache.cache import Cache, load_objects
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import PreFilterResult, Reads
from kubesched.framework.pod_keys import PodKeys, TemplatePod
from kubesched.framework.runtime.adapters import ColumnFilter, ColumnScore
from kubesched.framework.status import Status
from kubesched.manifests.scenario import Subject as PodInCluster
from kubesched.snapshot.pod_info import SHAPE_SPEC_FIELDS, PodInfo
from kubesched.snapshot.view import ClusterView
from kubesched.testing.plugin_calls import Fault, Results, Subject, call_plugin, differing

_READS: Final = "it reads no more than reads() declares"
_ROWS: Final = "one row gets the same result as all rows"
_FIELDS: Final = "it reads the pod through the attributes of its argument"
_VARIED: Final = {str: "varied-by-the-check", int: 7_919, bool: True}


def reads_faults(
    plugin: Any, handle: Handle, chosen: PodInCluster, fitting: Collection[str]
) -> Iterator[Fault]:
    """Yield what a plugin reads besides what it declares.

    Args:
        plugin: The plugin.
        handle: Its handle, which gets a view of the cluster.
        chosen: The pod, and the other objects of the cluster.
        fitting: The names of the nodes to score.
    """
    is_column = hasattr(plugin, "filter_nodes") or hasattr(plugin, "score_nodes")
    if not callable(getattr(plugin, "reads", None)) or not is_column:
        return
    cache = Cache(keep_whole_pods=bool(getattr(plugin, "reads_bound_pods", False)))
    load_objects(cache, chosen.others, (handle.profile_name,))
    pod, view = cache.pod_info(chosen.pod), cache.snapshot()
    handle.view = view
    reads = plugin.reads(pod)
    if reads is None:
        return
    if not isinstance(reads, Reads):
        yield Fault("reads() returns something other than Reads or None", f"{reads!r:.60}")
        return
    subject = _subject(view, pod, fitting)
    before = call_plugin(plugin, subject)
    yield from _field_faults(plugin, cache, subject, before)
    if reads.usage:
        yield from _row_faults(plugin, view, pod, before)
    names = view.all_nodes().names
    target = next((name for name in names if name in fitting), names[0] if names else "")
    if target:
        cache.add_pod(_copy_on(cache, pod, target))
        after = call_plugin(plugin, _subject(cache.snapshot(), pod, fitting))
        changed = differing(before.verdicts, after.verdicts) + differing(before.raw, after.raw)
        for node in changed:
            if node != target or not reads.usage:
                yield Fault(_READS, f"another pod on {target} changes the result for {node}")


def pod_fields_read(plugin: Any, subject: Subject) -> tuple[str, ...]:
    """Return the fields besides the template that the plugin's kept results depend on."""
    if not callable(getattr(plugin, "reads", None)):
        return ()
    keys = PodKeys()
    while True:
        before = keys.fields
        observed = TemplatePod(subject.pod, keys)
        with suppress(Exception):  # Other checks report errors of its methods.
            plugin.reads(observed)
            call_plugin(plugin, subject._replace(pod=observed))
        if keys.fields is before:
            return before


def _field_faults(plugin: Any, cache: Cache, subject: Subject, before: Results) -> Iterator[Fault]:
    """Yield the fields that change a result, although reading them was not noticed."""
    for field, pod in _varied(subject.pod.object):
        varied = subject._replace(pod=cache.pod_info(pod))
        after = call_plugin(plugin, varied)
        results = ((each.pre_filter, each.verdicts, each.raw) for each in (before, after))
        if len({str(result) for result in results}) > 1:
            noticed = {*pod_fields_read(plugin, subject), *pod_fields_read(plugin, varied)}
            if field not in noticed:
                yield Fault(_FIELDS, f"another {field} changes a result, and was read unnoticed")


def _varied(pod: Pod) -> Iterator[tuple[str, Pod]]:
    """Yield the pod with another value of each field that templates do not cover."""
    spec, metadata = pod.spec, pod.metadata
    yield "priority", replace(pod, spec=replace(spec, priority=(spec.priority or 0) + 7_919))
    annotations = dict.fromkeys((*(metadata.annotations or ()), "varied-by-the-check"), "varied")
    yield "annotations", replace(pod, metadata=replace(metadata, annotations=annotations))
    for field in fields(PodSpec):
        if field.name in (*SHAPE_SPEC_FIELDS, "priority", "node_name"):
            continue
        kinds = [
            getattr(kind, "__origin__", kind) for kind in get_args(field.type) or (field.type,)
        ]
        value = next((_VARIED[kind] for kind in kinds if kind in _VARIED), None)
        if value is not None and value != getattr(spec, field.name):
            yield f"spec.{field.name}", replace(pod, spec=replace(spec, **{field.name: value}))


def _subject(view: ClusterView, pod: PodInfo, fitting: Collection[str]) -> Subject:
    rows = np.array([row for row in map(view.row_of, fitting) if row >= 0], dtype=np.int64)
    return Subject(view, pod, view.all_nodes(), rows)


def _copy_on(cache: Cache, pod: PodInfo, node: str) -> PodInfo:
    """Return a copy of the pod, with another name, on a node."""
    metadata = replace(pod.object.metadata, name=f"{pod.name}-copy", uid=f"{pod.uid}-copy")
    spec = replace(pod.object.spec, node_name=node)
    return cache.pod_info(replace(pod.object, metadata=metadata, spec=spec))


def _row_faults(plugin: Any, view: ClusterView, pod: PodInfo, before: Results) -> Iterator[Fault]:
    state, nodes = CycleState(), view.all_nodes()
    if hasattr(plugin, "pre_filter"):
        result = plugin.pre_filter(state, pod, nodes)
        if isinstance(result, Status | PreFilterResult):
            return
    for row, name in zip(nodes.rows.tolist(), nodes.names, strict=True):
        if hasattr(plugin, "filter_nodes"):
            status = ColumnFilter(plugin).judge_row(state, pod, view.row(row))
            verdict = None if status is None else (status.code.wire_name, status.reasons)
            expected = before.verdicts.get(name)
            if verdict != expected:
                yield Fault(_ROWS, f"node {name}: {verdict} (one row), {expected} (all)")
        if hasattr(plugin, "score_nodes") and name in before.raw:
            result = ColumnScore(plugin).score_row(state, pod, view.row(row))
            score = result.message if isinstance(result, Status) else result
            if score != before.raw[name]:
                yield Fault(_ROWS, f"node {name}: {score} (one row), {before.raw[name]} (all)")
