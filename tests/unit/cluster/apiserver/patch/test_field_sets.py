"""The algebra of field sets."""

from typing import Any

import pytest

from kubesched.cluster.apiserver.patch.field_sets import (
    FieldSetError,
    canonical,
    difference,
    from_paths,
    has,
    intersection,
    path_text,
    paths,
    recursive_difference,
    union,
)

PARENT: dict[str, Any] = {"f:a": {}}
CHILD: dict[str, Any] = {"f:a": {"f:b": {}}}
BOTH: dict[str, Any] = {"f:a": {".": {}, "f:b": {}}}


def test_a_parent_and_its_child_are_separate_members() -> None:
    assert union(PARENT, CHILD) == BOTH
    assert union(CHILD, PARENT) == BOTH
    assert intersection(BOTH, PARENT) == PARENT
    assert intersection(BOTH, CHILD) == CHILD
    assert intersection(PARENT, CHILD) == {}
    assert difference(BOTH, PARENT) == CHILD
    assert difference(BOTH, CHILD) == PARENT
    assert difference(PARENT, CHILD) == PARENT
    assert difference(CHILD, BOTH) == {}


def test_recursive_difference_takes_children_with_their_parent() -> None:
    assert recursive_difference(BOTH, PARENT) == {}
    assert recursive_difference(BOTH, CHILD) == PARENT
    assert recursive_difference({"f:a": {"f:b": {}, "f:c": {}}}, CHILD) == {"f:a": {"f:c": {}}}


def test_members_come_level_by_level_in_order() -> None:
    fields = {
        "f:z": {},
        "f:l": {'k:{"p":10}': {".": {}, "f:x": {}}, 'k:{"p":9}': {}},
        "f:a": {'v:"q"': {}},
    }

    assert [path_text(path) for path in paths(fields)] == [
        ".z",
        '.a[="q"]',
        ".l[p=9]",
        ".l[p=10]",
        ".l[p=10].x",
    ]


def test_from_paths_and_has_agree() -> None:
    fields = from_paths(("a",), ("b", "c"))

    assert has(fields, ("f:a",))
    assert has(fields, ("f:b", "f:c"))
    assert not has(fields, ("f:b",))
    assert not has(fields, ("f:a", "f:x"))


def test_elements_have_one_spelling() -> None:
    sent: dict[str, Any] = {
        "f:l": {'k:{ "b": "2", "a":1}': {".": {}}, "x:new": {}, 'v:"<"': {}},
        ".": {},
    }

    assert canonical(sent) == {"f:l": {'k:{"a":1,"b":"2"}': {}, 'v:"\\u003c"': {}}}


@pytest.mark.parametrize("sent", [{"nocolon": {}}, {"k:x": {}}, {"i:x": {}}, {"f:a": 1}, []])
def test_an_invalid_set_is_rejected(sent: Any) -> None:
    with pytest.raises(FieldSetError):
        canonical(sent)
