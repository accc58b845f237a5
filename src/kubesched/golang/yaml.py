"""YAML, read into the JSON values that Go's YAML library makes of it.

Owns the parser and its error texts, anchors, merge keys, key conversion and the strict check for
repeated keys. Scalars are resolved in `yaml_scalars`, documents are written in `yaml_output`.

Go's scanner is a port of libyaml's, so that the messages are the same. Later versions of libyaml
read plain scalars in brackets and braces differently, which is undone here. The Python parser is
the fallback where PyYAML was built without libyaml.
Upstream: sigs.k8s.io/yaml yaml.go over go.yaml.in/yaml/v2 scannerc.go, parserc.go and decode.go
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import yaml
from yaml import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    StreamEndEvent,
)

from kubesched.golang.encoding_base64 import decode_base64
from kubesched.golang.fmt import go_syntax
from kubesched.golang.json import DEPTH_MAX
from kubesched.golang.strconv import go_float
from kubesched.golang.yaml_scalars import BINARY, MERGE, Resolved, YamlError, resolve

__all__ = ["YamlError", "decode_yaml"]

_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_COLON_PROBLEM: Final = "found unexpected ':'"
_CLOSING: Final = {"{": "}", "[": "]"}
_PRIVATE_USE: Final = range(0xE000, 0xF900)
_ALIAS_RATIO_LOW: Final = 400_000
_ALIAS_RATIO_HIGH: Final = 4_000_000


def decode_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Return the first document as JSON values with sorted keys, and the strict errors.

    Raises:
        YamlError: With Go's text.
    """
    root = _compose(data)
    if root is None:
        return None, []
    decoder = _Decoder()
    value = decoder.document(root)
    if decoder.is_odd:
        value = _to_json(value)
    if not decoder.repeated:
        return value, []
    return value, ["yaml: unmarshal errors:\n  " + "\n  ".join(decoder.repeated)]


# -- from text to nodes ---------------------------------------------------------------------------


class _Collection:
    """A mapping, its keys and values in turn, or a sequence."""

    __slots__ = ("children", "is_mapping", "start")

    def __init__(self, start: Event) -> None:
        self.start = start
        self.is_mapping = start.__class__ is MappingStartEvent
        self.children: list[_Node] = []


class _Alias(NamedTuple):
    """A reference to an anchored node."""

    start: Event
    name: str
    node: _Node


_Node: TypeAlias = "ScalarEvent | _Collection | _Alias"


def _compose(data: bytes) -> _Node | None:
    """Return the root node of the first document; None if there is none."""
    placeholder = ""
    while True:
        try:
            loader = _PARSER(data or b"\n")
            try:
                return _Composer(data, placeholder).compose(loader.get_event)
            finally:
                loader.dispose()
        except yaml.MarkedYAMLError as error:
            text = _text(data) if error.problem == _COLON_PROBLEM else ""
            place = error.problem_mark.index if error.problem_mark is not None else 0
            if text[place : place + 1] != ":":
                raise YamlError(_problem(error)) from None
            # Parity: scannerc.go yaml_parser_scan_plain_scalar: in `{a:[b]}` the colon belongs to
            # the scalar. A character that the text lacks takes its place, and parsing starts again.
            placeholder = placeholder or next(
                chr(code) for code in _PRIVATE_USE if chr(code) not in text
            )
            data = (text[:place] + placeholder + text[place + 1 :]).encode()
        except (yaml.reader.ReaderError, UnicodeDecodeError) as error:
            raise YamlError(f"yaml: {error.reason}") from None


class _Composer:
    """Builds nodes from the events of one document."""

    def __init__(self, data: bytes, placeholder: str) -> None:
        self._data = data
        self._placeholder = placeholder
        self._must_check_scalars = bool(placeholder) or b"?" in data or b"\0" in data
        self._anchors: dict[str, _Node] = {}
        self._open: list[_Collection] = []

    def compose(self, get_event: Callable[[], Event | None]) -> _Node | None:
        """Return the root node."""
        # The document is the only item of the outermost list.
        roots: list[_Node] = []
        children = roots
        while True:
            event = get_event()
            if event.__class__ is ScalarEvent:
                if self._must_check_scalars:
                    self._check_scalar(event)
                if event.anchor is not None:
                    self._anchors[event.anchor] = event
                children.append(event)
            elif isinstance(event, CollectionStartEvent):
                children.append(self._opened(event))
                children = self._open[-1].children
            elif isinstance(event, CollectionEndEvent):
                self._open.pop()
                children = self._open[-1].children if self._open else roots
            elif isinstance(event, AliasEvent):
                children.append(self._alias(event))
            elif isinstance(event, DocumentStartEvent):
                _check_version(event)
            elif event is None or isinstance(event, DocumentEndEvent | StreamEndEvent):
                return roots[0] if roots else None

    def _opened(self, event: CollectionStartEvent) -> _Collection:
        node = _Collection(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._open.append(node)
        if len(self._open) > DEPTH_MAX:
            raise YamlError("yaml: exceeded max depth of 10000")
        return node

    def _alias(self, event: AliasEvent) -> _Alias:
        name = str(event.anchor)
        if name not in self._anchors:
            raise YamlError(f"yaml: unknown anchor '{name}' referenced")
        return _Alias(event, name, self._anchors[name])

    def _check_scalar(self, event: ScalarEvent) -> None:
        """Restore colons; YamlError at a question mark where Go's parser expects an end.

        Parity: scannerc.go yaml_parser_scan_plain_scalar: in `{a: b?c}` a question mark starts a
        key, though there is no comma before it.
        """
        if self._placeholder:
            event.value = event.value.replace(self._placeholder, ":")
        if "?" not in event.value or event.style or not self._open:
            return
        opened = [node.start for node in self._open]
        if not getattr(opened[-1], "flow_style", False):
            return
        text = _text(self._data)
        place = text.find("?", *_span(event))
        # A pair in brackets without braces of its own is a mapping that nothing opens.
        around = next(start for start in reversed(opened) if _span(start)[0] < _span(start)[1])
        line = text.count("\n", 0, place) or _line(around)
        # The bracket comes last, after an anchor and a tag.
        closing = _CLOSING[text[_span(around)[1] - 1]]
        raise YamlError(_at_line(line, f"did not find expected ',' or '{closing}'"))


def _check_version(event: DocumentStartEvent) -> None:
    """Reject a %YAML directive of another version than 1.1, which newer C parsers accept."""
    if event.version is not None and tuple(event.version) != (1, 1):
        raise YamlError(_at_line(_line(event), "found incompatible YAML document"))


def _text(data: bytes) -> str:
    """Return the text without its byte order mark, as event marks count it; empty if not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""


def _line(event: Event) -> int:
    """Return the line that an event starts in, the first being 0."""
    return event.start_mark.line if event.start_mark is not None else 0


def _span(event: Event) -> tuple[int, int]:
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


def _problem(error: yaml.MarkedYAMLError) -> str:
    # Parity: go.yaml.in/yaml/v2 decode.go parser.fail: only scanner errors count lines from one.
    line = 0
    if error.problem_mark is not None and error.problem_mark.line != 0:
        line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    return _at_line(line, error.problem or "unknown problem parsing YAML content")


def _at_line(line: int, problem: str) -> str:
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{problem}"


# -- from nodes to values -------------------------------------------------------------------------


class _Key(NamedTuple):
    """A key of a map that is not a string: Go's maps distinguish 1, 1.0 and true."""

    kind: str
    value: Resolved


@lru_cache(maxsize=1 << 16)
def _plain_scalar(text: str) -> Resolved:
    return resolve("", text)[1]


class _Decoder:
    """Turns nodes into values; follows decode.go step by step where a limit depends on it."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self.is_odd = False
        """Whether there are aliases, or keys or numbers that JSON writes differently."""
        self._following: set[int] = set()
        self._decode_count = 0
        self._alias_count = 0
        self._alias_depth = 0

    def document(self, root: _Node) -> Any:
        """Return the value of a document."""
        self._decode_count += 1
        return self._value(root, 0)

    def _value(self, node: _Node, depth: int) -> Any:
        self._decode_count += 1
        if self._alias_depth or self._alias_count or depth > DEPTH_MAX:
            self._check_limits(depth)
        if isinstance(node, ScalarEvent):
            return self._scalar(node)
        if isinstance(node, _Alias):
            return self._aliased(node, None, depth)
        if not node.is_mapping:
            return [self._value(child, depth + 1) for child in node.children]
        mapping: dict[Any, Any] = {}
        self._fill(node, mapping, depth)
        ordered = sorted(mapping) if not self.is_odd else None
        if ordered is None or ordered == list(mapping):
            return mapping
        return {key: mapping[key] for key in ordered}

    def _check_limits(self, depth: int) -> None:
        self._alias_count += self._alias_depth > 0
        if depth > DEPTH_MAX:
            raise YamlError("yaml: exceeded max depth of 10000")
        if (
            self._alias_count > 100
            and self._decode_count > 1000
            and self._alias_count / self._decode_count > _allowed_alias_ratio(self._decode_count)
        ):
            raise YamlError("yaml: document contains excessive aliasing")

    def _scalar(self, node: ScalarEvent) -> Resolved:
        value: Resolved = node.value
        if node.tag:
            tag, value = resolve(node.tag, node.value)
            if tag == BINARY:
                value = _binary(node.value)
        elif node.implicit[0]:
            value = _plain_scalar(node.value)
        if value.__class__ is float:
            self.is_odd = True
        return value

    def _aliased(self, alias: _Alias, into: dict[Any, Any] | None, depth: int) -> Any:
        if id(alias) in self._following:
            raise YamlError(f"yaml: anchor '{alias.name}' value contains itself")
        # A shared value would change in two places.
        self.is_odd = True
        self._following.add(id(alias))
        self._alias_depth += 1
        if into is None:
            value = self._value(alias.node, depth + 1)
        else:
            self._count(depth)
            assert isinstance(alias.node, _Collection)
            self._fill(alias.node, into, depth + 1)
            value = into
        self._alias_depth -= 1
        self._following.discard(id(alias))
        return value

    def _count(self, depth: int) -> None:
        self._decode_count += 1
        self._check_limits(depth)

    def _fill(self, node: _Collection, mapping: dict[Any, Any], depth: int) -> None:
        children = iter(node.children)
        for key_node, value_node in zip(children, children, strict=True):
            if _is_merge(key_node):
                self._merge(value_node, mapping, depth + 1)
                continue
            key = self._value(key_node, depth + 1)
            if key.__class__ is not str:
                if isinstance(key, dict | list):
                    raise YamlError(f"yaml: invalid map key: {_yaml_syntax(key)}")
                self.is_odd = True
                key = _Key(type(key).__name__, key)
            value = self._value(value_node, depth + 1)
            if key in mapping:
                line = _line(value_node if isinstance(value_node, Event) else value_node.start)
                shown = _yaml_syntax(key)
                self.repeated.append(f"line {line + 1}: key {shown} already set in map")
            mapping[key] = value

    def _merge(self, node: _Node, mapping: dict[Any, Any], depth: int) -> None:
        sources = [node]
        if isinstance(node, _Collection) and not node.is_mapping:
            # Earlier maps of a list win, so they are merged last.
            sources = node.children[::-1]
        for source in sources:
            target = source.node if isinstance(source, _Alias) else source
            if not isinstance(target, _Collection) or not target.is_mapping:
                raise YamlError("yaml: map merge requires map or sequence of maps as the value")
            self._count(depth)
            if isinstance(source, _Alias):
                self._aliased(source, mapping, depth)
            else:
                self._fill(target, mapping, depth)


def _allowed_alias_ratio(decode_count: int) -> float:
    if decode_count <= _ALIAS_RATIO_LOW:
        return 0.99
    if decode_count >= _ALIAS_RATIO_HIGH:
        return 0.10
    span = _ALIAS_RATIO_HIGH - _ALIAS_RATIO_LOW
    return 0.99 - 0.89 * ((decode_count - _ALIAS_RATIO_LOW) / span)


def _is_merge(node: _Node) -> bool:
    if not isinstance(node, ScalarEvent) or node.value != "<<":
        return False
    return bool(node.implicit[0]) or node.tag == MERGE


def _binary(text: str) -> str:
    try:
        return decode_base64(text).decode("utf-8", "replace")
    except ValueError:
        raise YamlError("yaml: !!binary value contains invalid base64 data") from None


def _to_json(value: Any) -> Any:
    """Return a value in JSON's types: keys are sorted strings, numbers have one type."""
    if isinstance(value, dict):
        pairs = {_key_text(key, item): item for key, item in value.items()}
        # json.Marshal sorts by bytes, which for UTF-8 is the order of code points.
        return {key: _to_json(pairs[key]) for key in sorted(pairs)}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise YamlError(f"json: unsupported value: {go_float(value)}")
        # Written without an exponent or a point, it reads back as an integer.
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return value


def _key_text(key: Any, value: Any) -> str:
    if isinstance(key, str):
        return key
    key = key.value
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and key < 1 << 63:
        return str(key)
    if isinstance(key, float):
        shown = go_float(key, single=True)
        return {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}.get(shown, shown)
    kind, shown = ("%!s(<nil>)", "<nil>") if key is None else ("uint64", hex(key))
    text = f"unsupported map key of type: {kind}, key: {shown}, value: {_yaml_syntax(value)}"
    raise YamlError(text)


def _yaml_syntax(value: Any) -> str:
    """Return `%#v` of a value; nil by itself has no type."""
    shown = go_syntax(value, "interface {}")
    return "<nil>" if shown == "interface {}(nil)" else shown
