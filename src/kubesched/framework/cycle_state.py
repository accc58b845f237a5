"""CycleState: values that plugins pass from one extension point to the next in one attempt.

Upstream: pkg/scheduler/framework/cycle_state.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class Times(Protocol):
    """Measures the calls of plugins."""

    def call(self, point: str, plugin: str, run: Callable[..., Any], *arguments: Any) -> Any: ...
    async def wait(self, point: str, plugin: str, answer: Awaitable[Any]) -> Any: ...


_NONE: frozenset[str] = frozenset()


class StateNotFoundError(LookupError):
    """Nothing was written under that key in this attempt."""

    def __init__(self) -> None:
        super().__init__("not found")


class CycleState:
    """Values by key; a value without `clone()` is shared by all clones of the state."""

    __slots__ = (
        "_values",
        "may_wait",
        "parallel_pre_bind_plugins",
        "plugin_times",
        "skip_filter_plugins",
        "skip_pre_bind_plugins",
        "skip_score_plugins",
    )

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.skip_filter_plugins = _NONE
        self.skip_score_plugins = _NONE
        self.skip_pre_bind_plugins = _NONE
        self.parallel_pre_bind_plugins = _NONE
        """PreBind plugins that may run in parallel with the next one."""
        self.may_wait = False
        """Whether an in-tree PostFilter plugin may return an awaitable."""
        self.plugin_times: Times | None = None
        """Set if the plugin calls of this attempt are timed."""

    def __repr__(self) -> str:
        return f"<CycleState {sorted(self._values)}>"

    def read(self, key: str) -> Any:
        """Return a value; raise `StateNotFoundError` (`not found`) if there is none."""
        try:
            return self._values[key]
        except KeyError:
            raise StateNotFoundError from None

    def get(self, key: str) -> Any | None:
        """Return a value, or None."""
        return self._values.get(key)

    def write(self, key: str, value: Any) -> None:
        """Keep a value for the rest of the attempt."""
        self._values[key] = value

    def delete(self, key: str) -> None:
        """Delete a value, if there is one."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Delete everything, as at the start of the attempt."""
        self._values = {}
        self.skip_filter_plugins = self.skip_score_plugins = _NONE

    def adopt(self, other: CycleState) -> None:
        """Copy the values of another attempt; they are shared."""
        self._values = dict(other._values)
        self.skip_filter_plugins = other.skip_filter_plugins
        self.skip_score_plugins = other.skip_score_plugins

    def clone(self) -> CycleState:
        """Return a state that a trial may change."""
        copy = CycleState()
        copy._values = {
            key: value.clone() if hasattr(value, "clone") else value
            for key, value in self._values.items()
        }
        copy.skip_filter_plugins = self.skip_filter_plugins
        copy.skip_score_plugins = self.skip_score_plugins
        copy.skip_pre_bind_plugins = self.skip_pre_bind_plugins
        copy.parallel_pre_bind_plugins = self.parallel_pre_bind_plugins
        copy.plugin_times = self.plugin_times
        return copy
