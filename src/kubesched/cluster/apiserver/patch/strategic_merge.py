"""Strategic merge patch: $patch, $retainKeys, $setElementOrder, $deleteFromPrimitiveList.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go,
staging/src/k8s.io/apimachinery/third_party/forked/golang/json/fields.go
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.api.schema.types import Field, ListOf, MapOf, Scalar, Struct, Type
from kubesched.cluster.apiserver.documents import Document, copy_of
from kubesched.cluster.apiserver.errors import (
    ApiError,
    bad_request,
    invalid,
    invalid_object,
    rejected,
)
from kubesched.cluster.apiserver.patch.element_order import ordered_by
from kubesched.golang.fmt import go_type, go_value
from kubesched.golang.json import json_type

_PATCH: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList"
_ORDER_PREFIX: Final = "$setElementOrder"

_BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"
_BAD_DELETE: Final = "invalid patch format of primitive list"


def apply_strategic_merge(of: Struct | None, document: Document, patch: Any) -> Document:
    """Return a copy of the document with a decoded patch merged into it."""
    if of is None:
        raise bad_request("strategic merge patch format is not supported")
    if patch is not None and not isinstance(patch, dict):
        raise bad_request(
            f"json: cannot unmarshal {json_type(patch)} into Go value "
            "of type map[string]interface {}"
        )
    return _merged_maps(of, copy_of(document), copy_of(patch or {}))


def invalid_result(patch: Any, detail: str) -> ApiError:
    """Return the error for a patch whose result does not decode."""
    return invalid_object("", "", "", [invalid("patch", go_value(patch), detail)])


def _failed(message: str) -> ApiError:
    return ApiError(500, "", message)


def _merged_maps(of: Type, original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Merge a patch into a map; both may be modified."""
    if _PATCH in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(of, original, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE_PREFIX):
            name = _name_after(key, _DELETE_PREFIX, _BAD_DELETE)
            _merge_field(of, original, name, value, deletes=True)
        else:
            _merge_field(of, original, key, value, deletes=False)
    return original


def _merge_field(
    of: Type, original: dict[str, Any], name: str, value: Any, *, deletes: bool
) -> None:
    if value is None:
        original.pop(name, None)
        return
    if name not in original or type(original[name]) is not type(value):
        if not deletes:
            _discard_nulls(value)
            _store(original, name, value)
    elif isinstance(value, dict):
        field = _field(of, name)
        if _strategy(field) == "replace":
            original[name] = value
        else:
            original[name] = _merged_maps(field.type, original[name], value)
    elif isinstance(value, list):
        element, field = _element(of, name)
        original[name] = _merged_lists(element, field, original[name], value, deletes=deletes)
    else:
        _store(original, name, value)


def _store(original: dict[str, Any], name: str, value: Any) -> None:
    kept, keep = _without_directives(value)
    if keep:
        original[name] = kept
    else:
        original.pop(name, None)


def _directed(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch[_PATCH]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    raise _bad_directive(directive, patch)


def _bad_directive(directive: Any, patch: dict[str, Any]) -> ApiError:
    printed = directive
    if not isinstance(directive, str):
        printed = f"%!s({go_type(directive)}={go_value(directive)})"
    return _failed(f"unknown patch type: {printed} in map: {go_value(patch)}")


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN_KEYS not in patch:
        return
    retained = patch.pop(_RETAIN_KEYS)
    if not isinstance(retained, list):
        raise bad_request(_BAD_RETAIN_KEYS)
    for key, value in patch.items():
        if value is None or key.startswith((_DELETE_PREFIX, _ORDER_PREFIX)):
            continue
        if key not in retained:
            raise bad_request(_BAD_RETAIN_KEYS)
    for key in [key for key in original if key not in retained]:
        del original[key]


def _name_after(key: str, prefix: str, problem: str) -> str:
    start, slash, name = key.partition("/")
    if not slash or start != prefix:
        raise bad_request(problem)
    return name


def _merge_ordered_lists(of: Type, original: dict[str, Any], patch: dict[str, Any]) -> None:
    """Merge lists with $setElementOrder, and remove both from the patch."""
    # Parity: patch.go mergePatchIntoOriginal
    for key in [key for key in patch if key.startswith(_ORDER_PREFIX)]:
        order = patch.pop(key)
        if not isinstance(order, list):
            raise _bad_type("[]interface {}", order)
        name = _name_after(key, _ORDER_PREFIX, _BAD_ORDER)
        live, sent = _list_in(original, name), _list_in(patch, name)
        element, field = _element(of, name)
        _check_order(sent or [], order, field.merge_key)
        if live is None and sent is None:
            continue
        if sent is None:
            merged: list[Any] = live or []
        elif live is None:
            merged = _without_directives(sent)[0]
        else:
            merged = _merged_lists(element, field, copy_of(live), copy_of(sent), deletes=False)
        _same_type(live or [], sent or [])
        original[name] = _ordered(merged, order, live or [], field.merge_key)
        patch.pop(name, None)


def _list_in(values: dict[str, Any], name: str) -> list[Any] | None:
    if name not in values:
        return None
    value = values[name]
    if not isinstance(value, list):
        raise _bad_type("[]interface {}", value)
    return value


def _bad_type(expected: str, actual: Any) -> ApiError:
    return _failed(f"expected a {expected}, but received a {go_type(actual)}")


def _no_merge_key(value: dict[str, Any], key: str) -> ApiError:
    return _failed(f"map: {go_value(value)} does not contain declared merge key: {key}")


def _check_order(sent: list[Any], order: list[Any], merge_key: str) -> None:
    """Reject a patch list that contradicts its $setElementOrder."""
    # Parity: patch.go validatePatchWithSetOrderList
    if not sent or not order:
        return
    kept = sent
    if merge_key:
        for value in sent:
            if not isinstance(value, dict):
                raise _bad_type("map[string]interface {}", value)
        kept = [value for value in sent if value.get(_PATCH) != "delete"]
    at = 0
    position = 0
    while at < len(kept) and position < len(order):
        if isinstance(kept[at], dict) and _PATCH in kept[at]:
            at += 1
            continue
        if _key_of(kept[at], merge_key) == _key_of(order[position], merge_key):
            at += 1
        position += 1
    if at < len(kept) and position >= len(order):
        raise _failed(
            f"The order in patch list:\n{go_value(sent)}\n doesn't match {_ORDER_PREFIX} list:\n"
            f"{go_value(order)}\n"
        )


def _key_of(value: Any, merge_key: str) -> Any:
    if not merge_key:
        return value
    if not isinstance(value, dict):
        raise _bad_type("map[string]interface {}", value)
    if merge_key not in value:
        raise _no_merge_key(value, merge_key)
    return value[merge_key]


def _merged_lists(
    element: Type, field: Field, original: list[Any], patch: list[Any], *, deletes: bool
) -> list[Any]:
    if _strategy(field) != "merge" and not deletes:
        return patch
    if not original and not patch:
        return original
    if not _same_type(original, patch):
        if deletes:
            return [value for value in original if value not in patch]
        distinct = list(dict.fromkeys([*original, *patch]))
        return _ordered(distinct, patch, original, field.merge_key)
    if not field.merge_key:
        kind = "struct" if isinstance(element, Struct) else "map"
        raise _failed(f"cannot merge lists without merge key for {kind}")
    original, patch = _special_elements(original, patch, field.merge_key)
    merged = _merged_elements(element, list(original), patch, field.merge_key)
    return _ordered(merged, patch, original, field.merge_key)


def _ordered(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Return merged elements in order; reject elements without a merge key."""
    # Parity: patch.go partitionMapsByPresentInList, validateMergeKeyInLists
    if merge_key:
        for value in merged:
            _key_of(value, merge_key)
            for index, one in enumerate(order):
                if not isinstance(one, dict):
                    raise _failed(f"value for key {index} is not a map")
                if one.get(merge_key) == value[merge_key]:
                    break
        for value in (*order, *live):
            _key_of(value, merge_key)
    return ordered_by(merged, order, live, merge_key)


def _same_type(*lists: list[Any]) -> bool:
    """Return whether list elements are maps; reject mixed lists."""
    values = [value for one in lists for value in one]
    if not values:
        raise _failed("no elements in any of the given slices")
    if isinstance(values[0], list):
        raise rejected()
    if any(type(value) is not type(values[0]) for value in values):
        raise _failed(f"list element types are not identical: {go_value(list(lists))}")
    return isinstance(values[0], dict)


def _special_elements(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any]]:
    """Apply the directives among the elements of a patch; return both lists without them."""
    plain_elements: list[Any] = []
    replaces = False
    for value in patch:
        if _PATCH not in value:
            plain_elements.append(value)
        elif value[_PATCH] == "delete":
            if merge_key not in value:
                raise _no_merge_key(value, merge_key)
            original = [one for one in original if one.get(merge_key) != value[merge_key]]
        elif value[_PATCH] == "replace":
            replaces = True
        elif value[_PATCH] == "merge":
            raise _failed("merging lists cannot yet be specified in the patch")
        else:
            raise _bad_directive(value[_PATCH], value)
    return (plain_elements, []) if replaces else (original, plain_elements)


def _merged_elements(
    element: Type, original: list[Any], patch: list[Any], merge_key: str
) -> list[Any]:
    for value in patch:
        if merge_key not in value:
            raise _no_merge_key(value, merge_key)
        for index, mine in enumerate(original):
            if merge_key in mine and mine[merge_key] == value[merge_key]:
                original[index] = _merged_maps(element, mine, value)
                break
        else:
            original.append(value)
    return original


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, part in value.items() if part is None]:
            del value[key]
        for part in value.values():
            _discard_nulls(part)
    elif isinstance(value, list):
        for part in value:
            _discard_nulls(part)


def _without_directives(value: Any) -> tuple[Any, bool]:
    """Return the value of a new field without directives, and whether to keep the field."""
    if isinstance(value, dict):
        if _PATCH in value:
            return None, False
        kept = {key: _without_directives(part) for key, part in value.items()}
        return {key: part for key, (part, keep) in kept.items() if keep}, True
    if isinstance(value, list):
        parts = [_without_directives(part) for part in value]
        return [part for part, keep in parts if keep], True
    return value, True


def _strategy(field: Field) -> str:
    return next((strategy for strategy in field.patch_strategies if strategy != "retainKeys"), "")


def _field(of: Type, name: str) -> Field:
    if not isinstance(of, Struct):
        raise _failed(
            "merging an object in json but data type is not struct, instead is: " + _go_kind(of)
        )
    field = of.fields.get(name) or next(
        (one for key, one in of.fields.items() if key.lower() == name.lower()), None
    )
    if field is None:
        struct = of.name.rpartition(".")[2]
        raise _failed(f'unable to find api field in struct {struct} for the json field "{name}"')
    return field


def _go_kind(of: Type) -> str:
    if isinstance(of, MapOf):
        return "map"
    if isinstance(of, Scalar):
        return {"bool": "bool", "string": "string"}.get(str(of.kind), str(of.kind))
    return "slice"


def _element(of: Type, name: str) -> tuple[Type, Field]:
    field = _field(of, name)
    if not isinstance(field.type, ListOf):
        raise _failed("expected slice or array type, but got: struct")
    return field.type.element, field
