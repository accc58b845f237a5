"""Rows of many node names at once equal the rows of single names."""

from __future__ import annotations

from kubesched.api.decode import decode_as
from kubesched.api.node import Node
from kubesched.cache.cache import Cache


def a_node(name: str) -> Node:
    return decode_as(Node, b'{"metadata":{"name":"%b"}}' % name.encode())


def test_unknown_names_have_no_rows() -> None:
    view = Cache().snapshot()
    assert view.rows_of([]).tolist() == []
    assert view.rows_of(["a", ""]).tolist() == [-1, -1]


def test_present_nodes_have_rows_and_removed_nodes_have_none() -> None:
    cache = Cache()
    # The table is full: an unknown name must not read the last row.
    names = [f"node-{number}" for number in range(16)]
    for name in names:
        cache.add_node(a_node(name))
    cache.remove_node("node-3")
    view = cache.snapshot()
    names = ["node-15", "ghost", "node-3", "node-0", "node-15"]
    rows = view.rows_of(names).tolist()
    assert rows == [view.row_of(name) for name in names]
    assert [row >= 0 for row in rows] == [True, False, False, True, True]
