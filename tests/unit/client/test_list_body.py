"""Splitting a list into items while it arrives."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.client.watch.stream import ListBody

TEXTS = st.sampled_from(['"', "},{", '},{"a":', "]}", "\\", "é", '"items":[', "x"]) | st.text()
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.lists(st.fixed_dictionaries({"a": VALUES}) | st.dictionaries(TEXTS, VALUES), max_size=6)


def parsed(data: bytes, size: int) -> tuple[list[Any], str]:
    body, raws = ListBody(), []
    for start in range(0, len(data), size):
        raws += body.feed(data[start : start + size])
    page = body.finish()
    items = [json.loads(bytes(raw)) for raw in [*raws, *(page.items or [])]]
    return items, page.metadata.resource_version


@given(items=ITEMS, size=st.integers(1, 40), is_spaced=st.booleans(), is_last=st.booleans())
def test_items_do_not_depend_on_the_chunks(
    items: list[Any], size: int, is_spaced: bool, is_last: bool
) -> None:
    head = {"metadata": {"resourceVersion": "7"}}
    document = {"items": items, **head} if is_last else {**head, "items": items}
    separators = (", ", ": ") if is_spaced else (",", ":")
    data = json.dumps(document, separators=separators, ensure_ascii=False).encode(
        errors="surrogatepass"
    )
    assert parsed(data, size) == (items, "7")


def test_items_are_returned_before_the_end() -> None:
    items = [{"metadata": {"name": f"p{number}"}, "spec": {}} for number in range(100)]
    data = json.dumps({"items": items}, separators=(",", ":")).encode()
    body = ListBody()
    counts = [len(body.feed(data[start : start + 100])) for start in range(0, len(data), 100)]
    assert sum(counts) == 99
    assert max(counts) <= 4
    assert len(body.finish().items or []) == 1


def test_borders_inside_an_item_do_not_split_it() -> None:
    inner = [{"metadata": {"name": str(number)}} for number in range(50)]
    items = [{"metadata": {"name": "a"}, "templates": inner}, {"metadata": {"name": "b"}}] * 3
    data = json.dumps({"items": items}, separators=(",", ":")).encode()
    for size in (1, 50, 333, len(data)):
        assert parsed(data, size)[0] == items


@pytest.mark.parametrize("left_out", [1, 2, 10, 40])
def test_a_truncated_list_is_rejected(left_out: int) -> None:
    items = [{"metadata": {"name": f"p{number}"}} for number in range(5)]
    data = json.dumps({"items": items}, separators=(",", ":")).encode()[:-left_out]
    body = ListBody()
    raws = [bytes(raw) for raw in body.feed(data)]
    assert all(json.loads(raw) in items for raw in raws)
    with pytest.raises(msgspec.DecodeError):
        body.finish()
