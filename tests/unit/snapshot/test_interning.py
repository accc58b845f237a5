"""Interning: ids of values, and functions computed once per value."""

import numpy as np
import pytest

from kubesched.snapshot.interning import LUT_COUNT_MAX, Interner, grown


def test_a_value_keeps_its_id_and_ids_are_dense() -> None:
    interner: Interner[str] = Interner()
    assert [interner.intern(value) for value in ("a", "b", "a", "c", "b")] == [0, 1, 0, 2, 1]
    assert list(interner) == ["a", "b", "c"]
    assert len(interner) == 3


def test_looking_up_an_unknown_value_does_not_intern_it() -> None:
    interner: Interner[str] = Interner()
    assert interner.id_of("a") == -1
    assert len(interner) == 0
    interner.intern("a")
    assert interner.id_of("a") == 0


def test_a_lookup_table_calls_its_function_once_per_value() -> None:
    interner: Interner[str] = Interner()
    computed: list[str] = []

    def question(value: str) -> bool:
        computed.append(value)
        return value > "b"

    interner.intern("a")
    assert interner.lut("q", question).tolist() == [False]
    interner.intern("c")
    interner.intern("b")
    assert interner.lut("q", question).tolist() == [False, True, False]
    assert interner.lut("q", question).tolist() == [False, True, False]
    assert computed == ["a", "c", "b"]


def test_a_lookup_table_grows_beyond_its_first_capacity() -> None:
    interner: Interner[int] = Interner()
    for value in range(10):
        interner.intern(value)
    interner.lut("square", lambda value: value * value, np.int64)
    for value in range(10, 100):
        interner.intern(value)
    squares = interner.lut("square", lambda value: value * value, np.int64)
    assert squares.tolist() == [value * value for value in range(100)]


def test_lookup_tables_are_read_only() -> None:
    interner: Interner[str] = Interner()
    interner.intern("a")
    answers = interner.lut("q", lambda _: True)
    with pytest.raises(ValueError, match="read-only"):
        answers[0] = False


def test_a_returned_lookup_table_does_not_change_with_new_values() -> None:
    interner: Interner[str] = Interner()
    interner.intern("a")
    before = interner.lut("q", lambda _: True)
    interner.intern("b")
    interner.lut("q", lambda _: True)
    assert before.tolist() == [True]


def test_the_least_recently_used_lookup_table_is_evicted_first() -> None:
    interner: Interner[str] = Interner()
    interner.intern("a")
    computed: list[object] = []

    def look_up(key: object) -> None:
        def question(_: str) -> bool:
            computed.append(key)
            return True

        interner.lut(key, question)

    for number in range(LUT_COUNT_MAX):
        look_up(number)
    look_up(0)  # Now 1 is the least recently used.
    look_up("one more")
    computed.clear()
    look_up(0)
    assert computed == []
    look_up(1)
    assert computed == [1]


@pytest.mark.parametrize(
    ("count", "capacity"),
    [
        pytest.param(3, 4, id="large enough: unchanged"),
        pytest.param(5, 16, id="at least sixteen"),
        pytest.param(100, 100, id="the requested size"),
    ],
)
def test_grown_arrays_keep_entries_and_fill_new_ones(count: int, capacity: int) -> None:
    array = np.arange(8).reshape(2, 4)
    larger = grown(array, count, fill=-1)
    assert larger.shape == (2, capacity)
    assert (larger[:, :4] == array).all()
    assert (larger[:, 4:] == -1).all()
