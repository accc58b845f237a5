"""Buckets, versions and the history behind them."""

from __future__ import annotations

import pytest

from kubesched.cluster.apiserver.storage.store import Store
from kubesched.cluster.apiserver.storage.watch_cache import Change, ChangeType, Entry, TooOldError


def entry(store: Store, key: str, data: bytes = b"{}") -> Entry:
    return Entry(key, store.next_version(), data, {}, {})


def keys(store: Store, prefix: str = "", start: str = "") -> list[str]:
    return [entry.key for entry in store.bucket("things").range(prefix, start)]


def test_keys_come_in_the_order_of_their_text() -> None:
    store = Store()
    for key in ("b/x", "a/y", "a-b/x", "a/x"):
        store.put("things", entry(store, key))
    # As in etcd, where "-" comes before "/".
    assert keys(store) == ["a-b/x", "a/x", "a/y", "b/x"]
    assert keys(store, "a/") == ["a/x", "a/y"]
    assert keys(store, "a/", "a/x\0") == ["a/y"]
    first, last = store.bucket("things").between("a/")
    assert store.bucket("things").keys[first:last] == ["a/x", "a/y"]


def test_one_counter_for_all_buckets() -> None:
    store = Store(version=5)
    store.put("things", entry(store, "a"))
    store.put("others", entry(store, "a"))
    assert store.version == 7
    with pytest.raises(AssertionError):
        store.put("things", Entry("b", 7, b"{}", {}, {}))


def test_changes_since_a_version() -> None:
    store = Store()
    store.put("things", entry(store, "a"))
    store.put("others", entry(store, "z"))
    store.put("things", entry(store, "a"))
    store.delete("things", entry(store, "a"))
    history = store.bucket("things").history
    found = [(change.type, change.version) for change in history.since(1)]
    assert found == [(ChangeType.MODIFIED, 3), (ChangeType.DELETED, 4)]
    assert [change.version for change in history.since(0)] == [1, 3, 4]
    assert not keys(store)


def test_objects_at_a_version() -> None:
    store = Store()
    first = entry(store, "a")
    store.put("things", first)
    store.put("things", entry(store, "b"))
    store.put("things", entry(store, "a"))
    store.delete("things", entry(store, "a"))
    assert store.bucket("things").history.undone(1) == {"a": first, "b": None}


def test_a_history_does_not_go_back_before_its_bucket() -> None:
    store = Store(version=9)
    history = store.bucket("things").history
    with pytest.raises(TooOldError) as rejected:
        history.since(8)
    assert rejected.value.oldest == 9
    assert history.since(9) == []


def test_a_compacted_history() -> None:
    store = Store()
    for key in "abc":
        store.put("things", entry(store, key))
    history = store.bucket("things").history
    history.compact(2)
    assert [change.version for change in history.since(2)] == [3]
    with pytest.raises(TooOldError):
        history.since(1)


def test_a_history_drops_events_beyond_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubesched.cluster.apiserver.storage.watch_cache._BYTES_MAX", 10)
    store = Store()
    for key in "abcd":
        store.put("things", entry(store, key, b"12345"))
    history = store.bucket("things").history
    assert [change.version for change in history.since(2)] == [3, 4]
    assert history.floor == 2


def test_subscribers_get_changes_in_order() -> None:
    class Listener:
        def __init__(self) -> None:
            self.versions: list[int] = []

        def notice(self, change: Change) -> None:
            self.versions.append(change.version)

    store, listener = Store(), Listener()
    store.bucket("things").history.subscribers[listener] = None
    store.put("things", entry(store, "a"))
    store.put("others", entry(store, "a"))
    store.put("things", entry(store, "b"))
    assert listener.versions == [1, 3]
