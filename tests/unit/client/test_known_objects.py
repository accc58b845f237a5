"""The record of the objects that a reflector has reported."""

from __future__ import annotations

import tracemalloc

import pytest

from kubesched.client.watch.changes import KnownObjects


def test_put_returns_the_type_of_the_change() -> None:
    known = KnownObjects()
    assert known.put("ns/a", "u1", "1") == ("ADDED", "")
    assert known.put("ns/a", "u1", "1") == ("", "")
    assert known.put("ns/a", "u1", "2") == ("MODIFIED", "")
    assert known.put("ns/a", "u2", "3") == ("ADDED", "u1")
    assert known.uid_of("ns/a") == "u2"
    known.remove("ns/a")
    assert known.uid_of("ns/a") is None
    assert len(known) == 0


@pytest.mark.parametrize("uid", ["u1", "u0"], ids=["same object", "its predecessor"])
def test_an_older_version_is_ignored_except_in_a_pass(uid: str) -> None:
    known = KnownObjects()
    known.put("ns/a", "u1", "10")
    assert known.put("ns/a", uid, "9") == ("", "")
    assert known.uid_of("ns/a") == "u1"
    assert known.put("ns/a", "u1", "10") == ("", "")
    known.begin_pass()
    assert known.put("ns/a", uid, "9")[0] in ("MODIFIED", "ADDED")
    known.abandon_pass()
    assert known.uid_of("ns/a") == uid


def test_versions_that_are_not_numbers_have_no_order() -> None:
    known = KnownObjects()
    known.put("ns/a", "u1", "b")
    assert known.put("ns/a", "u1", "a") == ("MODIFIED", "")


def test_the_end_of_a_pass_yields_the_unconfirmed_objects() -> None:
    known = KnownObjects()
    for name in "abc":
        known.put(name, f"u{name}", "1")
    known.begin_pass()
    assert known.put("b", "ub", "1") == ("", "")
    assert known.put("d", "ud", "2") == ("ADDED", "")
    assert known.put("d", "ud", "2") == ("", "")
    assert len(known) == 4
    assert sorted(known.end_pass()) == [("a", "ua"), ("c", "uc")]
    assert not known.is_in_pass
    assert len(known) == 2


def test_an_abandoned_pass_forgets_nothing() -> None:
    known = KnownObjects()
    for name in "ab":
        known.put(name, f"u{name}", "1")
    known.begin_pass()
    known.put("b", "ub", "2")
    known.put("c", "uc", "3")
    known.begin_pass()
    assert known.put("a", "ua", "1") == ("", "")
    assert known.put("b", "ub", "2") == ("", "")
    known.abandon_pass()
    assert known.uid_of("c") == "uc"
    assert len(known) == 3


def test_an_entry_takes_less_than_300_bytes() -> None:
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
