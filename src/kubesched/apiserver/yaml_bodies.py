"""YAML bodies, as the JSON they stand for.

Owns which plain words are numbers, booleans and nulls (YAML 1.1, as Go's yaml.v2 reads it), and
keys given twice. Never evaluates a tag that makes anything but JSON.
Upstream: sigs.k8s.io/yaml YAMLToJSON, go.yaml.in/yaml/v2 resolve.go
"""

from __future__ import annotations

import base64
import math
import re
from typing import Any, Final

import yaml

from kubesched.objects.field_errors import go_quote

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Differs: upstream weighs aliases against what they make; a body has this many parts at most.
_NODES_MAX: Final = 500_000
_DEPTH_MAX: Final = 300


class NotYamlError(Exception):
    """A text that is not YAML, or not what JSON can hold; the text says why."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def decode_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Return the first document of a YAML text as JSON, and the texts about keys given twice."""
    try:
        node = _compose(data)
    except yaml.YAMLError as error:
        raise NotYamlError(_text_of(error, data)) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise NotYamlError("yaml: control characters are not allowed") from error
    if node is None:
        return None, []
    reader = _Reader()
    value = reader.read(node, 0)
    if not reader.doubled:
        return value, []
    lines = "\n".join(
        f"  line {line}: key {key} already set in map" for line, key in reader.doubled
    )
    return value, [f"yaml: unmarshal errors:\n{lines}"]


def _compose(data: bytes) -> Any:
    _check_depth(data)
    loader = _Base(data)
    try:
        # Only the first document counts, as upstream's decoder reads one.
        return loader.get_node() if loader.check_node() else None
    finally:
        loader.dispose()


def _check_depth(data: bytes) -> None:
    """Refuse what is nested so deep that composing it would overflow the C stack."""
    # Whatever opens a level has one of these; most bodies have too few of them to be deep.
    if sum(data.count(mark) for mark in (b"[", b"{", b"-", b":", b"?")) <= _DEPTH_MAX:
        return
    loader, depth = _Base(data), 0
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _DEPTH_MAX:
                    raise NotYamlError("yaml: exceeded max depth")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentEndEvent):
                return
    finally:
        loader.dispose()


def _text_of(error: yaml.YAMLError, data: bytes) -> str:
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    mark = getattr(error, "problem_mark", None)
    if problem.startswith("found undefined alias"):
        return f"yaml: unknown anchor '{_alias_at(data, mark)}' referenced"
    # Parity: yaml.v2 decode.go parser.fail: the first line is not named, and only scanner errors
    # count from one.
    line = mark.line if mark else 0
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"


def _alias_at(data: bytes, mark: Any) -> str:
    lines = data.decode("utf-8", "replace").splitlines()
    rest = lines[mark.line][mark.column :] if mark and mark.line < len(lines) else ""
    found = re.match(r"\*([^\s,\[\]{}]+)", rest)
    return found[1] if found else ""


class _Reader:
    """One reading of one document's nodes."""

    def __init__(self) -> None:
        self.doubled: list[tuple[int, str]] = []
        self._count = 0

    def read(self, node: Any, depth: int) -> Any:
        """Return a node's value."""
        self._count += 1
        if self._count > _NODES_MAX:
            raise NotYamlError("yaml: document contains excessive aliasing")
        if depth > _DEPTH_MAX:
            raise NotYamlError("yaml: exceeded max depth")
        if isinstance(node, yaml.SequenceNode):
            return [self.read(one, depth + 1) for one in node.value]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, depth)
        return _scalar(node)

    def _mapping(self, node: Any, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge" and key_node.value == "<<":
                self._merge(merged, value_node, depth)
                continue
            key = _key(key_node)
            if key in made:
                shown = go_quote(key)
                self.doubled.append((key_node.start_mark.line + 1, shown))
            made[key] = self.read(value_node, depth + 1)
        return {**merged, **made} if merged else made

    def _merge(self, into: dict[str, Any], node: Any, depth: int) -> None:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        # The first of several wins.
        for part in reversed(parts):
            if not isinstance(part, yaml.MappingNode):
                raise NotYamlError("yaml: map merge requires map or sequence of maps as the value")
            into.update(self._mapping(part, depth + 1))


def _key(node: Any) -> str:
    """Return a key as JSON has it: a text, whatever YAML takes it for."""
    if not isinstance(node, yaml.ScalarNode):
        raise NotYamlError("yaml: invalid map key")
    value = _scalar(node)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_BOOLS: Final = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NULLS: Final = {"", "~", "null", "Null", "NULL"}
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]*|[1-9][0-9]*)")
_SPECIAL: Final = {".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF"}


def _scalar(node: Any) -> Any:
    """Return what a scalar stands for: quoted ones are texts."""
    text: str = node.value
    tag = node.tag.removeprefix("tag:yaml.org,2002:")
    is_plain = node.style is None or node.style == ""
    if tag == "binary":
        return base64.b64decode(text).decode("utf-8", "replace")
    if not is_plain or (tag == "str" and _would_be(text) != node.tag):
        return text
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    return _number(text)


def _would_be(text: str) -> Any:
    """Return the tag a plain text has without one, to see that it carries one."""
    return _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))


_RESOLVER: Final[Any] = yaml.SafeLoader("")


def _number(text: str) -> Any:
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        sign = -1 if plain.startswith("-") else 1
        number = sign * _magnitude(plain.lstrip("+-"))
        return number if -(2**63) <= number < 2**64 else float(number)
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        if math.isinf(value):
            raise NotYamlError(f"json: unsupported value: {'+' if value > 0 else '-'}Inf")
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    if text.lstrip("+-") in _SPECIAL:
        shown = "NaN" if "n" in text.lower()[-1:] and "a" in text.lower() else "+Inf"
        raise NotYamlError(f"json: unsupported value: {shown}")
    return text


def _magnitude(digits: str) -> int:
    lowered = digits.lower()
    if lowered.startswith(("0x", "0b", "0o")):
        return int(lowered, 0)
    if len(digits) > 100:
        return 2**70
    return int(digits, 8) if digits.startswith("0") and len(digits) > 1 else int(digits)
