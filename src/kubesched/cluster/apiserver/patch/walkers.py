"""Walks the fields of a type: one walker per type.

Defines, for each type, which parts of a value are fields of their own, how list elements are
identified, and which fields differ between two values. Walkers are built once per type. Documents
must conform to their type.
Upstream: sigs.k8s.io/structured-merge-diff/v6/typed/{compare,tofieldset,helpers}.go,
k8s.io/kube-openapi/pkg/schemaconv/smd.go
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kubesched.api.schema.types import Field, ListOf, MapOf, Scalar, ScalarKind, Struct, Type
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.patch.field_sets import (
    SELF,
    FieldSet,
    FieldSetError,
    key_element,
    value_element,
)


class Comparison(NamedTuple):
    """The fields in which a second value differs; None if there are none.

    They are nodes of field sets: an empty node stands for the value itself.
    """

    removed: FieldSet | None
    modified: FieldSet | None
    added: FieldSet | None


_MEMBER: Final[FieldSet] = {}
"""A member without children; shared, since sets are immutable."""
_MODIFIED: Final = Comparison(None, _MEMBER, None)


class Walker:
    """Walker of a value that is owned as a whole: a scalar, an atomic list, map or struct."""

    __slots__ = ("empty", "is_leaf", "type")

    def __init__(self, of: Type | None) -> None:
        self.type = of
        self.is_leaf = type(self) is Walker
        self.empty: Document | None = None
        """An empty object of this type, created on demand."""

    def child(self, element: str) -> Walker:
        """Return the walker of a part, by its path element."""
        return DEDUCED

    def names(self, element: str) -> bool:
        """Return whether a path element is a declared field."""
        return False

    def whole(self, value: Any) -> FieldSet:
        """Return the fields that are added or removed with a value, including the value itself."""
        return _MEMBER

    def compare(self, old: Any, new: Any) -> Comparison | None:
        """Return the fields in which two values differ; None if they are equal."""
        return None if old == new else _MODIFIED

    def fields(self, value: Any) -> FieldSet | None:
        """Return the fields owned by applying a value; None if there are none."""
        return {}


class StructWalker(Walker):
    """Walker of a struct or map, whose fields or keys are owned separately."""

    __slots__ = ("by_name", "other")

    def __init__(self, of: Type | None, other: Walker | None) -> None:
        super().__init__(of)
        self.by_name: dict[str, tuple[str, Walker, bool]] = {}
        """Path element and walker of each declared field, and whether that is a leaf."""
        self.other = other
        """Walker of undeclared fields."""

    def _found(self, name: str) -> tuple[str, Walker, bool]:
        found = self.by_name.get(name)
        if found is None:
            walker = self.other or DEDUCED
            return (f"f:{name}", walker, walker.is_leaf)
        return found

    def child(self, element: str) -> Walker:
        return self._found(element[2:])[1]

    def names(self, element: str) -> bool:
        return element[:2] == "f:" and element[2:] in self.by_name

    def whole(self, value: Any) -> FieldSet:
        if not value:
            return _MEMBER
        if not isinstance(value, dict):
            raise FieldSetError("expected map")
        node: FieldSet = {SELF: _MEMBER}
        by_name = self.by_name
        for name, part in value.items():
            found = by_name.get(name)
            if found is None:
                found = self._found(name)
            node[found[0]] = _MEMBER if found[2] else found[1].whole(part)
        return node

    def compare(self, old: Any, new: Any) -> Comparison | None:
        if old == new:
            return None
        if not old and not new:
            return _MODIFIED  # null and empty differ, but neither has parts
        _check_maps(old, new)
        removed: FieldSet = {}
        modified: FieldSet = {}
        added: FieldSet = {}
        for name, part in (new or {}).items():
            element, walker, is_leaf = self._found(name)
            if old is None or name not in old:
                added[element] = _MEMBER if is_leaf else walker.whole(part)
            elif is_leaf:
                if old[name] != part:
                    modified[element] = _MEMBER
            else:
                found = walker.compare(old[name], part)
                if found is not None:
                    _merge_comparison(element, found, removed, modified, added)
        for name, part in (old or {}).items():
            if new is None or name not in new:
                element, walker, _ = self._found(name)
                removed[element] = walker.whole(part)
        return Comparison(removed or None, modified or None, added or None)

    def fields(self, value: Any) -> FieldSet | None:
        if not value:
            return None
        node: FieldSet = {}
        for name, part in value.items():
            element, walker, _ = self._found(name)
            below = walker.fields(part)
            # Parity: tofieldset.go visitMapItems: a declared field that holds others is not itself
            # owned; a key of a map is, and so are null and empty values.
            if part is None or part == {} or name not in self.by_name:
                below = {SELF: {}, **below} if below else {}
            if below is not None:
                node[element] = below
        return node or None


def _check_maps(*values: Any) -> None:
    if not all(value is None or isinstance(value, dict) for value in values):
        raise FieldSetError("expected map")


def _merge_comparison(
    element: str, found: Comparison, removed: FieldSet, modified: FieldSet, added: FieldSet
) -> None:
    if found[0] is not None:
        removed[element] = found[0]
    if found[1] is not None:
        modified[element] = found[1]
    if found[2] is not None:
        added[element] = found[2]


class ListWalker(Walker):
    """Walker of a list, whose elements are identified by keys or, in a set, by value."""

    __slots__ = ("_defaults", "_keys", "element")

    def __init__(self, of: ListOf) -> None:
        super().__init__(of)
        self._keys = of.keys if of.list_type == "map" else ()
        self._defaults = of.key_defaults
        self.element: Walker = DEDUCED

    def child(self, element: str) -> Walker:
        return self.element

    def element_of(self, value: Any) -> str:
        """Return the path element of an element of the list."""
        keys = self._keys
        if not keys:
            return _set_element(value)
        if value is None:
            raise FieldSetError("associative list with keys may not have a null element")
        if not isinstance(value, dict):
            raise FieldSetError("associative list with keys may not have non-map elements")
        try:
            if len(keys) == 1:
                return key_element(keys, value[keys[0]])
            return key_element(keys, *(value[key] for key in keys))
        except KeyError:
            return self._partial_element(value)

    def _partial_element(self, value: dict[str, Any]) -> str:
        found = {key: value.get(key, self._defaults.get(key)) for key in self._keys}
        names = tuple(key for key in found if key in value or found[key] is not None)
        if not names:
            quoted = " ".join(f'"{key}"' for key in self._keys)
            raise FieldSetError(
                "associative list with keys has an element that omits all key fields "
                f"[{quoted}] (and doesn't have default values for any key fields)"
            )
        return key_element(names, *(found[name] for name in names))

    def grouped(self, values: Any) -> dict[str, list[Any]]:
        """Return the elements of a list by path element, in order."""
        groups: dict[str, list[Any]] = {}
        if not isinstance(values or [], list):
            raise FieldSetError("expected list")
        for value in values or ():
            groups.setdefault(self.element_of(value), []).append(value)
        return groups

    def whole(self, value: Any) -> FieldSet:
        if not value:
            return _MEMBER
        if not isinstance(value, list):
            raise FieldSetError("expected list")
        node: FieldSet = {SELF: _MEMBER}
        walker = self.element
        for part in value:
            element = self.element_of(part)
            # Duplicate elements are ambiguous: they are owned together.
            node[element] = {} if element in node else walker.whole(part)
        return node

    def compare(self, old: Any, new: Any) -> Comparison | None:
        if old == new:
            return None
        if not old and not new:
            return _MODIFIED
        olds, news = self.grouped(old), self.grouped(new)
        removed: FieldSet = {}
        modified: FieldSet = {}
        added: FieldSet = {}
        for element, theirs in news.items():
            ours = olds.get(element)
            if ours is None:
                added[element] = {} if len(theirs) > 1 else self.element.whole(theirs[0])
                continue
            found = self._compare_groups(ours, theirs)
            if found is not None:
                _merge_comparison(element, found, removed, modified, added)
        for element, ours in olds.items():
            if element not in news:
                removed[element] = {} if len(ours) > 1 else self.element.whole(ours[0])
        return Comparison(removed or None, modified or None, added or None)

    def _compare_groups(self, ours: list[Any], theirs: list[Any]) -> Comparison | None:
        """Compare elements of one name; parity: compare.go visitListItems."""
        if len(ours) == 1 and len(theirs) == 1:
            return self.element.compare(ours[0], theirs[0])
        if len(ours) > 1 and len(theirs) > 1:
            return None if ours == theirs else _MODIFIED
        if len(ours) > 1:
            return Comparison({}, None, self.element.whole(theirs[0]))
        return Comparison(self.element.whole(ours[0]), None, {})

    def fields(self, value: Any) -> FieldSet | None:
        node: FieldSet = {}
        for element, parts in self.grouped(value).items():
            below = self.element.fields(parts[0]) if len(parts) == 1 else None
            node[element] = {SELF: {}, **below} if below else {}
        return node or None


def _set_element(value: Any) -> str:
    if isinstance(value, dict):
        raise FieldSetError("associative list without keys has an element that's a map type")
    if isinstance(value, list):
        raise FieldSetError("not supported: associative list with lists as elements")
    if value is None:
        raise FieldSetError("associative list without keys has an element that's an explicit null")
    return value_element(value)


class DeducedWalker(StructWalker):
    """Walker of an untyped value: fields of maps are owned separately, all else as a whole."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, self)

    def whole(self, value: Any) -> FieldSet:
        return super().whole(value) if isinstance(value, dict) else _MEMBER

    def compare(self, old: Any, new: Any) -> Comparison | None:
        if old == new:
            return None
        if (old is None or isinstance(old, dict)) and (new is None or isinstance(new, dict)):
            return super().compare(old, new)
        # Parity: compare.go compare: values of different shapes are compared separately.
        removed = _children_of(super().whole(old)) if isinstance(old, dict) else None
        added = _children_of(super().whole(new)) if isinstance(new, dict) else None
        if isinstance(new, dict):
            return Comparison(None, {}, added)
        return Comparison(removed, {}, None)

    def fields(self, value: Any) -> FieldSet | None:
        return super().fields(value) if value is None or isinstance(value, dict) else {}


def _children_of(node: FieldSet) -> FieldSet | None:
    return {key: child for key, child in node.items() if key != SELF} or None


DEDUCED: Final = DeducedWalker()


def walker_of(of: Struct | None) -> Walker:
    """Return the walker of a kind, built on first use."""
    return DEDUCED if of is None else _struct_walker(of)


def _struct_walker(of: Struct) -> Walker:
    walker = of.walker
    if walker is None:
        if of.is_atomic:
            walker = of.walker = Walker(of)
        else:
            walker = of.walker = StructWalker(of, DEDUCED if of.keeps_unknown else None)
            for name, field in of.fields.items():
                below = _walker(field.type)
                walker.by_name[name] = (f"f:{name}", below, below.is_leaf)
    found: Walker = walker
    return found


def _walker(of: Type) -> Walker:
    if isinstance(of, Scalar):
        # Free-form values of custom resources have no Go type; RawExtension, which has, is atomic.
        is_free = of.kind is ScalarKind.ANY and not of.go
        return DEDUCED if is_free else Walker(of)
    if isinstance(of, Struct):
        return _struct_walker(of)
    if isinstance(of, MapOf):
        return Walker(of) if of.is_atomic else StructWalker(of, _walker(of.value))
    if of.list_type == "atomic":
        return Walker(of)
    walker = ListWalker(of)
    walker.element = _walker(of.element)
    return walker


def empty_document(of: Struct | None) -> Document:
    """Return the fields that Go always encodes for a kind.

    The caller must not modify the result.
    """
    if of is None:
        return {}
    walker = walker_of(of)
    if walker.empty is None:
        walker.empty = _empty_struct(of)
    return walker.empty


_ZEROES: Final[dict[ScalarKind, Any]] = {
    ScalarKind.STRING: "",
    ScalarKind.BOOL: False,
    ScalarKind.INT32: 0,
    ScalarKind.INT64: 0,
    ScalarKind.FLOAT: 0,
    ScalarKind.QUANTITY: "0",
    ScalarKind.INT_OR_STRING: 0,
    ScalarKind.DURATION: "0s",
}


def _empty_struct(of: Struct) -> Document:
    document: Document = {}
    for name, field in of.fields.items():
        kind = field.type
        if isinstance(kind, Struct):
            if not field.is_pointer and not field.omit_zero:
                document[name] = _empty_struct(kind)
            elif field.is_pointer and not field.omit_empty:
                document[name] = None
        elif not field.omit_empty or _is_written_as_null(field):
            document[name] = None
            if isinstance(kind, Scalar) and not field.is_pointer:
                document[name] = _ZEROES.get(kind.kind)
    return document


def _is_written_as_null(field: Field) -> bool:
    """Return whether Go encodes an unset field as null: a time, which is a struct."""
    kind = field.type
    return (
        isinstance(kind, Scalar)
        and kind.kind in (ScalarKind.TIME, ScalarKind.MICRO_TIME)
        and not field.is_pointer
        and not field.omit_zero
    )
