"""Validates an instance against its schema, with ratcheting on update.

CEL rules are not evaluated.
Upstream: k8s.io/kube-openapi pkg/validation/validate,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/{validation,schema/listtype}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.crd.formats import fits_format
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from kubesched.golang.strconv import go_quote

Schema = dict[str, Any]
NOT_THERE: Final = object()
"""Marks a missing old value."""


@dataclass(slots=True)
class _Result:
    """Errors and match count; of several schemas, the best match reports its errors."""

    problems: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, other: _Result) -> None:
        self.problems += other.problems
        self.count += other.count


def value_problems(
    value: Any, schema: Schema, *, root: str = "", old: Any = NOT_THERE
) -> list[Problem]:
    """Return the errors of a value, except in parts that are unchanged from the old value.

    Errors have paths below `root`, the path of the value in its object.
    """
    found = _Validator(root).check(value, schema, "", old)
    return found.problems


class _Validator:
    """Validation of one value."""

    def __init__(self, root: str) -> None:
        self._root = root

    def _place(self, path: str) -> str:
        trimmed = path.removeprefix(".")
        if not self._root:
            return trimmed or "<nil>"
        return f"{self._root}.{trimmed}" if trimmed else self._root

    def _composite(self, text: str) -> Problem:
        return invalid(self._root or "<nil>", "", text)

    def check(self, value: Any, schema: Schema, path: str, old: Any = NOT_THERE) -> _Result:
        """Validate a value against a schema."""
        if old is not NOT_THERE and _same(value, old):
            return _Result(count=1)
        result = _Result()
        result.add(self._type(value, schema, path))
        if value is None:
            result.add(self._enum(value, schema, path))
            return result
        result.count += 1
        result.add(self._junctors(value, schema, path, old))
        result.count += 1
        if isinstance(value, str):
            result.add(self._text(value, schema, path))
        elif isinstance(value, bool):
            pass
        elif isinstance(value, int | float):
            result.add(self._number(value, schema, path))
        elif isinstance(value, list):
            result.add(self._list(value, schema, path, old))
        result.add(self._enum(value, schema, path))
        if isinstance(value, dict):
            result.add(self._object(value, schema, path, old))
        result.count += 1
        return result

    def _type(self, value: Any, schema: Schema, path: str) -> _Result:
        types = _types(schema)
        if not types:
            return _Result()
        found = _json_type(value)
        if value is None:
            is_right = bool(schema.get("nullable"))
        else:
            is_whole = isinstance(value, float) and value.is_integer()
            is_right = (
                found in types
                or (found == "integer" and "number" in types)
                or (is_whole and "integer" in types)
                or (isinstance(value, str) and _is_checked_by_format(schema, types))
            )
        if is_right:
            return _Result(count=1)
        text = f"{path} in body must be of type {','.join(types)}: {go_quote(found)}"
        return _Result([type_invalid(self._place(path), found, text)])

    def _junctors(self, value: Any, schema: Schema, path: str, old: Any) -> _Result:
        result = _Result(count=1)
        self._any_of(result, value, schema.get("anyOf") or (), path, old)
        self._one_of(result, value, schema.get("oneOf") or (), path, old)
        self._all_of(result, value, schema.get("allOf") or (), path, old)
        forbidden = schema.get("not")
        if forbidden is not None and not self.check(value, forbidden, path, old).problems:
            text = f"{go_quote(path)} must not validate the schema (not)"
            result.problems.append(self._composite(text))
        return result

    def _any_of(self, result: _Result, value: Any, schemas: Any, path: str, old: Any) -> None:
        if not schemas:
            return
        best: _Result | None = None
        for schema in schemas:
            one = self.check(value, schema, path, old)
            if not one.problems:
                result.count += one.count
                return
            if best is None or one.count > best.count:
                best = one
        text = f"{go_quote(path)} must validate at least one schema (anyOf)"
        result.problems.append(self._composite(text))
        if best is not None:
            result.add(best)

    def _one_of(self, result: _Result, value: Any, schemas: Any, path: str, old: Any) -> None:
        if not schemas:
            return
        valid_count = 0
        best: _Result | None = None
        for schema in schemas:
            one = self.check(value, schema, path, old)
            if not one.problems:
                valid_count += 1
                best = None
            elif valid_count == 0 and (best is None or one.count > best.count):
                best = one
        if valid_count == 1:
            return
        found = f"Found {valid_count} valid alternatives" if valid_count else "Found none valid"
        text = f"{go_quote(path)} must validate one and only one schema (oneOf). {found}"
        result.problems.append(self._composite(text))
        if best is not None:
            result.add(best)

    def _all_of(self, result: _Result, value: Any, schemas: Any, path: str, old: Any) -> None:
        if not schemas:
            return
        parts = [self.check(value, schema, path, old) for schema in schemas]
        for part in parts:
            result.add(part)
        failed_count = sum(bool(part.problems) for part in parts)
        if failed_count:
            note = ". None validated" if failed_count == len(parts) else ""
            text = f"{go_quote(path)} must validate all the schemas (allOf){note}"
            result.problems.append(self._composite(text))

    def _text(self, value: str, schema: Schema, path: str) -> _Result:
        place = self._place(path)
        longest, shortest = schema.get("maxLength"), schema.get("minLength")
        pattern, form = schema.get("pattern"), schema.get("format")
        result = _Result()
        if longest is not None and len(value) > longest:
            result.problems.append(too_long(place, longest))
        elif shortest is not None and len(value) < shortest:
            text = f"{path} in body should be at least {shortest} chars long"
            result.problems.append(invalid(place, value, text))
        elif pattern and not _pattern(pattern).search(value):
            text = f"{path} in body should match '{pattern}'"
            result.problems.append(invalid(place, value, text))
        if form and not fits_format(form, value):
            text = f"{path} in body must be of type {form}: {go_quote(value)}"
            result.problems.append(type_invalid(place, value, text))
        return result

    def _number(self, value: float, schema: Schema, path: str) -> _Result:
        place = self._place(path)
        result = _Result(count=1)
        if schema.get("type") == "integer":
            self._integer_range(result, value, schema.get("format"), path)
        factor = schema.get("multipleOf")
        if factor is not None:
            self._multiple_of(result, value, factor, path)
        for limit, text in _limit_problems(value, schema):
            whole = f"{path} in body should be {text} {_limit_text(limit, value)}"
            result.problems.append(invalid(place, value, whole))
        return result

    def _integer_range(self, result: _Result, value: float, form: str | None, path: str) -> None:
        if form == "int32" and not -(2**31) <= value < 2**31:
            text = f"Checked value must be of type integer with format int32 in {path}"
        elif isinstance(value, float) and not value.is_integer():
            suffix = f"with format {form}" if form in {"int32", "int64"} else "(default format)"
            text = f"Checked value must be of type integer {suffix} in {path}"
        else:
            return
        result.problems.append(self._composite(text))

    def _multiple_of(self, result: _Result, value: float, factor: float, path: str) -> None:
        # Parity: validate/values.go MultipleOfNativeType, v1.36: it is truncated for integers.
        factor = int(factor) if isinstance(value, int) else factor
        if factor <= 0:
            text = f"factor MultipleOf declared for {path} must be positive: {factor}"
            result.problems.append(invalid(self._place(path), factor, text))
        elif not float(value / factor).is_integer():
            text = f"{path} in body should be a multiple of {_limit_text(factor, value)}"
            result.problems.append(invalid(self._place(path), value, text))

    def _list(self, value: list[Any], schema: Schema, path: str, old: Any) -> _Result:
        place = self._place(path)
        result = _Result(count=1)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, one in enumerate(value):
                before = _old_item(one, schema, old)
                result.add(self.check(one, items, f"{path}[{index}]", before))
        fewest, most = schema.get("minItems"), schema.get("maxItems")
        if fewest is not None and len(value) < fewest:
            text = f"{path} in body should have at least {fewest} items"
            result.problems.append(invalid(place, len(value), text))
        if most is not None and len(value) > most:
            result.problems.append(too_many(place, len(value), most))
        return result

    def _enum(self, value: Any, schema: Schema, path: str) -> _Result:
        allowed = schema.get("enum")
        if not allowed or any(_same(value, one) for one in allowed):
            return _Result(count=1)
        texts = [one if isinstance(one, str) else _json(one) for one in allowed]
        return _Result([not_supported(self._place(path), value, texts)])

    def _object(self, value: Document, schema: Schema, path: str, old: Any) -> _Result:
        result = _Result()
        properties = schema.get("properties") or {}
        self._property_count(result, value, schema, path)
        extra = schema.get("additionalProperties")
        for key in value:
            if key in properties:
                continue
            if extra is False:
                text = f"{path}.{key} in body is a forbidden property"
                result.problems.append(invalid(self._place(path), key, text))
            elif isinstance(extra, dict):
                result.add(self.check(value[key], extra, f"{path}.{key}", _old_part(old, key)))
        for key, part in sorted(properties.items()):
            if key in value:
                below = f"{path}.{key}" if path else key
                result.add(self.check(value[key], part, below, _old_part(old, key)))
        for key in schema.get("required") or ():
            if key not in value:
                result.problems.append(required(self._place(f"{path}.{key}")))
        return result

    def _property_count(self, result: _Result, value: Document, schema: Schema, path: str) -> None:
        fewest, most = schema.get("minProperties"), schema.get("maxProperties")
        if fewest is not None and len(value) < fewest:
            text = f"{path} in body should have at least {fewest} properties"
            result.problems.append(invalid(self._place(path), len(value), text))
        if most is not None and len(value) > most:
            result.problems.append(too_many(self._place(path), len(value), most))


def _types(schema: Schema) -> list[str]:
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    kind = schema.get("type")
    return [kind] if kind else []


def _is_checked_by_format(schema: Schema, types: list[str]) -> bool:
    return bool(schema.get("format")) and not {"number", "integer"} & set(types)


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names[type(value)]


def _limit_problems(value: float, schema: Schema) -> Iterator[tuple[float, str]]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None:
        if schema.get("exclusiveMinimum") and value <= least:
            yield least, "greater than"
        elif value < least:
            yield least, "greater than or equal to"
    if most is not None:
        if schema.get("exclusiveMaximum") and value >= most:
            yield most, "less than"
        elif value > most:
            yield most, "less than or equal to"


def _limit_text(limit: float, value: float) -> str:
    """Return a limit as Go prints it: an integer for an integer value, else a float."""
    if isinstance(value, int):
        return str(int(limit))
    exponent = f"{float(limit):e}".partition("e")[2]
    if -4 <= int(exponent) < 21:
        return str(int(limit)) if float(limit).is_integer() else repr(float(limit))
    return f"{float(limit)!r}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; unlike in Python, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


def _old_part(old: Any, key: str) -> Any:
    return old.get(key, NOT_THERE) if isinstance(old, dict) else NOT_THERE


def _old_item(item: Any, schema: Schema, old: Any) -> Any:
    """Return the old value of an element of a list map; other lists have none."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return NOT_THERE
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    key = _key_of(item, keys)
    return next((element for element in old if _key_of(element, keys) == key), NOT_THERE)


def _key_of(item: Any, keys: Any) -> Any:
    return [item.get(key) for key in keys] if isinstance(item, dict) else None


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """Compile a Go pattern; a pattern that Python cannot compile matches everything."""
    # Differs: Python does not support \\z, \\pL and [[:alpha:]]; only \\z is translated.
    try:
        return re.compile(text.replace(r"\z", r"\Z"))
    except re.error:
        return re.compile("")


def list_problems(value: Any, schema: Schema | None, path: str = "") -> list[Problem]:
    """Return the errors of duplicate elements in list sets and list maps."""
    # Parity: schema/listtype/validation.go ValidateListSetsAndMaps, v1.36
    if schema is None:
        return []
    problems: list[Problem] = []
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for key, one in value.items():
            if isinstance(extra, dict):
                problems += list_problems(one, extra, f"{path}[{key}]")
            if key in properties:
                problems += list_problems(one, properties[key], f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        problems += _duplicates(value, schema, path)
        for index, one in enumerate(value):
            problems += list_problems(one, schema.get("items"), f"{path}[{index}]")
    return problems


def _duplicates(value: list[Any], schema: Schema, path: str) -> list[Problem]:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        keys: list[Any] = value
    elif kind == "map":
        names = schema.get("x-kubernetes-list-map-keys") or ()
        for index, one in enumerate(value):
            if one is not None and not isinstance(one, dict):
                text = "must be an object for an array of list-type map"
                return [invalid(f"{path}[{index}]", one, text)]
        keys = [{name: (one or {})[name] for name in names if name in (one or {})} for one in value]
    else:
        return []
    seen: dict[bytes, int] = {}
    problems = []
    for index, key in enumerate(keys):
        encoded = msgspec.json.encode([key], order="deterministic")
        seen[encoded] = seen.get(encoded, 0) + 1
        if seen[encoded] == 2:
            problems.append(duplicate(f"{path}[{index}]", key))
    return problems
