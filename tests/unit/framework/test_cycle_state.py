"""The values that plugins keep for one attempt."""

from __future__ import annotations

import pytest

from kubesched.framework.cycle_state import CycleState, StateNotFoundError


class Counter:
    def __init__(self, count: int = 0) -> None:
        self.count = count

    def clone(self) -> Counter:
        return Counter(self.count)


def test_reading_an_unknown_key_raises() -> None:
    state = CycleState()
    with pytest.raises(StateNotFoundError, match=r"^not found$"):
        state.read("key")
    assert state.get("key") is None


def test_a_value_can_be_read_until_it_is_deleted() -> None:
    state = CycleState()
    state.write("key", 1)
    assert (state.read("key"), state.get("key")) == (1, 1)
    state.delete("key")
    state.delete("key")
    assert state.get("key") is None


def test_a_value_with_clone_is_cloned() -> None:
    state = CycleState()
    state.write("key", Counter(1))
    trial = state.clone()
    trial.read("key").count += 1
    assert (state.read("key").count, trial.read("key").count) == (1, 2)


def test_a_value_without_clone_is_shared_by_all_clones() -> None:
    state = CycleState()
    shared = ["a"]
    state.write("key", shared)
    assert state.clone().read("key") is shared


def test_writing_to_a_clone_does_not_change_the_original() -> None:
    state = CycleState()
    trial = state.clone()
    trial.write("key", 1)
    assert state.get("key") is None


def test_a_clone_keeps_the_skipped_plugins() -> None:
    state = CycleState()
    state.skip_filter_plugins = frozenset("A")
    state.skip_score_plugins = frozenset("B")
    state.skip_pre_bind_plugins = frozenset("C")
    copy = state.clone()
    assert copy.skip_filter_plugins == {"A"}
    assert copy.skip_score_plugins == {"B"}
    assert copy.skip_pre_bind_plugins == {"C"}
