"""Which parents hear of a change of a child."""

from __future__ import annotations

from typing import Any

from kubesched.client.cached.informers import Informer
from kubesched.client.resources import STATEFUL_SETS
from kubesched.controllers.claiming import owner_key, wake_parents
from kubesched.kit.log import NullLog
from tests.clock import StillClock
from tests.unit.controllers.workload_documents import Document, a_pod, a_stateful_set


def _parents(*names: str) -> Informer:
    informer = Informer(STATEFUL_SETS, StillClock(), NullLog())
    for number, name in enumerate(names, 1):
        parent = a_stateful_set()
        parent["metadata"] |= {"name": name, "uid": f"{name}-uid", "resourceVersion": str(number)}
        parent["spec"]["selector"] = {"matchLabels": {"app": name}}
        informer.noted(parent)
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
    wake_parents(parents, old, new, keys.append)
    return keys


def test_an_owner_is_known_by_kind_name_and_uid() -> None:
    parents = _parents("one")
    assert owner_key(parents, _pod("x", "one")) == "shop/one"
    assert owner_key(parents, _pod("x", "one", uid="earlier")) is None
    assert owner_key(parents, _pod("x", "one", kind="ReplicaSet")) is None
    assert owner_key(parents, _pod("x", "two")) is None
    assert owner_key(parents, _pod("one")) is None


def test_the_owner_hears_of_everything_and_nobody_else_does() -> None:
    parents = _parents("one", "two")
    mine = _pod("two", "one")
    assert _woken(parents, None, mine) == ["shop/one"]
    assert _woken(parents, mine, mine) == ["shop/one"]
    assert _woken(parents, mine, None) == ["shop/one"]


def test_an_owner_that_lost_a_child_hears_of_it() -> None:
    parents = _parents("one", "two")
    assert _woken(parents, _pod("x", "one"), _pod("x", "two")) == ["shop/one", "shop/two"]
    assert _woken(parents, _pod("two", "one"), _pod("two")) == ["shop/one", "shop/two"]


def test_those_who_may_want_an_orphan_hear_of_it() -> None:
    parents = _parents("one", "two")
    assert _woken(parents, None, _pod("two")) == ["shop/two"]
    assert _woken(parents, _pod("x"), _pod("two")) == ["shop/two"]
    # Nothing that matters to them has changed.
    assert _woken(parents, _pod("two"), _pod("two")) == []
    assert _woken(parents, _pod("two"), None) == []
    going = _pod("two")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert _woken(parents, None, going) == []


def test_an_empty_selector_wants_nobody() -> None:
    parents = _parents("one")
    parent = parents.get("shop/one")
    assert parent is not None
    parent["spec"]["selector"] = {}
    assert _woken(parents, None, _pod("one")) == []
