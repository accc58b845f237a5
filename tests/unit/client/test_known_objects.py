"""What a reflector remembers of what it told."""

from __future__ import annotations

import tracemalloc

import pytest

from kubesched.client.known_objects import KnownObjects, News


def test_what_is_new() -> None:
    known = KnownObjects()
    assert known.put("ns/a", "u1", "1") == (News.NEW, "")
    assert known.put("ns/a", "u1", "1") == (News.SAME, "")
    assert known.put("ns/a", "u1", "2") == (News.CHANGED, "")
    assert known.put("ns/a", "u2", "3") == (News.REPLACED, "u1")
    assert known.uid_of("ns/a") == "u2"
    known.remove("ns/a")
    assert known.uid_of("ns/a") is None
    assert len(known) == 0


@pytest.mark.parametrize("uid", ["u1", "u0"], ids=["the same", "its predecessor"])
def test_what_is_older_is_no_news_but_in_a_pass(uid: str) -> None:
    known = KnownObjects()
    known.put("ns/a", "u1", "10")
    assert known.put("ns/a", uid, "9") == (News.OLDER, "")
    assert known.uid_of("ns/a") == "u1"
    assert known.put("ns/a", "u1", "10") == (News.SAME, "")
    known.begin_pass()
    assert known.put("ns/a", uid, "9")[0] in (News.CHANGED, News.REPLACED)
    known.abandon_pass()
    assert known.uid_of("ns/a") == uid


def test_versions_that_are_no_numbers_are_only_compared() -> None:
    known = KnownObjects()
    known.put("ns/a", "u1", "b")
    assert known.put("ns/a", "u1", "a") == (News.CHANGED, "")


def test_a_pass_leaves_over_what_it_did_not_confirm() -> None:
    known = KnownObjects()
    for name in "abc":
        known.put(name, f"u{name}", "1")
    known.begin_pass()
    assert known.put("b", "ub", "1") == (News.SAME, "")
    assert known.put("d", "ud", "2") == (News.NEW, "")
    assert known.put("d", "ud", "2") == (News.SAME, "")
    assert len(known) == 4
    assert sorted(known.end_pass()) == [("a", "ua"), ("c", "uc")]
    assert not known.is_in_pass
    assert len(known) == 2


def test_a_pass_given_up_forgets_nothing() -> None:
    known = KnownObjects()
    for name in "ab":
        known.put(name, f"u{name}", "1")
    known.begin_pass()
    known.put("b", "ub", "2")
    known.put("c", "uc", "3")
    known.begin_pass()
    assert known.put("a", "ua", "1") == (News.SAME, "")
    assert known.put("b", "ub", "2") == (News.SAME, "")
    assert known.uid_of("c") == "uc"
    known.abandon_pass()
    assert len(known) == 3


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_what_goes_during_a_pass_is_not_left_over(is_confirmed: bool) -> None:
    known = KnownObjects()
    known.put("a", "ua", "1")
    known.begin_pass()
    if is_confirmed:
        known.put("a", "ua", "1")
    known.remove("a")
    assert list(known.end_pass()) == []
    assert len(known) == 0


def test_it_is_small() -> None:
    count = 10_000
    known = KnownObjects()
    tracemalloc.start()
    try:
        for number in range(count):
            uid = f"c032da9f-e0ff-4f43-afb6-{number:012d}"
            known.put(f"team-7/application-{number:06d}-6d4cf56db6-x2b4z", uid, str(number))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / count < 300
