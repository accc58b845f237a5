"""Whether a plugin reads no more than it says, so that its answers can be kept.

Owns the trial: a pod is put on one node, and what the plugin says of all nodes is compared with
what it said before; and rows are asked about one by one, as a scheduler does when few have changed.
Only plugins that declare `reads` over columns are tried: nobody else's answers are kept.
Upstream: none; framework.plan is what keeps answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from kubesched.app.cluster import load_objects
from kubesched.app.explain import Subject as Chosen
from kubesched.cache.cache import Cache
from kubesched.columns.view import ClusterView
from kubesched.engine.handle import OfflineHandle
from kubesched.framework.adapt import ColumnFilter, ColumnScore
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult, Reads
from kubesched.framework.status import Status
from kubesched.model.pod_info import PodInfo
from kubesched.testing.plugin_answers import Answers, Fault, Subject, ask, differing

_RULE: Final = "it reads no more than reads() says"
_ROWS: Final = "asked about one row it answers as for all"


def reads_faults(
    plugin: Any, handle: OfflineHandle, chosen: Chosen, fitting: Collection[str]
) -> list[Fault]:
    """Return what a plugin reads beside what it declares.

    Args:
        plugin: the plugin.
        handle: its handle, which is to see the cluster.
        chosen: the pod, and the cluster around it.
        fitting: the names of the nodes that are scored.
    """
    is_column = hasattr(plugin, "filter_nodes") or hasattr(plugin, "score_nodes")
    if not callable(getattr(plugin, "reads", None)) or not is_column:
        return []
    cache = Cache(keep_whole_pods=bool(getattr(plugin, "reads_bound_pods", False)))
    load_objects(cache, chosen.others, (handle.profile_name,))
    pod, view = cache.pod_info(chosen.pod), cache.snapshot()
    handle.view = view
    reads = plugin.reads(pod)
    if reads is None:
        return []
    if not isinstance(reads, Reads):
        return [Fault("reads() returns something other than Reads or None", f"{reads!r:.60}")]
    return list(_faults(plugin, cache, pod, reads, fitting))


def _faults(
    plugin: Any, cache: Cache, pod: PodInfo, reads: Reads, fitting: Collection[str]
) -> Iterator[Fault]:
    view = cache.snapshot()
    before = _answers(plugin, view, pod, fitting)
    if reads.usage:
        yield from _row_faults(plugin, view, pod, before)
    names = [name for name in view.all_nodes().names if name in fitting] or view.all_nodes().names
    for target in names[:1]:
        cache.add_pod(_guest(cache, pod, target))
        after = _answers(plugin, cache.snapshot(), pod, fitting)
        for what in ("verdicts", "raw"):
            for node in differing(getattr(before, what), getattr(after, what)):
                if node != target or not reads.usage:
                    yield Fault(_RULE, f"a pod more on {target} changes what it says of {node}")


def _answers(plugin: Any, view: ClusterView, pod: PodInfo, fitting: Collection[str]) -> Answers:
    rows = np.array([view.row_of(name) for name in fitting], dtype=np.int64)
    return ask(plugin, Subject(view, pod, view.all_nodes(), rows))


def _guest(cache: Cache, pod: PodInfo, node: str) -> PodInfo:
    """Return another pod of the same kind, on a node."""
    whole = pod.object
    metadata = replace(whole.metadata, name=f"{pod.name}-guest", uid=f"{pod.uid}-guest")
    spec = replace(whole.spec, node_name=node)
    return cache.pod_info(replace(whole, metadata=metadata, spec=spec))


def _row_faults(plugin: Any, view: ClusterView, pod: PodInfo, before: Answers) -> Iterator[Fault]:
    state, nodes = CycleState(), view.all_nodes()
    if hasattr(plugin, "pre_filter"):
        said = plugin.pre_filter(state, pod, nodes)
        if isinstance(said, Status | PreFilterResult):
            return
    for row, name in zip(nodes.rows.tolist(), nodes.names, strict=True):
        if hasattr(plugin, "filter_nodes"):
            status = ColumnFilter(plugin).judge_row(state, pod, view.row(row))
            known = before.verdicts.get(name)
            said = None if status is None else (status.code.wire_name, status.reasons)
            if said != known:
                yield Fault(_ROWS, f"node {name}: {said} (one row), {known} (all)")
        if hasattr(plugin, "score_nodes") and name in before.raw:
            score = ColumnScore(plugin).score_row(state, pod, view.row(row))
            told = score.message if isinstance(score, Status) else score
            if told != before.raw[name]:
                yield Fault(_ROWS, f"node {name}: {told} (one row), {before.raw[name]} (all)")
