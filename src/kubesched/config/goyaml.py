"""YAML text turned into the JSON tree that Go's YAML library makes of it.

Owns node composition, anchors, merge keys, key conversion and the strict check for repeated
keys. Never knows a field by name; scalars are resolved in yaml_scalars.
Upstream: sigs.k8s.io/yaml yaml.go over go.yaml.in/yaml/v2 decode.go
"""

import math
from typing import NamedTuple, TypeAlias

import yaml

from kubesched.config.go_events import event_line, go_events
from kubesched.config.gobase64 import decode_base64
from kubesched.config.gojson import DEPTH_MAX, Json, Number, Object
from kubesched.config.gotext import format_float64, go_float
from kubesched.config.yaml_scalars import BINARY, MERGE, YamlError, resolve
from kubesched.objects.field_errors import go_quote

Scalar: TypeAlias = bool | int | float | str | None
GoValue: TypeAlias = "Scalar | list[GoValue] | GoMap"
Key: TypeAlias = tuple[str, Scalar]

_ALIAS_RATIO_LOW = 400_000
_ALIAS_RATIO_HIGH = 4_000_000


class GoMap:
    """A Go map[interface{}]interface{}: keys of different types never meet."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[Key, GoValue] = {}


class Node:
    """One node of a YAML document, as the parser saw it."""

    __slots__ = ("alias", "children", "implicit", "kind", "line", "tag", "value")

    def __init__(self, kind: str, line: int) -> None:
        self.kind = kind
        self.line = line
        self.tag = ""
        self.value = ""
        self.implicit = False
        self.children: list[Node] = []
        self.alias: Node | None = None


class YamlDocument(NamedTuple):
    """The first document of a text, and what a strict reader holds against it."""

    tree: Json
    strict_error: str | None


def yaml_to_json(data: bytes) -> YamlDocument:
    """Return the first YAML document as a JSON tree with sorted keys.

    Raises:
        YamlError: With Go's text.
    """
    root = _compose(data)
    if root is None:
        return YamlDocument(None, None)
    decoder = _Decoder()
    value = decoder.document(root)
    strict = None
    if decoder.repeated:
        strict = "yaml: unmarshal errors:\n  " + "\n  ".join(decoder.repeated)
    return YamlDocument(go_to_json(value), strict)


def _compose(data: bytes) -> Node | None:
    """Return the root node of the first document, or None when there is none."""
    anchors: dict[str, Node] = {}
    open_nodes: list[Node] = []
    root: Node | None = None
    for event in go_events(data):
        if isinstance(event, yaml.DocumentEndEvent | yaml.StreamEndEvent):
            return root
        if isinstance(event, yaml.CollectionEndEvent):
            open_nodes.pop()
            continue
        if isinstance(event, yaml.DocumentStartEvent):
            _check_version(event)
        node = _node(event, anchors)
        if node is None:
            continue
        if open_nodes:
            open_nodes[-1].children.append(node)
        else:
            root = node
        if node.kind in ("mapping", "sequence"):
            open_nodes.append(node)
        if len(open_nodes) > DEPTH_MAX:
            raise YamlError("yaml: exceeded max depth of 10000")
    return root


def _check_version(event: yaml.DocumentStartEvent) -> None:
    """Refuse a %YAML directive of another version than 1.1, which newer C parsers let pass."""
    if event.version is not None and tuple(event.version) != (1, 1):
        line = event_line(event)
        where = f"line {line}: " if line else ""
        raise YamlError(f"yaml: {where}found incompatible YAML document")


def _node(event: yaml.Event, anchors: dict[str, Node]) -> Node | None:
    """Return the node that an event starts, its anchor registered before its children."""
    line = event_line(event)
    if isinstance(event, yaml.AliasEvent):
        node = Node("alias", line)
        node.value = str(event.anchor)
        node.alias = anchors.get(node.value)
        if node.alias is None:
            raise YamlError(f"yaml: unknown anchor '{node.value}' referenced")
        return node
    if isinstance(event, yaml.ScalarEvent):
        node = Node("scalar", line)
        node.value = event.value
        node.tag = event.tag or ""
        node.implicit = bool(event.implicit[0])
    elif isinstance(event, yaml.MappingStartEvent):
        node = Node("mapping", line)
    elif isinstance(event, yaml.SequenceStartEvent):
        node = Node("sequence", line)
    else:
        return None
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node


class _Decoder:
    """Turns nodes into Go values; follows decode.go step by step where a limit depends on it."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self.following: set[int] = set()
        self.decode_count = 0
        self.alias_count = 0
        self.alias_depth = 0

    def document(self, root: Node) -> GoValue:
        self.decode_count += 1
        return self.value(root, 0)

    def value(self, node: Node, depth: int) -> GoValue:
        self.count(depth)
        if node.kind == "alias":
            return self.aliased(node, None, depth)
        if node.kind == "scalar":
            return _scalar(node)
        if node.kind == "sequence":
            return [self.value(child, depth + 1) for child in node.children]
        mapping = GoMap()
        self.fill(node, mapping, depth)
        return mapping

    def count(self, depth: int) -> None:
        self.decode_count += 1
        self.alias_count += self.alias_depth > 0
        if depth > DEPTH_MAX:
            raise YamlError("yaml: exceeded max depth of 10000")
        if (
            self.alias_count > 100
            and self.decode_count > 1000
            and self.alias_count / self.decode_count > _allowed_alias_ratio(self.decode_count)
        ):
            raise YamlError("yaml: document contains excessive aliasing")

    def aliased(self, node: Node, into: GoMap | None, depth: int) -> GoValue:
        assert node.alias is not None
        if id(node) in self.following:
            raise YamlError(f"yaml: anchor '{node.value}' value contains itself")
        self.following.add(id(node))
        self.alias_depth += 1
        if into is None:
            value = self.value(node.alias, depth + 1)
        else:
            self.count(depth)
            self.fill(node.alias, into, depth + 1)
            value = into
        self.alias_depth -= 1
        self.following.discard(id(node))
        return value

    def fill(self, node: Node, mapping: GoMap, depth: int) -> None:
        for key_node, value_node in zip(node.children[::2], node.children[1::2], strict=True):
            if _is_merge(key_node):
                self.merge(value_node, mapping, depth + 1)
                continue
            key = self.value(key_node, depth + 1)
            if isinstance(key, list | GoMap):
                raise YamlError(f"yaml: invalid map key: {_go_syntax(key)}")
            value = self.value(value_node, depth + 1)
            typed = (type(key).__name__, key)
            if typed in mapping.entries:
                self.repeated.append(
                    f"line {value_node.line + 1}: key {_go_key(key)} already set in map"
                )
            mapping.entries[typed] = value

    def merge(self, node: Node, mapping: GoMap, depth: int) -> None:
        # Earlier maps of a list win, so they are merged last.
        sources = reversed(node.children) if node.kind == "sequence" else [node]
        for source in sources:
            target = source.alias if source.kind == "alias" else source
            if target is None or target.kind != "mapping":
                raise YamlError("yaml: map merge requires map or sequence of maps as the value")
            self.count(depth)
            if source.kind == "alias":
                self.aliased(source, mapping, depth)
            else:
                self.fill(source, mapping, depth)


def _allowed_alias_ratio(decode_count: int) -> float:
    if decode_count <= _ALIAS_RATIO_LOW:
        return 0.99
    if decode_count >= _ALIAS_RATIO_HIGH:
        return 0.10
    span = _ALIAS_RATIO_HIGH - _ALIAS_RATIO_LOW
    return 0.99 - 0.89 * ((decode_count - _ALIAS_RATIO_LOW) / span)


def _is_merge(node: Node) -> bool:
    return node.kind == "scalar" and node.value == "<<" and (node.implicit or node.tag == MERGE)


def _scalar(node: Node) -> Scalar:
    if not node.tag and not node.implicit:
        return node.value
    tag, value = resolve(node.tag, node.value)
    if tag != BINARY:
        return value
    try:
        raw = decode_base64(node.value)
    except ValueError:
        raise YamlError("yaml: !!binary value contains invalid base64 data") from None
    return raw.decode("utf-8", "replace")


def go_to_json(value: GoValue) -> Json:
    """Return a Go value as JSON, its keys turned into strings and sorted."""
    if isinstance(value, GoMap):
        pairs = {_key_text(key, item): item for (_, key), item in value.entries.items()}
        # json.Marshal sorts by bytes, which for UTF-8 is the order of code points.
        return Object([(key, go_to_json(pairs[key])) for key in sorted(pairs)])
    if isinstance(value, list):
        return [go_to_json(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise YamlError(f"json: unsupported value: {go_float(value)}")
        return Number(format_float64(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return Number(str(value))
    return value


def _key_text(key: Scalar, value: GoValue) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and key < 1 << 63:
        return str(key)
    if isinstance(key, float):
        words = {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}
        shown = go_float(key, single=True)
        return words.get(shown, shown)
    kind, shown = ("%!s(<nil>)", "<nil>") if key is None else ("uint64", hex(key))
    raise YamlError(
        f"unsupported map key of type: {kind}, key: {shown}, value: {_go_syntax(value)}"
    )


def _go_key(key: Scalar) -> str:
    return "<nil>" if key is None else _go_syntax(key)


def _go_syntax(value: GoValue) -> str:
    """Return a value as Go's %#v prints it."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return hex(value) if value >= 1 << 63 else str(value)
    if isinstance(value, float):
        return go_float(value)
    if isinstance(value, list):
        items = (_go_element(item) for item in value)
        return "[]interface {}{" + ", ".join(items) + "}"
    if isinstance(value, GoMap):
        ordered = sorted(value.entries.items(), key=lambda entry: _go_element(entry[0][1]))
        pairs = (f"{_go_element(key)}:{_go_element(item)}" for (_, key), item in ordered)
        return "map[interface {}]interface {}{" + ", ".join(pairs) + "}"
    return "<nil>"


def _go_element(value: GoValue) -> str:
    return "interface {}(nil)" if value is None else _go_syntax(value)
