"""Rows of many names at once: the same as one by one."""

from __future__ import annotations

from kubesched.cache.cache import Cache
from kubesched.objects.decode import decode_as
from kubesched.objects.node import Node


def a_node(name: str) -> Node:
    return decode_as(Node, b'{"metadata":{"name":"%b"}}' % name.encode())


def test_no_node_is_known_at_first() -> None:
    view = Cache().snapshot()
    assert view.rows_of([]).tolist() == []
    assert view.rows_of(["a", ""]).tolist() == [-1, -1]


def test_nodes_that_are_there_have_rows_and_those_that_went_have_none() -> None:
    cache = Cache()
    # Full to the last row, where a name that is unknown must not be found.
    names = [f"node-{number}" for number in range(16)]
    for name in names:
        cache.add_node(a_node(name))
    cache.remove_node("node-3")
    view = cache.snapshot()
    asked = ["node-15", "ghost", "node-3", "node-0", "node-15"]
    rows = view.rows_of(asked).tolist()
    assert rows == [view.row_of(name) for name in asked]
    assert [row >= 0 for row in rows] == [True, False, False, True, True]
