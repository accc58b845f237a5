"""Helpers of plugin tests: the builders of all tests, and a filter's verdict node by node."""

from __future__ import annotations

from typing import Any

from kubesched.framework.interface import AllReasons, FilterVerdict
from kubesched.framework.runtime.registry import Registry
from kubesched.framework.status import Code, Status
from tests.unit.builders import a_cluster, a_node, a_pod, a_trial

__all__ = ["a_cluster", "a_node", "a_pod", "a_trial", "made", "statuses_of"]


def made(plugin: Any, args: object = None) -> Any:
    """Return a plugin that does not use its handle, created as a profile creates it."""
    return Registry({plugin.name: plugin}).make(plugin.name, args, None)


def statuses_of(verdict: FilterVerdict, names: list[str]) -> dict[str, Status]:
    """Return the status of each node that a filter rejected: one per node, as upstream."""
    found: dict[str, Status] = {}
    for position, name in enumerate(names):
        if isinstance(verdict, AllReasons):
            held = [r.status for r in verdict.rejections if r.mask[position]]
            if held:
                reasons = tuple(reason for status in held for reason in status.reasons)
                worst = (
                    Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                    if any(s.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for s in held)
                    else held[0].code
                )
                found[name] = Status(worst, reasons)
        else:
            first = next((r.status for r in verdict if r.mask[position]), None)
            if first is not None:
                found[name] = first
    return found
