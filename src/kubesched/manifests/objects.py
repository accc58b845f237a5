"""API objects from manifests, as users write them and as `kubectl get` prints them.

Handles lists, kinds that the scheduler does not read, duplicate objects, generated uids, and
warnings about unknown fields. Skipped objects are reported. Defaults are applied in
`manifests.defaulting`.
Upstream: kubectl's `-f` and `--validate`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from kubesched.api.check import check_object
from kubesched.api.decode import STRUCTS, KubeObject, decode_object
from kubesched.api.errors import MalformedObject, one_line, short_repr
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.manifests.defaulting import DEFAULT_NAMESPACE, Admission, with_namespaces
from kubesched.manifests.documents import (
    HEAD_DECODER,
    SLOW_YAML_BYTES,
    Document,
    ListItems,
    ManifestError,
    ObjectHead,
    document_hint,
    file_contents,
    items_of_list,
    split_documents,
)

_NOTES_SHOWN_MAX = 5
_LISTS_NESTED_MAX = 10
# Kinds of which a cluster may have a hundred thousand objects, skipped kinds included.
_MANY = frozenset(("Pod", "Node", "Event", "ConfigMap", "Secret", "Endpoints"))
_KNOWN_GROUPS = {(kind, version.rpartition("/")[0]) for version, kind in STRUCTS}
_KNOWN_KINDS = {kind for _, kind in STRUCTS}
# Kinds that `scenario_reader` reads for their templates; in other groups they are other kinds.
_WORKLOAD_GROUPS = {"Deployment": "apps", "DaemonSet": "apps", "Job": "batch", "CronJob": "batch"}


Tree: TypeAlias = Mapping[str, Any] | msgspec.Raw
"""An object of a document: decoded, or still JSON."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of some files with defaults applied, and notes for the user."""

    objects: tuple[KubeObject, ...]
    notes: tuple[str, ...] = ()


def read_manifests(paths: Iterable[str], *, stdin: BinaryIO | None = None) -> Manifests:
    """Return the objects of files and directories; `-` is standard input.

    Raises:
        ManifestError: A file cannot be read, or an object in it is malformed.
    """
    reader = ManifestReader()
    for name, data in file_contents(paths, stdin):
        reader.take_file(name, data)
    return reader.manifests()


class Placed(NamedTuple):
    """An object and its location."""

    obj: KubeObject
    where: str


@dataclass(slots=True)
class ManifestReader:
    """Collects objects; the last one with a key wins."""

    placed: dict[tuple[str, str], Placed] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    checked: int = 0
    generated: int = 0

    def take_file(self, name: str, data: bytes) -> None:
        """Read the objects of a file."""
        if len(data) > SLOW_YAML_BYTES and not data[:1000].lstrip().startswith((b"{", b"[")):
            size = f"{len(data) // 1_000_000} MB of YAML"
            self.notes.append(f"{name}: {size}; JSON is read several times faster")
        is_empty = True
        for document in split_documents(name, data):
            is_empty = is_empty and document.tree is None
            self.take(document)
        if is_empty:
            self.notes.append(f"{name}: no objects")

    def take_objects(self, objects: Iterable[object]) -> None:
        """Read objects and lists of objects in memory."""
        for number, obj in enumerate(objects, start=1):
            where = f"objects: item {number}"
            try:
                data = msgspec.json.encode(obj)
            except (TypeError, ValueError, RecursionError) as problem:
                raise ManifestError(f"{where}: not serializable as JSON: {problem}") from None
            self.take(Document(where, items_of_list(data) or msgspec.json.decode(data)))

    def take(self, document: Document) -> None:
        """Read a document: an object, a list of objects, or nothing."""
        if document.strict_error is not None:
            problem_text = " ".join(document.strict_error.split())
            self.notes.append(f"{document.where}: {problem_text}; the last one is used")
        for where, tree in _flattened(document.where, document.tree, 0):
            try:
                self.take_object(where, tree)
            except MalformedObject as problem:
                hint = document_hint(tree)
                raise ManifestError(f"{where}: {problem}{hint}") from None

    def take_object(self, where: str, tree: Tree) -> None:
        """Read one object, or count it as skipped if scheduling does not read its kind."""
        kind: Any
        version: Any
        if isinstance(tree, msgspec.Raw):
            head = HEAD_DECODER.decode(tree)
            kind, version = head.kind, head.api_version
        else:
            kind, version = tree.get("kind"), tree.get("apiVersion")
        if isinstance(kind, str) and isinstance(version, str) and kind and version:
            group = version.rpartition("/")[0]
            if (kind, group) not in _KNOWN_GROUPS:
                is_other = kind in _KNOWN_KINDS or _WORKLOAD_GROUPS.get(kind, group) != group
                self.skipped[f"{kind}.{group}" if is_other and group else kind] += 1
                return
        obj = self._named(decode_object(tree))
        check_object(obj)
        self.note_unknown_fields(where, tree)
        key = (obj.kind, obj.key)
        earlier = self.placed.pop(key, None)
        if earlier is not None:
            self.note_duplicate(f"{obj.kind} {obj.key}", earlier.where, where)
        self.placed[key] = Placed(obj, where)

    def note_unknown_fields(self, where: str, tree: Tree) -> None:
        """Note unknown fields of a handwritten object."""
        if isinstance(tree, msgspec.Raw) or self.checked >= _CHECKED_MAX:
            return
        if _is_handwritten(tree):
            self.checked += 1
            title = f"{where}: {tree['kind']} {tree['metadata'].get('name') or ''}".rstrip()
            self.unknown += [f"{title}: {text}, ignored" for text in _unknown_fields(tree)]

    def note_duplicate(self, title: str, earlier: str, where: str) -> None:
        """Note a duplicate object."""
        self.duplicates.append(f"duplicate {title}: {earlier} is ignored, {where} is used")

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
        """Return everything read so far, with defaults applied."""
        placed = self._with_uids()
        admission = Admission(entry.obj for entry in placed)
        objects = []
        for entry in placed:
            try:
                objects.append(admission.admit(entry.obj))
            except MalformedObject as problem:
                raise ManifestError(f"{entry.where}: {problem}") from None
        self.notes += first_of(self.unknown, "unknown fields")
        pods = [obj.key for obj in objects if isinstance(obj, Pod) and not obj.spec.containers]
        self.notes += lacking("Pod", pods, "containers; it requests nothing")
        nodes = [obj.key for obj in objects if isinstance(obj, Node) and not obj.status.allocatable]
        self.notes += lacking("Node", nodes, "status.allocatable; no pod fits there")
        self.notes += first_of(self.duplicates, "duplicate objects")
        if self.skipped:
            counted = sorted(self.skipped.items(), key=lambda item: (-item[1], item[0]))
            listed = ", ".join(f"{count} {one_line(kind)}" for kind, count in counted)
            self.notes.append(f"skipped: {listed}")
        return Manifests(tuple(with_namespaces(objects)), tuple(self.notes))

    def _with_uids(self) -> list[Placed]:
        """Return the objects, each with a uid that is unique within its kind."""
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
                    "it gets another uid"
                )
            new_uid = f"{obj.kind.lower()}/{obj.key}"
            while (obj.kind, new_uid) in owners:
                new_uid += "'"
            owners[obj.kind, new_uid] = obj.key
            placed.append(Placed(replace(obj, metadata=replace(obj.metadata, uid=new_uid)), where))
        return placed


def first_of(notes: Sequence[str], noun: str) -> list[str]:
    """Return the first notes, and the number of the others."""
    more = len(notes) - _NOTES_SHOWN_MAX
    return [*notes[:_NOTES_SHOWN_MAX], *([f"and {more} more {noun}"] if more > 0 else [])]


def lacking(kind: str, keys: Sequence[str], part: str) -> list[str]:
    """Return a note about objects that lack a part, if there are any."""
    verb = "has" if len(keys) == 1 else "have"
    return [f"{kind} {and_more(keys)} {verb} no {part}"] if keys else []


def and_more(names: Sequence[str]) -> str:
    """Return the first name, and the number of the others."""
    more = len(names) - 1
    return f"{names[0]} and {more} more" if more else names[0]


def _flattened(where: str, tree: object, depth: int) -> Iterator[tuple[str, Tree]]:
    """Yield the objects of a document, including the items of lists."""
    if tree is None:
        return
    if isinstance(tree, ListItems):
        for index, item in enumerate(tree.items):
            yield from _unread(f"{where}, items[{index}]", item)
        return
    if isinstance(tree, list):
        items, list_kind = tree, None
        prefix = where
    elif not isinstance(tree, Mapping):
        got = f"{short_repr(tree)}{document_hint(tree)}"
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
        raise ManifestError(f"{where}: more than {_LISTS_NESTED_MAX} nested lists")
    for index, item in enumerate(items):
        yield from _flattened(f"{prefix}[{index}]", _typed(item, list_kind), depth + 1)


def _unread(where: str, item: msgspec.Raw) -> Iterator[tuple[str, Tree]]:
    """Yield the item of a list, undecoded if its kind may be very numerous."""
    try:
        head = HEAD_DECODER.decode(item)
    except msgspec.MsgspecError:
        head = ObjectHead()
    if head.api_version == "v1" and head.kind in _MANY:
        yield where, item
        return
    try:
        tree = msgspec.json.decode(item)
    except (ValueError, RecursionError) as problem:
        raise ManifestError(f"{where}: invalid JSON: {problem}") from None
    yield from _flattened(where, tree, 1)


def _is_list(tree: Mapping[str, Any]) -> bool:
    kind = tree.get("kind")
    items = tree.get("items", False)
    return isinstance(kind, str) and kind.endswith("List") and isinstance(items, list | None)


def _typed(item: object, outer: Mapping[str, Any] | None) -> object:
    """Return an item of a typed list such as `PodList` with its kind."""
    if outer is None or not isinstance(item, Mapping) or outer["kind"] == "List":
        return item
    inherited = {"apiVersion": outer.get("apiVersion"), "kind": outer["kind"].removesuffix("List")}
    return {**inherited, **{name: part for name, part in item.items() if part is not None}}


# -- unknown fields -------------------------------------------------------------------------------

# Larger sets of objects are generated, and generators do not mistype.
_CHECKED_MAX = 200


def _is_handwritten(tree: Mapping[str, Any]) -> bool:
    """Return whether no API server seems to have stored an object."""
    metadata = tree.get("metadata")
    return isinstance(metadata, dict) and not (
        metadata.get("uid") or metadata.get("resourceVersion")
    )


def _unknown_fields(tree: Mapping[str, Any]) -> list[str]:
    """Return an API server's warnings: `unknown field "spec.contaners"`."""
    # Imported late: most commands do not need the schemas of all kinds.
    from kubesched.api.schema.conform import WrongTypeError, conform_or_raise  # noqa: PLC0415
    from kubesched.api.schema.load import schema_for  # noqa: PLC0415

    group, _, version = str(tree.get("apiVersion")).rpartition("/")
    schema = schema_for(group, version, str(tree.get("kind")))
    if schema is None:
        return []
    try:
        problems = conform_or_raise(schema, dict(tree)).problems
    except WrongTypeError:
        return []  # Decoding reports wrong types.
    return [text for text in problems if text.startswith("unknown field ")]
