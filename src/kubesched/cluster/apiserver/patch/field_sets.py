"""Field sets, as `fieldsV1` encodes them.

A set is the decoded `fieldsV1` itself: a trie whose keys are path elements (`f:name`, `k:{...}`,
`v:...`, `i:0`). An empty node is a member; a node with children is one if it also holds `.`. Sets
are immutable and share structure.
Upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath/{set,element,serialize,serialize-pe}.go
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from kubesched.golang.strconv import go_quote

FieldSet: TypeAlias = dict[str, Any]

SELF: Final = "."
_LEAF: Final[FieldSet] = {}


class FieldSetError(ValueError):
    """Ambiguous or unparsable elements, with upstream's message."""


def is_member(node: FieldSet | None) -> bool:
    """Return whether the path of a node is in the set."""
    return node is not None and (not node or SELF in node)


def _node(children: FieldSet, *, member: bool) -> FieldSet | None:
    """Return a node; None if neither it nor its children are members."""
    if not children:
        return _LEAF if member else None
    return {SELF: {}, **children} if member else children


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the union."""
    if not other or one is other:
        return one
    if not one:
        return other
    result = dict(one)
    for key, node in other.items():
        mine = result.get(key)
        result[key] = node if mine is None or mine == node else _union_nodes(mine, node)
    return result


def _union_nodes(one: FieldSet, other: FieldSet) -> FieldSet:
    if not one:
        return other if SELF in other else {SELF: {}, **other}
    if not other:
        return one if SELF in one else {SELF: {}, **one}
    return union(one, other)


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the intersection."""
    result: FieldSet = {}
    for key, node in one.items():
        theirs = other.get(key)
        if key == SELF or theirs is None:
            continue
        children = intersection(node, theirs) if node and theirs else {}
        common = _node(children, member=is_member(node) and is_member(theirs))
        if common is not None:
            result[key] = common
    return result


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the difference; removing a parent keeps its children."""
    if not other:
        return one
    result: FieldSet = {}
    for key, node in one.items():
        if key == SELF:
            continue
        theirs = other.get(key)
        if theirs is None:
            result[key] = node
            continue
        children = _children(difference(node, theirs)) if node else {}
        rest = _node(children, member=is_member(node) and not is_member(theirs))
        if rest is not None:
            result[key] = rest
    return result


def recursive_difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the first set without the members of the second and all below them."""
    if not other:
        return one
    result: FieldSet = {}
    for key, node in one.items():
        if key == SELF:
            continue
        theirs = other.get(key)
        if theirs is None:
            result[key] = node
        elif not is_member(theirs):
            children = _children(recursive_difference(node, theirs)) if node else {}
            rest = _node(children, member=is_member(node))
            if rest is not None:
                result[key] = rest
    return result


def _children(node: FieldSet) -> FieldSet:
    if SELF in node:
        return {key: child for key, child in node.items() if key != SELF}
    return node


def has(one: FieldSet, path: tuple[str, ...]) -> bool:
    """Return whether a path is in the set."""
    node: FieldSet | None = one
    for element in path:
        if not node:
            return False
        node = node.get(element)
    return is_member(node)


def from_paths(*paths: tuple[str, ...]) -> FieldSet:
    """Return the set of paths of field names."""
    result: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path[1:]):
            node = {f"f:{name}": node}
        result = union(result, {f"f:{path[0]}": node})
    return result


def paths(one: FieldSet) -> Iterator[tuple[str, ...]]:
    """Return the members of a set in upstream's order: those of a level before deeper ones."""
    keys = sorted((key for key in one if key != SELF), key=_order)
    for key in keys:
        if is_member(one[key]):
            yield (key,)
    for key in keys:
        for path in paths(one[key]):
            yield (key, *path)


def path_text(path: tuple[str, ...]) -> str:
    """Format a path."""
    return "".join(element_text(element) for element in path)


def element_text(element: str) -> str:
    """Format a path element."""
    kind, value = element[0], element[2:]
    if kind == "f":
        return f".{value}"
    if kind == "i":
        return f"[{value}]"
    decoded = msgspec.json.decode(value)
    if kind == "v":
        return f"[={value_text(decoded)}]"
    return f"[{','.join(f'{name}={value_text(decoded[name])}' for name in sorted(decoded))}]"


def value_text(value: Any) -> str:
    """Format a value in a path as upstream does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, list):
        return f"[{','.join(value_text(part) for part in value)}]"
    if isinstance(value, dict):
        return "".join(f"{name}={value_text(part)}" for name, part in value.items())
    return str(value)


_KIND_ORDER: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


def _order(element: str) -> tuple[Any, ...]:
    kind, value = element[0], element[2:]
    rank = _KIND_ORDER[kind]
    if kind == "f":
        return (rank, value)
    if kind == "i":
        return (rank, int(value))
    decoded = msgspec.json.decode(value)
    if kind == "v":
        return (rank, _value_order(decoded))
    return (rank, tuple((name, _value_order(decoded[name])) for name in sorted(decoded)))


def _value_order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (3, str(value))


def _json(value: Any) -> str:
    text = msgspec.json.encode(value, order="deterministic").decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@lru_cache(maxsize=1 << 16, typed=True)
def value_element(value: Any) -> str:
    """Return the path element of an element of a set."""
    return f"v:{_json(value)}"


@lru_cache(maxsize=1 << 16, typed=True)
def key_element(names: tuple[str, ...], *values: Any) -> str:
    """Return the path element of an element with keys, as pairs of names and values."""
    pairs = sorted(zip(names, values, strict=True))
    return "k:{" + ",".join(f"{_json(name)}:{_json(value)}" for name, value in pairs) + "}"


def canonical(fields: Any) -> FieldSet:
    """Parse and normalize a set; raise FieldSetError if it is invalid."""
    node = _read(fields)
    return _children(node) if node else {}


def _read(fields: Any) -> FieldSet:
    if not isinstance(fields, dict):
        raise FieldSetError("expected a map")
    children: FieldSet = {}
    for key, value in fields.items():
        if key == SELF:
            continue
        element = _canonical_element(key)
        if element is not None:
            children[element] = _read(value)
    if children and SELF in fields:
        return {SELF: {}, **children}
    return children


@lru_cache(maxsize=1 << 14)
def _canonical_element(element: str) -> str | None:
    """Return the normalized element; None for an unknown kind."""
    if len(element) < 2 or element[1] != ":":
        raise FieldSetError(f"missing colon: {element}")
    kind, value = element[0], element[2:]
    if kind == "f":
        return element
    if kind not in _KIND_ORDER:
        return None
    try:
        if kind == "i":
            return f"i:{int(value)}"
        decoded = msgspec.json.decode(value)
        if kind == "v":
            return value_element(decoded)
        names = tuple(decoded)
        return key_element(names, *(decoded[name] for name in names))
    except (ValueError, TypeError, msgspec.DecodeError) as error:
        raise FieldSetError(f"parsing key as path element: {error}") from None
