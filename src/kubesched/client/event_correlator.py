"""Which core events are one: counted, combined, or too many.

Owns the three rules of client-go's recorder. Equal events are one with a count. More than ten of a
kind that differ in words only, within ten minutes, are combined. A source that has said twenty-five
things about one object may say one more every five minutes.
Upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go
"""

from __future__ import annotations

from typing import Final, TypeVar

from kubesched.client.event_bodies import EventFacts

_REMEMBERED_MAX: Final = 4096
_SIMILAR_MAX: Final = 10
_SIMILAR_S: Final = 600.0
_BURST: Final = 25.0
_REFILL_PER_S: Final = 1 / 300
_COMBINED: Final = "(combined from similar events): "

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class EventCorrelator:
    """What was said of late."""

    def __init__(self) -> None:
        self._similar: dict[tuple[object, ...], tuple[dict[str, None], float]] = {}
        self._budgets: dict[tuple[object, ...], tuple[float, float]] = {}

    def combined(self, facts: EventFacts) -> tuple[tuple[object, ...], EventFacts]:
        """Return what an event is counted by, and what it says then.

        Parity: events_cache.go EventAggregate, v1.36.
        """
        regarding = facts.regarding
        about = (
            facts.controller,
            facts.instance,
            regarding.kind,
            regarding.namespace,
            regarding.name,
            regarding.uid,
            regarding.api_version,
            facts.type,
            facts.reason,
        )
        own = (*about, regarding.field_path, facts.note)
        now_s = facts.at_ns / 1e9
        notes, last_s = self._similar.pop(about, ({}, now_s))
        if now_s - last_s > _SIMILAR_S:
            notes = {}
        notes[facts.note] = None
        is_much = len(notes) >= _SIMILAR_MAX
        if is_much:
            # What was said first is forgotten, so that no more than these are kept.
            del notes[next(iter(notes))]
        _keep(self._similar, about, (notes, now_s))
        if not is_much:
            return own, facts
        return about, facts._replace(note=_COMBINED + facts.note)

    def is_too_much(self, facts: EventFacts) -> bool:
        """Return whether a source has said enough about an object for now.

        Parity: events_cache.go EventSourceObjectSpamFilter Filter, v1.36.
        """
        regarding = facts.regarding
        key = (
            facts.controller,
            facts.instance,
            regarding.kind,
            regarding.namespace,
            regarding.name,
            regarding.uid,
            regarding.api_version,
        )
        now_s = facts.at_ns / 1e9
        left, at_s = self._budgets.pop(key, (_BURST, now_s))
        left = min(_BURST, left + max(0.0, now_s - at_s) * _REFILL_PER_S)
        is_over = left < 1
        _keep(self._budgets, key, (left if is_over else left - 1, now_s))
        return is_over


def _keep(memory: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    """Remember something as the newest; the oldest is forgotten."""
    memory[key] = value
    if len(memory) > _REMEMBERED_MAX:
        del memory[next(iter(memory))]
