"""Whether a queue sort puts pods into an order at all.

Owns what makes an order of `less`: nobody goes before himself, of two at most one goes first, and
who goes before the second goes before the third. A queue that is told otherwise loses its order.
Upstream: none; pkg/scheduler/framework/plugins/queuesort is what keeps to it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any, Final

from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.testing.plugin_answers import Fault

_PODS_MAX: Final = 12
_RULE: Final = "less() is an order"


def order_faults(plugin: Any, pods: Sequence[PodInfo]) -> list[Fault]:
    """Return what is wrong with how a plugin sorts pods; nothing if it does not."""
    if not callable(getattr(plugin, "less", None)):
        return []
    queued = [QueuedPodInfo(pod, float(place)) for place, pod in enumerate(pods[:_PODS_MAX])]
    try:
        return list(_faults(plugin, queued))
    except Exception as problem:  # noqa: BLE001 - whatever a user's plugin raises is told
        return [Fault("less() and sort_key() do not raise", f"{type(problem).__name__}: {problem}")]


def _faults(plugin: Any, queued: Sequence[QueuedPodInfo]) -> Iterator[Fault]:
    before = {(a.key, b.key): plugin.less(a, b) for a in queued for b in queued}
    for (first, second), answer in before.items():
        if not isinstance(answer, bool):
            yield Fault("less() returns a bool", f"{type(answer).__name__} for {first}, {second}")
        elif answer and first == second:
            yield Fault(_RULE, f"{first} goes before itself")
        elif answer and before[second, first]:
            yield Fault(_RULE, f"{first} and {second} each go before the other")
    for a, b, c in permutations((one.key for one in queued), 3):
        if before[a, b] and before[b, c] and not before[a, c]:
            yield Fault(_RULE, f"{a} goes before {b}, {b} before {c}, but not {a} before {c}")
    if callable(getattr(plugin, "sort_key", None)):
        keys = {one.key: plugin.sort_key(one) for one in queued}
        for (first, second), answer in before.items():
            if (keys[first] < keys[second]) != bool(answer):
                yield Fault("sort_key() sorts as less() does", f"not so for {first}, {second}")
