"""The order of the queue by a user's plugin, which may fail.

Owns what stands for an answer that a QueueSort plugin did not give: who came first goes first.
Never sorts: the queue does.
Upstream: pkg/scheduler/framework/runtime/framework.go QueueSortFunc, where a failure ends the
process
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.kit.log import Log
from kubesched.model.queued_pod import QueuedPodInfo

_SAID_MAX: Final = 20


@dataclass(slots=True)
class QueueOrder:
    """Compares waiting pods as a plugin says, and never raises."""

    plugin: str
    less_of: Callable[[QueuedPodInfo, QueuedPodInfo], bool]
    key_of: Callable[[QueuedPodInfo], Any] | None
    log: Log
    _said: set[str] = field(default_factory=set)

    def less(self, first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
        """Return whether the first pod goes before the second."""
        try:
            return bool(self.less_of(first, second))
        except Exception as problem:  # noqa: BLE001 - no fault of a plugin may stop the loop
            self.say(problem)
            return first.timestamp_s < second.timestamp_s

    @property
    def key(self) -> Callable[[QueuedPodInfo], Any] | None:
        """Return what pods are compared by, if the plugin says that."""
        return None if self.key_of is None else self._key

    def _key(self, queued: QueuedPodInfo) -> _Key:
        assert self.key_of is not None
        try:
            return _Key(self, self.key_of(queued), queued.timestamp_s)
        except Exception as problem:  # noqa: BLE001 - no fault of a plugin may stop the loop
            self.say(problem)
            return _Key(self, None, queued.timestamp_s)

    def say(self, problem: Exception) -> None:
        """Log what went wrong; the same once, since it may go wrong at every comparison."""
        text = f"{type(problem).__name__}: {problem}"
        if text not in self._said and len(self._said) < _SAID_MAX:
            self._said.add(text)
            self.log.error(
                "Plugin failed", err=text, plugin=self.plugin, extensionPoint="QueueSort"
            )


class _Key:
    """What a plugin compares a pod by, and when the pod came."""

    __slots__ = ("_at_s", "_order", "_value")

    def __init__(self, order: QueueOrder, value: Any, at_s: float) -> None:
        self._order = order
        self._value = value
        self._at_s = at_s

    def __lt__(self, other: _Key) -> bool:
        try:
            return bool(self._value < other._value)
        except Exception as problem:  # noqa: BLE001 - values of two kinds, or odd ones
            self._order.say(problem)
            return self._at_s < other._at_s
