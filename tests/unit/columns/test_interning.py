"""Values as small integers, and questions asked once per value."""

import numpy as np
import pytest

from kubesched.columns.interning import LUT_COUNT_MAX, Interner, grown


def test_a_value_keeps_its_id_and_ids_are_dense() -> None:
    interner: Interner[str] = Interner()
    assert [interner.intern(value) for value in ("a", "b", "a", "c", "b")] == [0, 1, 0, 2, 1]
    assert list(interner) == ["a", "b", "c"]
    assert len(interner) == 3


def test_a_value_never_seen_has_no_id_and_asking_gives_it_none() -> None:
    interner: Interner[str] = Interner()
    assert interner.id_of("a") == -1
    assert len(interner) == 0
    interner.intern("a")
    assert interner.id_of("a") == 0


def test_each_value_is_asked_once_also_when_values_come_later() -> None:
    interner: Interner[str] = Interner()
    asked: list[str] = []

    def question(value: str) -> bool:
        asked.append(value)
        return value > "b"

    interner.intern("a")
    assert interner.lut("q", question).tolist() == [False]
    interner.intern("c")
    interner.intern("b")
    assert interner.lut("q", question).tolist() == [False, True, False]
    assert interner.lut("q", question).tolist() == [False, True, False]
    assert asked == ["a", "c", "b"]


def test_answers_stay_right_beyond_the_first_capacity() -> None:
    interner: Interner[int] = Interner()
    for value in range(10):
        interner.intern(value)
    interner.lut("square", lambda value: value * value, np.int64)
    for value in range(10, 100):
        interner.intern(value)
    squares = interner.lut("square", lambda value: value * value, np.int64)
    assert squares.tolist() == [value * value for value in range(100)]


def test_answers_cannot_be_written() -> None:
    interner: Interner[str] = Interner()
    interner.intern("a")
    answers = interner.lut("q", lambda _: True)
    with pytest.raises(ValueError, match="read-only"):
        answers[0] = False


def test_answers_handed_out_before_do_not_change_when_values_come() -> None:
    interner: Interner[str] = Interner()
    interner.intern("a")
    before = interner.lut("q", lambda _: True)
    interner.intern("b")
    interner.lut("q", lambda _: True)
    assert before.tolist() == [True]


def test_the_question_used_longest_ago_is_forgotten_first() -> None:
    interner: Interner[str] = Interner()
    interner.intern("a")
    asked: list[object] = []

    def ask(key: object) -> None:
        def question(_: str) -> bool:
            asked.append(key)
            return True

        interner.lut(key, question)

    for number in range(LUT_COUNT_MAX):
        ask(number)
    ask(0)  # Used again, so that 1 is the oldest now.
    ask("one more")
    asked.clear()
    ask(0)
    assert asked == []
    ask(1)
    assert asked == [1]


@pytest.mark.parametrize(
    ("count", "capacity"),
    [
        pytest.param(3, 4, id="room enough: as it was"),
        pytest.param(5, 16, id="never less than sixteen"),
        pytest.param(100, 100, id="as much as is wanted"),
    ],
)
def test_grown(count: int, capacity: int) -> None:
    array = np.arange(8).reshape(2, 4)
    larger = grown(array, count, fill=-1)
    assert larger.shape == (2, capacity)
    assert (larger[:, :4] == array).all()
    assert (larger[:, 4:] == -1).all()
