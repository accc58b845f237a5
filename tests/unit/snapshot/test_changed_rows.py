"""The rows that changed since a stamp: each row once, however old the stamp is."""

import pytest

from kubesched.cache.cache import Cache
from kubesched.snapshot import change_log
from tests.unit.builders import a_cache, a_pod

NODE_COUNT = 12


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setattr(change_log, "LENGTH_MAX", 4)
    return a_cache(*(f"n{number}" for number in range(NODE_COUNT)))


def test_rows_changed_since_every_stamp(cache: Cache) -> None:
    view = cache.snapshot()
    rows_by_stamp: dict[int, int] = {}
    for number, node in enumerate([3, 1, 3, 3, 7, 1, 0, 11, 11, 2, 5, 8, 8, 1, 3, 9, 4, 6, 10, 0]):
        rows_by_stamp[view.stamp] = view.row_of(f"n{node}")
        cache.add_pod(a_pod(f"p{number}", nodeName=f"n{node}"))
        for seen in rows_by_stamp:
            expected = {row for stamp, row in rows_by_stamp.items() if stamp >= seen}
            assert sorted(view.rows_changed_since(seen).tolist()) == sorted(expected)
    assert view.rows_changed_since(view.stamp).tolist() == []


def test_returned_rows_do_not_change_later(cache: Cache) -> None:
    view, seen = cache.snapshot(), cache.snapshot().stamp
    cache.add_pod(a_pod("first", nodeName="n2"))
    rows = view.rows_changed_since(seen)
    for number in range(20):
        cache.add_pod(a_pod(f"p{number}", nodeName="n5"))
    assert rows.tolist() == [view.row_of("n2")]
