"""API objects from files, as users write them and as `kubectl get` prints them.

Owns the way from files to objects: documents, lists, kinds that no decision reads, objects given
twice, uids. Says what it left out; never guesses what it cannot read. What an API server would
fill in is `admission`'s.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/yaml/decoder.go, and kubectl's `-f`
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from kubesched.app.admission import DEFAULT_NAMESPACE, Admission, with_namespaces
from kubesched.app.manifest_hints import about_document, about_json, about_yaml
from kubesched.app.unknown_fields import CHECKED_MAX, is_written_by_hand, unknown_fields
from kubesched.config.gojson import to_builtins
from kubesched.config.goyaml import yaml_to_json
from kubesched.config.plain_yaml import PlainYamlReader
from kubesched.config.yaml_scalars import YamlError
from kubesched.objects.check import check_object
from kubesched.objects.decode import KINDS, KubeObject, decode_object
from kubesched.objects.errors import MalformedObject, one_line, short_repr
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"

_LISTS_NESTED_MAX = 10
_NOTES_SHOWN_MAX = 5
# A mapping in YAML's flow style looks like JSON at its start, but nobody writes a large one.
_FLOW_YAML_BYTES_MAX = 1_000_000
_SEPARATOR = re.compile(rb"^(?:---(?P<rest>[^\n]*)|\.\.\.[ \t\r]*)(?:\n|\Z)", re.MULTILINE)
# Of a list as kubectl prints it: its items begin in the first column, and so does what follows.
_ITEM_START = re.compile(rb"^- ", re.MULTILINE)
_AFTER_ITEMS = re.compile(rb"^[^ \n-]", re.MULTILINE)
_WHOLE_YAML_BYTES_MAX = 1_000_000
_SLOW_YAML_BYTES = 50_000_000
_SPACE = re.compile(r"\s*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Kinds of which a cluster may have a hundred thousand, those left out among them.
_MANY = frozenset(("Pod", "Node", "Event", "ConfigMap", "Secret", "Endpoints"))
_KNOWN_GROUPS = {(kind, version.rpartition("/")[0]) for version, kind in KINDS}
_KNOWN_KINDS = {kind for _, kind in KINDS}
# Kinds that are read for their templates alone, elsewhere; of another group they are others.
_WORKLOAD_GROUPS = {"Deployment": "apps", "DaemonSet": "apps", "Job": "batch", "CronJob": "batch"}


Tree: TypeAlias = Mapping[str, Any] | msgspec.Raw
"""An object as it was written: taken apart, or still JSON."""


class ManifestError(ValueError):
    """A file that cannot be read as objects: which one, where in it, and why, in one line."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text.strip().replace("\n", "; ")))


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of some files, filled in, and what a user should know about the reading."""

    objects: tuple[KubeObject, ...]
    notes: tuple[str, ...] = ()


def read_manifests(paths: Iterable[str], *, stdin: BinaryIO | None = None) -> Manifests:
    """Return the objects of files and directories; `-` is the given stream.

    Raises:
        ManifestError: A file cannot be read, or an object in it is malformed.
    """
    reader = ManifestReader()
    for name, data in file_contents(paths, stdin):
        reader.take_file(name, data)
    return reader.manifests()


# -- from files to documents ----------------------------------------------------------------------


class _Document(NamedTuple):
    """One document of a file: where it stands, and what it says."""

    where: str
    tree: object
    complaint: str | None = None


class _Items(msgspec.Struct):
    """A `List` of objects, each of which is read by itself: a large cluster is never whole."""

    kind: Literal["List"]
    items: list[msgspec.Raw]


class _Head(msgspec.Struct, rename="camel"):
    """What tells the kind of an item."""

    kind: str = ""
    api_version: str = ""


_LIST_DECODER = msgspec.json.Decoder(_Items)
_HEAD_DECODER = msgspec.json.Decoder(_Head)


def file_contents(paths: Iterable[str], stdin: BinaryIO | None) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each file, directories walked, - read from stdin."""
    for path in paths:
        try:
            if path == STDIN:
                yield "standard input", b"" if stdin is None else stdin.read()
                continue
            for file in _files(Path(path)):
                yield str(file), file.read_bytes()
        except (OSError, ValueError) as problem:
            if isinstance(problem, ManifestError):
                raise
            where = getattr(problem, "filename", None) or path
            reason = getattr(problem, "strerror", None) or problem
            raise ManifestError(f"{where}: {reason}") from None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES and one.is_file())
    if not found:
        raise ManifestError(f"{path}: no file in it ends in {', '.join(SUFFIXES)}")
    return found


def split_documents(name: str, data: bytes) -> Iterator[_Document]:
    """Yield the documents of a file, YAML or JSON."""
    data = data.removeprefix(_BYTE_ORDER_MARK)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        text = f"not UTF-8 (byte {problem.start}); manifests are YAML or JSON"
        raise ManifestError(f"{name}: {text}") from None
    if not text.lstrip().startswith(("{", "[")):
        yield from _yaml_documents(name, data)
        return
    items = _items_of_list(data)
    if items is not None:
        del text  # Of a large cluster, one copy is enough.
        yield _Document(f"{name}: document 1", items)
        return
    try:
        trees = _json_trees(text)
    except (ValueError, RecursionError) as problem:
        if len(data) > _FLOW_YAML_BYTES_MAX or name.endswith(".json"):
            hint = about_json(problem, text)
            raise ManifestError(f"{name}: not readable as JSON: {problem}{hint}") from None
        yield from _yaml_documents(name, data)
        return
    for number, tree in enumerate(trees, start=1):
        yield _Document(f"{name}: document {number}", tree)


def _items_of_list(data: bytes) -> _Items | None:
    """Return the items of what `kubectl get -o json` prints, unread; None if it is not that."""
    try:
        return _LIST_DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None  # Whatever it is, the slower reader has the words for it.


def _json_trees(text: str) -> list[object]:
    """Return the values of a JSON text; several may follow each other, as kubectl allows."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.MsgspecError:
        pass  # Several values, or none: the slower reader tells them apart.
    decoder, trees, start = json.JSONDecoder(), [], _after_space(text, 0)
    while start < len(text):
        # Only the end is taken from the standard reader: what it reads is not always JSON.
        _, end = decoder.raw_decode(text, start)
        trees.append(msgspec.json.decode(text[start:end]))
        start = _after_space(text, end)
    return trees


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _yaml_documents(name: str, data: bytes) -> Iterator[_Document]:
    plain = PlainYamlReader()
    for number, (line, part) in enumerate(_split(name, data), start=1):
        where = f"{name}: document {number}"
        items = _items_of_yaml_list(plain, part) if len(part) > _WHOLE_YAML_BYTES_MAX else None
        if items is not None:
            yield _Document(where, items)
            continue
        try:
            tree, complaint = _yaml_tree(plain, part)
        except YamlError as problem:
            told = _at_line(problem, line, part)
            raise ManifestError(f"{where}: {told}{about_yaml(told, data)}") from None
        except RecursionError:
            raise ManifestError(f"{where}: nested too deeply") from None
        yield _Document(where, tree, complaint)


def _yaml_tree(plain: PlainYamlReader, part: bytes) -> tuple[object, str | None]:
    """Return what a document says, and what a strict reader holds against it."""
    tree = plain.read(part)
    if tree is not None:
        return tree, None
    document = yaml_to_json(part)
    return to_builtins(document.tree), document.strict_error


def _items_of_yaml_list(plain: PlainYamlReader, part: bytes) -> _Items | None:
    """Return the items of what `kubectl get -o yaml` prints; None if it is not that.

    They are read one by one: what a YAML reader makes of a large cluster takes forty times the
    room of its text.
    """
    head, marker, rest = part.partition(b"\nitems:\n")
    if not marker or not rest.startswith(b"- "):
        return None
    end = _AFTER_ITEMS.search(rest)
    tail = b"" if end is None else rest[end.start() :]
    texts = _ITEM_START.split(rest if end is None else rest[: end.start()])[1:]
    try:
        around, complaint = _yaml_tree(plain, head + b"\n" + tail)
        if complaint is not None or not isinstance(around, dict):
            return None
        if around.get("kind") != "List" or "items" in around:
            return None
        items = []
        for text in texts:
            tree, complaint = _yaml_tree(plain, b"  " + text)
            if complaint is not None:
                return None
            items.append(msgspec.Raw(msgspec.json.encode(tree)))
    except (YamlError, RecursionError):
        return None  # Whatever it is, the reader of the whole has the words and the line for it.
    return _Items("List", items)


def _split(name: str, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the documents of a YAML text, each with the number of lines before it."""
    # Parity: apimachinery yaml/decoder.go YAMLReader.Read, v1.36.
    start = line = 0
    for found in _SEPARATOR.finditer(data):
        rest = (found["rest"] or b"").strip()
        if rest and not rest.startswith(b"#"):
            shown = short_repr(rest.decode("utf-8"))
            raise ManifestError(f"{name}: invalid Yaml document separator: {shown}")
        part = data[start : found.start()]
        if _says_something(part):
            yield line, part
        line += data.count(b"\n", start, found.end())
        start = found.end()
    if _says_something(data[start:]):
        yield line, data[start:]


def _says_something(part: bytes) -> bool:
    lines = (line.strip() for line in part.splitlines())
    return any(line and not line.startswith(b"#") for line in lines)


def _at_line(problem: YamlError, line: int, part: bytes) -> YamlError:
    """Return the problem with its line counted in the file rather than in the document."""
    if line:
        try:
            yaml_to_json(b"\n" * line + part)
        except YamlError as moved:
            return moved
    return problem


# -- from documents to objects --------------------------------------------------------------------


class Placed(NamedTuple):
    """An object, and where it was written."""

    obj: KubeObject
    where: str


@dataclass(slots=True)
class ManifestReader:
    """Collects objects; the last of those given under one key counts."""

    placed: dict[tuple[str, str], Placed] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    given_twice: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    checked: int = 0
    generated: int = 0

    def take_file(self, name: str, data: bytes) -> None:
        """Take what a file holds."""
        if len(data) > _SLOW_YAML_BYTES and not data[:1000].lstrip().startswith((b"{", b"[")):
            size = f"{len(data) // 1_000_000} MB of YAML"
            self.notes.append(f"{name}: {size}; kubectl get -o json is read several times as fast")
        is_empty = True
        for document in split_documents(name, data):
            is_empty = is_empty and document.tree is None
            self.take(document)
        if is_empty:
            self.notes.append(f"{name}: there is no object in it")

    def take_objects(self, objects: Iterable[object]) -> None:
        """Take objects that a program has at hand, lists of them among them."""
        for number, obj in enumerate(objects, start=1):
            where = f"objects: item {number}"
            try:
                data = msgspec.json.encode(obj)
            except (TypeError, ValueError, RecursionError) as problem:
                raise ManifestError(f"{where}: not to be written as JSON: {problem}") from None
            self.take(_Document(where, _items_of_list(data) or msgspec.json.decode(data)))

    def take(self, document: _Document) -> None:
        """Take what a document holds: an object, a list of them, or nothing."""
        if document.complaint is not None:
            complaint = " ".join(document.complaint.split())
            self.notes.append(f"{document.where}: {complaint}; the last one counts")
        for where, tree in _flattened(document.where, document.tree, 0):
            try:
                self.take_object(where, tree)
            except MalformedObject as problem:
                hint = about_document(tree)
                raise ManifestError(f"{where}: {problem}{hint}") from None

    def take_object(self, where: str, tree: Tree) -> None:
        """Take one object, or note that no decision reads its kind."""
        kind: Any
        version: Any
        if isinstance(tree, msgspec.Raw):
            head = _HEAD_DECODER.decode(tree)
            kind, version = head.kind, head.api_version
        else:
            kind, version = tree.get("kind"), tree.get("apiVersion")
        if isinstance(kind, str) and isinstance(version, str) and kind and version:
            group = version.rpartition("/")[0]
            if (kind, group) not in _KNOWN_GROUPS:
                is_other = kind in _KNOWN_KINDS or _WORKLOAD_GROUPS.get(kind, group) != group
                self.left_out[f"{kind}.{group}" if is_other and group else kind] += 1
                return
        obj = self._named(decode_object(tree))
        check_object(obj)
        self.note_unknown_fields(where, tree)
        key = (obj.kind, obj.key)
        earlier = self.placed.pop(key, None)
        if earlier is not None:
            self.note_twice(f"{obj.kind} {obj.key}", earlier.where, where)
        self.placed[key] = Placed(obj, where)

    def note_unknown_fields(self, where: str, tree: Tree) -> None:
        """Note fields that the kind of an object does not have, if it was written by hand."""
        if isinstance(tree, msgspec.Raw) or self.checked >= CHECKED_MAX:
            return
        if is_written_by_hand(tree):
            self.checked += 1
            named = f"{where}: {tree['kind']} {tree['metadata'].get('name') or ''}".rstrip()
            self.unknown += [f"{named}: {text}, passed over" for text in unknown_fields(tree)]

    def note_twice(self, title: str, earlier: str, where: str) -> None:
        """Note that an object was given twice."""
        self.given_twice.append(
            f"{title} is given twice: in {earlier}, and in {where}, which counts"
        )

    def _named(self, obj: KubeObject) -> KubeObject:
        meta = obj.metadata
        if not meta.name and meta.generate_name:
            self.generated += 1
            meta = replace(meta, name=f"{meta.generate_name}{self.generated}")
        if obj.namespaced:
            meta = replace(meta, namespace=meta.namespace or DEFAULT_NAMESPACE)
        elif meta.namespace:
            raise MalformedObject(
                kind=obj.kind,
                key=meta.name,
                field="metadata.namespace",
                value=short_repr(meta.namespace),
                problem="Forbidden: not allowed on this type",
            )
        return replace(obj, metadata=meta)

    def manifests(self) -> Manifests:
        """Return all that was taken, filled in."""
        placed = self._with_uids()
        admission = Admission(one.obj for one in placed)
        objects = []
        for one in placed:
            try:
                objects.append(admission.admit(one.obj))
            except MalformedObject as problem:
                raise ManifestError(f"{one.where}: {problem}") from None
        self.notes += first_of(self.unknown, "unknown fields are passed over")
        self.notes += _without_containers(objects)
        self.notes += _without_room(objects)
        self.notes += first_of(self.given_twice, "objects are given twice; the last one counts")
        if self.left_out:
            counted = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
            listed = ", ".join(f"{count} {one_line(kind)}" for kind, count in counted)
            self.notes.append(f"left out: {listed}")
        return Manifests(tuple(with_namespaces(objects)), tuple(self.notes))

    def _with_uids(self) -> list[Placed]:
        """Return the objects, each with a uid that no other object of its kind has."""
        owners: dict[tuple[str, str], str] = {}
        for obj, _ in self.placed.values():
            if obj.metadata.uid:
                owners.setdefault((obj.kind, obj.metadata.uid), obj.key)
        placed = []
        for obj, where in self.placed.values():
            uid = obj.metadata.uid
            if uid and owners[obj.kind, uid] == obj.key:
                placed.append(Placed(obj, where))
                continue
            if uid:
                self.notes.append(
                    f"{obj.kind} {obj.key} has the uid of {owners[obj.kind, uid]}; "
                    "it is taken for another object"
                )
            made = f"{obj.kind.lower()}/{obj.key}"
            while (obj.kind, made) in owners:
                made += "'"
            owners[obj.kind, made] = obj.key
            placed.append(Placed(replace(obj, metadata=replace(obj.metadata, uid=made)), where))
        return placed


def first_of(notes: Sequence[str], what: str) -> list[str]:
    """Return the first notes of a kind, and how many more there are of what they tell."""
    more = len(notes) - _NOTES_SHOWN_MAX
    return [*notes[:_NOTES_SHOWN_MAX], *([f"and {more} more {what}"] if more > 0 else [])]


def _without_containers(objects: Iterable[KubeObject]) -> list[str]:
    found = [obj.key for obj in objects if isinstance(obj, Pod) and not obj.spec.containers]
    return _lacking("Pod", found, "containers: nothing is asked for")


def _without_room(objects: Iterable[KubeObject]) -> list[str]:
    found = [obj.key for obj in objects if isinstance(obj, Node) and not obj.status.allocatable]
    return _lacking("Node", found, "status.allocatable: no pod fits there")


def _lacking(kind: str, keys: Sequence[str], what: str) -> list[str]:
    """Return the note that some objects have none of something, if there are any."""
    if not keys:
        return []
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return [f"{kind} {keys[0]}{more} {'have' if more else 'has'} no {what}"]


def _flattened(where: str, tree: object, depth: int) -> Iterator[tuple[str, Tree]]:
    """Yield the objects of a document, those in lists one by one."""
    if tree is None:
        return
    if isinstance(tree, _Items):
        for index, item in enumerate(tree.items):
            yield from _unread(f"{where}, items[{index}]", item)
        return
    if isinstance(tree, list):
        items, list_kind = tree, None
        prefix = where
    elif not isinstance(tree, Mapping):
        got = f"{short_repr(tree)}{about_document(tree)}"
        raise ManifestError(f"{where}: expected an object, got {got}")
    elif _is_list(tree):
        items, list_kind = tree["items"] or [], tree
        prefix = f"{where}, items"
    elif tree.get("kind") == "List" and "items" in tree:
        got = short_repr(tree["items"])
        raise ManifestError(f"{where}: List: items: expected an array, got {got}")
    else:
        yield where, tree
        return
    if depth >= _LISTS_NESTED_MAX:
        raise ManifestError(f"{where}: more than {_LISTS_NESTED_MAX} lists within each other")
    for index, item in enumerate(items):
        yield from _flattened(f"{prefix}[{index}]", _typed(item, list_kind), depth + 1)


def _unread(where: str, item: msgspec.Raw) -> Iterator[tuple[str, Tree]]:
    """Yield an item of a list as it is if there may be very many of its kind."""
    try:
        head = _HEAD_DECODER.decode(item)
    except msgspec.MsgspecError:
        head = _Head()
    if head.api_version == "v1" and head.kind in _MANY:
        yield where, item
        return
    try:
        tree = msgspec.json.decode(item)
    except (ValueError, RecursionError) as problem:
        raise ManifestError(f"{where}: not readable as JSON: {problem}") from None
    yield from _flattened(where, tree, 1)


def _is_list(tree: Mapping[str, Any]) -> bool:
    kind = tree.get("kind")
    items = tree.get("items", False)
    return isinstance(kind, str) and kind.endswith("List") and isinstance(items, list | None)


def _typed(item: object, outer: Mapping[str, Any] | None) -> object:
    """Return an item of a `PodList` with the kind that only the list names."""
    if outer is None or not isinstance(item, Mapping) or outer["kind"] == "List":
        return item
    inherited = {"apiVersion": outer.get("apiVersion"), "kind": outer["kind"].removesuffix("List")}
    return {**inherited, **{name: part for name, part in item.items() if part is not None}}
