"""Objects of one kind, by key."""

import pytest
from msgspec.structs import replace

from kubesched.columns.object_store import ObjectStore, ObjectStores
from kubesched.objects.meta import LabelSelector
from kubesched.objects.namespace import Namespace
from kubesched.objects.pod import Pod
from kubesched.objects.workloads import ReplicaSet, ReplicaSetSpec


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


def test_what_no_rule_reads_does_not_move_the_epoch() -> None:
    stores = ObjectStores()
    selected = ReplicaSetSpec(selector=LabelSelector(match_labels={"app": "web"}), replicas=1)
    stores.replica_sets.put("team/web", ReplicaSet(spec=selected))
    seen = stores.replica_sets.epoch, stores.change_count
    scaled = ReplicaSet(spec=replace(selected, replicas=2))
    stores.replica_sets.put("team/web", scaled)
    assert (stores.replica_sets.epoch, stores.change_count) == seen
    assert stores.replica_sets.get("team/web") is scaled
    stores.replica_sets.put("team/web", ReplicaSet(spec=replace(selected, selector=None)))
    assert stores.replica_sets.epoch > seen[0]
    assert stores.change_count > seen[1]


def test_an_unknown_key_gives_nothing() -> None:
    assert ObjectStore[str]().get("x") is None


def test_each_kind_has_a_store_and_nodes_and_pods_have_none() -> None:
    stores = ObjectStores()
    assert stores.store_of(Namespace) is stores.namespaces
    with pytest.raises(KeyError):
        stores.store_of(Pod)
