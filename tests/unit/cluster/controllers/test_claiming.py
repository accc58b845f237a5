"""The parents that a change of a child enqueues."""

from __future__ import annotations

from typing import Any

from kubesched.client.resources import STATEFUL_SETS
from kubesched.cluster.controllers.controller_refs import enqueue_parents, resolve_owner_key
from kubesched.cluster.informers.informer import Informer
from kubesched.kit.log import NullLog
from tests.clock import StillClock
from tests.unit.cluster.controllers.workload_documents import Document, a_pod, a_stateful_set


def _parents(*names: str) -> Informer:
    informer = Informer(STATEFUL_SETS, StillClock(), NullLog())
    for number, name in enumerate(names, 1):
        parent = a_stateful_set()
        parent["metadata"] |= {"name": name, "uid": f"{name}-uid", "resourceVersion": str(number)}
        parent["spec"]["selector"] = {"matchLabels": {"app": name}}
        informer.record_write(parent)
    return informer


def _pod(app: str, owner: str = "", uid: str = "", kind: str = "StatefulSet") -> Document:
    pod = a_pod("some-0")
    pod["metadata"]["labels"] = {"app": app}
    if owner:
        reference: dict[str, Any] = {"kind": kind, "name": owner, "controller": True}
        pod["metadata"]["ownerReferences"] = [{**reference, "uid": uid or f"{owner}-uid"}]
    return pod


def _woken(parents: Informer, old: Document | None, new: Document | None) -> list[str]:
    keys: list[str] = []
    enqueue_parents(parents, keys.append, old, new)
    return keys


def test_an_owner_is_resolved_by_kind_name_and_uid() -> None:
    parents = _parents("one")
    assert resolve_owner_key(parents, _pod("x", "one")) == "shop/one"
    assert resolve_owner_key(parents, _pod("x", "one", uid="earlier")) is None
    assert resolve_owner_key(parents, _pod("x", "one", kind="ReplicaSet")) is None
    assert resolve_owner_key(parents, _pod("x", "two")) is None
    assert resolve_owner_key(parents, _pod("one")) is None


def test_only_the_owner_is_enqueued() -> None:
    parents = _parents("one", "two")
    mine = _pod("two", "one")
    assert _woken(parents, None, mine) == ["shop/one"]
    assert _woken(parents, mine, mine) == ["shop/one"]
    assert _woken(parents, mine, None) == ["shop/one"]


def test_an_owner_that_lost_a_child_is_enqueued() -> None:
    parents = _parents("one", "two")
    assert _woken(parents, _pod("x", "one"), _pod("x", "two")) == ["shop/one", "shop/two"]
    assert _woken(parents, _pod("two", "one"), _pod("two")) == ["shop/one", "shop/two"]


def test_matching_parents_of_an_orphan_are_enqueued() -> None:
    parents = _parents("one", "two")
    assert _woken(parents, None, _pod("two")) == ["shop/two"]
    assert _woken(parents, _pod("x"), _pod("two")) == ["shop/two"]
    # Nothing that matters to them has changed.
    assert _woken(parents, _pod("two"), _pod("two")) == []
    assert _woken(parents, _pod("two"), None) == []
    going = _pod("two")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert _woken(parents, None, going) == []


def test_an_empty_selector_matches_nothing() -> None:
    parents = _parents("one")
    parent = parents.get("shop/one")
    assert parent is not None
    parent["spec"]["selector"] = {}
    assert _woken(parents, None, _pod("one")) == []
