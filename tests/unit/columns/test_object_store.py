"""Objects of one kind, by key."""

import pytest

from kubesched.columns.object_store import ObjectStore, ObjectStores
from kubesched.objects.namespace import Namespace
from kubesched.objects.pod import Pod


def test_iteration_is_by_key_whatever_the_order_of_arrival() -> None:
    store: ObjectStore[str] = ObjectStore()
    for key in ("b", "c", "a"):
        store.put(key, key.upper())
    assert list(store) == ["A", "B", "C"]
    store.put("aa", "AA")
    store.remove("b")
    assert list(store) == ["A", "AA", "C"]
    assert len(store) == 3


def test_the_epoch_moves_with_every_change_and_only_then() -> None:
    store: ObjectStore[str] = ObjectStore()
    seen = [store.epoch]
    store.put("a", "1")
    seen.append(store.epoch)
    store.put("a", "2")
    seen.append(store.epoch)
    store.remove("a")
    seen.append(store.epoch)
    assert seen == sorted(set(seen))
    store.remove("a")
    store.get("a")
    list(store)
    assert store.epoch == seen[-1]


def test_a_namespace_is_not_the_prefix_of_another() -> None:
    store: ObjectStore[int] = ObjectStore()
    for number, key in enumerate(("team/b", "team-2/a", "team/a", "other/team")):
        store.put(key, number)
    assert list(store.in_namespace("team")) == [2, 0]
    assert list(store.in_namespace("tea")) == []


def test_an_unknown_key_gives_nothing() -> None:
    assert ObjectStore[str]().get("x") is None


def test_each_kind_has_a_store_and_nodes_and_pods_have_none() -> None:
    stores = ObjectStores()
    assert stores.store_of(Namespace) is stores.namespaces
    with pytest.raises(KeyError):
        stores.store_of(Pod)
