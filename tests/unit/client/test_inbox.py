"""The box between readers and the loop."""

from __future__ import annotations

from kubesched.client.inbox import Change, Inbox
from kubesched.client.resources import PODS


def change(name: str) -> Change:
    return Change(PODS, "ADDED", f"ns/{name}", f"uid-{name}", None)


def test_changes_come_out_as_they_went_in_and_once() -> None:
    box = Inbox()
    for name in "cab":
        box.append(change(name))
    assert len(box) == 3
    assert [one.key for one in box.take()] == ["ns/c", "ns/a", "ns/b"]
    assert box.take() == []
    assert len(box) == 0


def test_the_first_into_the_empty_box_rings_and_no_other() -> None:
    rings: list[int] = []
    box = Inbox()
    box.on_arrival = lambda: rings.append(len(box))
    box.append(change("a"))
    box.append(change("b"))
    assert rings == [1]
    box.take()
    box.append(change("c"))
    assert rings == [1, 1]


def test_what_arrives_while_the_bell_rings_is_kept() -> None:
    box = Inbox()
    taken: list[Change] = []
    box.on_arrival = lambda: taken.extend(box.take())
    box.append(change("a"))
    box.append(change("b"))
    assert [one.key for one in taken] == ["ns/a", "ns/b"]
