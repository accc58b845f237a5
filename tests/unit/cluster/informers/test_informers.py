"""Informers: recorded writes are visible at once, and older versions are ignored."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.documents import Document
from kubesched.client.resources import PODS
from kubesched.client.watch.changes import Change
from kubesched.cluster.informers.informer import Informer
from kubesched.kit.log import NullLog, make_log
from tests.clock import StillClock
from tests.unit.kit.log_world import Pages


def _pod(name: str, version: int, *, uid: str = "", **metadata: Any) -> Document:
    about = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"}
    return {"metadata": {**about, "resourceVersion": str(version), **metadata}}


def _change(type_: str, pod: Document) -> Change:
    metadata = pod["metadata"]
    return Change(PODS, type_, f"ns/{metadata['name']}", metadata["uid"], pod)


@pytest.fixture
def notified() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def informer(notified: list[tuple[str, str]]) -> Informer:
    made = Informer(PODS, StillClock(), NullLog())

    def notify(old: Document | None, new: Document | None) -> None:
        versions = ["" if pod is None else pod["metadata"]["resourceVersion"] for pod in (old, new)]
        notified.append((versions[0], versions[1]))

    made.on_change(notify)
    return made


def test_recorded_writes_are_visible_and_notified_once(
    informer: Informer, notified: list[tuple[str, str]]
) -> None:
    informer.record_write(_pod("a", 5))
    assert informer.get("ns/a") is not None
    informer.apply_change(_change("ADDED", _pod("a", 5)))
    informer.apply_change(_change("MODIFIED", _pod("a", 7)))
    assert notified == [("", "5"), ("5", "7")]


def test_an_older_event_never_reverts_a_recorded_write(
    informer: Informer, notified: list[tuple[str, str]]
) -> None:
    informer.record_write(_pod("a", 9))
    informer.apply_change(_change("MODIFIED", _pod("a", 8)))
    assert notified == [("", "9")]


def test_a_late_response_does_not_restore_a_deleted_object(informer: Informer) -> None:
    informer.apply_change(_change("ADDED", _pod("a", 5)))
    informer.apply_change(_change("DELETED", _pod("a", 6)))
    informer.record_write(_pod("a", 5))
    assert informer.get("ns/a") is None
    assert len(informer) == 0


def test_a_recreated_object_is_another_object(
    informer: Informer, notified: list[tuple[str, str]]
) -> None:
    informer.apply_change(_change("ADDED", _pod("a", 5, uid="one")))
    informer.record_write(_pod("a", 8, uid="two"))
    informer.apply_change(_change("DELETED", _pod("a", 7, uid="one")))
    pod = informer.get("ns/a")
    assert pod is not None
    assert pod["metadata"]["uid"] == "two"
    assert notified == [("", "5"), ("5", ""), ("", "8")]


def test_indexes_follow_every_change(informer: Informer) -> None:
    owner = [{"uid": "rs", "controller": True}]
    informer.apply_change(_change("ADDED", _pod("a", 1, ownerReferences=owner)))
    informer.apply_change(_change("ADDED", _pod("b", 2)))
    assert [pod["metadata"]["name"] for pod in informer.owned_by("rs")] == ["a"]
    informer.apply_change(_change("MODIFIED", _pod("a", 3)))
    assert informer.owned_by("rs") == []
    assert len(informer.in_namespace("ns")) == 2
    informer.forget("ns/b", "uid-b")
    assert [pod["metadata"]["name"] for pod in informer.in_namespace("ns")] == ["a"]


def test_a_new_index_includes_existing_objects(informer: Informer) -> None:
    informer.apply_change(_change("ADDED", _pod("a", 1, labels={"app": "x"})))
    informer.add_index("app", lambda pod: (pod["metadata"].get("labels", {}).get("app", ""),))
    assert len(informer.by_index("app", "x")) == 1


def test_unconfirmed_writes_are_listed_after_a_delay() -> None:
    clock = StillClock()
    informer = Informer(PODS, clock, NullLog())
    informer.record_write(_pod("a", 5))
    assert informer.unconfirmed(10.0) == []
    clock.at_s = 11.0
    assert [pod["metadata"]["name"] for pod in informer.unconfirmed(10.0)] == ["a"]
    informer.apply_change(_change("ADDED", _pod("a", 5)))
    assert informer.unconfirmed(10.0) == []


def test_a_failing_handler_is_logged_and_others_run(
    notified: list[tuple[str, str]],
) -> None:
    pages = Pages()
    informer = Informer(PODS, StillClock(), make_log(pages, clock=StillClock()))

    def fail(old: Document | None, new: Document | None) -> None:
        raise ValueError("not today")

    informer.on_change(fail)
    informer.on_change(lambda _old, _new: notified.append(("", "notified")))
    informer.record_write(_pod("a", 5))
    assert notified == [("", "notified")]
    assert "not today" in pages.text
    assert 'resource="pods"' in pages.text
