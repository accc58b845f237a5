"""Objects of one kind, by key."""

import pytest
from msgspec.structs import replace

from kubesched.api.kinds import KINDS
from kubesched.api.meta import LabelSelector
from kubesched.api.namespace import Namespace
from kubesched.api.pod import Pod
from kubesched.api.workloads import ReplicaSet, ReplicaSetSpec
from kubesched.snapshot.object_store import ObjectStore, ObjectStores


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


def test_a_field_that_no_rule_reads_does_not_move_the_epoch() -> None:
    stores = ObjectStores()
    selected = ReplicaSetSpec(selector=LabelSelector(match_labels={"app": "web"}), replicas=1)
    stores.store_of(ReplicaSet).put("team/web", ReplicaSet(spec=selected))
    seen = stores.store_of(ReplicaSet).epoch, stores.change_count
    scaled = ReplicaSet(spec=replace(selected, replicas=2))
    stores.store_of(ReplicaSet).put("team/web", scaled)
    assert (stores.store_of(ReplicaSet).epoch, stores.change_count) == seen
    assert stores.store_of(ReplicaSet).get("team/web") is scaled
    stores.store_of(ReplicaSet).put("team/web", ReplicaSet(spec=replace(selected, selector=None)))
    assert stores.store_of(ReplicaSet).epoch > seen[0]
    assert stores.change_count > seen[1]


def test_an_unknown_key_returns_none() -> None:
    assert ObjectStore[str]().get("x") is None


def test_each_kind_has_a_store_and_nodes_and_pods_have_none() -> None:
    stores = ObjectStores()
    kinds = [stores.store_of(kind.struct) for kind in KINDS if kind.struct and kind.store]
    assert len(set(map(id, kinds))) == len(kinds) == 14
    assert stores.store_of(Namespace) in kinds
    with pytest.raises(KeyError):
        stores.store_of(Pod)
