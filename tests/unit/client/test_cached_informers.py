"""An informer knows what its own process wrote at once, and never goes back in time."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.client.cached.documents import Document
from kubesched.client.cached.informers import Informer
from kubesched.client.change import Change
from kubesched.client.resources import PODS
from kubesched.kit.log import NullLog, make_log
from tests.clock import StillClock
from tests.unit.kit.log_world import Pages


def _pod(name: str, version: int, *, uid: str = "", **metadata: Any) -> Document:
    about = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"}
    return {"metadata": {**about, "resourceVersion": str(version), **metadata}}


def _told(type_: str, pod: Document) -> Change:
    metadata = pod["metadata"]
    return Change(PODS, type_, f"ns/{metadata['name']}", metadata["uid"], pod)


@pytest.fixture
def heard() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def informer(heard: list[tuple[str, str]]) -> Informer:
    made = Informer(PODS, StillClock(), NullLog())

    def hear(old: Document | None, new: Document | None) -> None:
        versions = ["" if one is None else one["metadata"]["resourceVersion"] for one in (old, new)]
        heard.append((versions[0], versions[1]))

    made.on_change(hear)
    return made


def test_own_writes_are_known_before_the_watch_tells_and_told_once(
    informer: Informer, heard: list[tuple[str, str]]
) -> None:
    informer.noted(_pod("a", 5))
    assert informer.get("ns/a") is not None
    informer.take(_told("ADDED", _pod("a", 5)))
    informer.take(_told("MODIFIED", _pod("a", 7)))
    assert heard == [("", "5"), ("5", "7")]


def test_an_older_event_never_undoes_what_we_wrote(
    informer: Informer, heard: list[tuple[str, str]]
) -> None:
    informer.noted(_pod("a", 9))
    informer.take(_told("MODIFIED", _pod("a", 8)))
    assert heard == [("", "9")]


def test_what_is_gone_does_not_come_back_by_a_late_answer(informer: Informer) -> None:
    informer.take(_told("ADDED", _pod("a", 5)))
    informer.take(_told("DELETED", _pod("a", 6)))
    informer.noted(_pod("a", 5))
    assert informer.get("ns/a") is None
    assert len(informer) == 0


def test_a_successor_of_the_same_name_is_another_object(
    informer: Informer, heard: list[tuple[str, str]]
) -> None:
    informer.take(_told("ADDED", _pod("a", 5, uid="one")))
    informer.noted(_pod("a", 8, uid="two"))
    informer.take(_told("DELETED", _pod("a", 7, uid="one")))
    found = informer.get("ns/a")
    assert found is not None
    assert found["metadata"]["uid"] == "two"
    assert heard == [("", "5"), ("5", ""), ("", "8")]


def test_indexes_follow_every_change(informer: Informer) -> None:
    owner = [{"uid": "rs", "controller": True}]
    informer.take(_told("ADDED", _pod("a", 1, ownerReferences=owner)))
    informer.take(_told("ADDED", _pod("b", 2)))
    assert [one["metadata"]["name"] for one in informer.owned_by("rs")] == ["a"]
    informer.take(_told("MODIFIED", _pod("a", 3)))
    assert informer.owned_by("rs") == []
    assert len(informer.in_namespace("ns")) == 2
    informer.forget("ns/b", "uid-b")
    assert [one["metadata"]["name"] for one in informer.in_namespace("ns")] == ["a"]


def test_an_index_added_later_knows_what_was_there(informer: Informer) -> None:
    informer.take(_told("ADDED", _pod("a", 1, labels={"app": "x"})))
    informer.add_index("app", lambda pod: (pod["metadata"].get("labels", {}).get("app", ""),))
    assert len(informer.by("app", "x")) == 1


def test_what_the_watch_never_told_of_is_named_after_a_while() -> None:
    clock = StillClock()
    informer = Informer(PODS, clock, NullLog())
    informer.noted(_pod("a", 5))
    assert informer.unconfirmed(10.0) == []
    clock.at_s = 11.0
    assert [one["metadata"]["name"] for one in informer.unconfirmed(10.0)] == ["a"]
    informer.take(_told("ADDED", _pod("a", 5)))
    assert informer.unconfirmed(10.0) == []


def test_a_handler_that_fails_is_named_and_the_others_hear_all_the_same(
    heard: list[tuple[str, str]],
) -> None:
    pages = Pages()
    informer = Informer(PODS, StillClock(), make_log(pages, clock=StillClock()))

    def fail(old: Document | None, new: Document | None) -> None:
        raise ValueError("not today")

    informer.on_change(fail)
    informer.on_change(lambda _old, _new: heard.append(("", "told")))
    informer.noted(_pod("a", 5))
    assert heard == [("", "told")]
    assert "not today" in pages.text
    assert 'resource="pods"' in pages.text
