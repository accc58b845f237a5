"""What the queue goes by, as one thing that can be replaced: order, gate and hints.

Owns how the three are made from profiles; whatever can fail about them fails here, so that putting
them in force cannot. Never holds a pod.
Upstream: pkg/scheduler/scheduler.go New (what it hands to the queue)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubesched.kit.clock import Clock
from kubesched.kit.heap import order_by_less
from kubesched.kit.log import Log
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.queue.gate import Gate
from kubesched.queue.hints import Hints
from kubesched.queue.interface import Less, ProfileQueueing, SortKey
from kubesched.queue.recorder import Recorder

RULES_CHANGED: Final = "RulesChanged"
RULES_CHANGED_EVENT: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, RULES_CHANGED)
"""Other rules are in force: whoever was refused by the old ones is tried again."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What profiles mean to the queue."""

    names: frozenset[str]
    """The profiles."""
    order: SortKey
    gate: Gate
    hints: Hints

    @classmethod
    def of(
        cls,
        profiles: Mapping[str, ProfileQueueing],
        *,
        less: Less,
        key: SortKey | None,
        clock: Clock,
        recorder: Recorder,
        log: Log,
    ) -> QueueRules:
        """Return the rules of some profiles; ValueError if a registration is wrong."""
        hints = Hints(profiles, clock=clock, recorder=recorder, log=log)
        gate = Gate(profiles, hints.events_of, clock=clock, recorder=recorder, log=log)
        order = key if key is not None else order_by_less(less)
        return cls(frozenset(profiles), order, gate, hints)
