"""YAML and JSON documents of manifest files.

Reads files, directories and standard input, splits them into documents, and gives hints on files
that cannot be read. Objects are interpreted in `manifests.objects`.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/yaml/decoder.go
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import msgspec

from kubesched.api.errors import one_line, short_repr
from kubesched.golang.yaml import YamlError, decode_yaml

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"

# A mapping in YAML's flow style starts like JSON, but large ones are not written that way.
_FLOW_YAML_BYTES_MAX = 1_000_000
_SEPARATOR = re.compile(rb"^(?:---(?P<rest>[^\n]*)|\.\.\.[ \t\r]*)(?:\n|\Z)", re.MULTILINE)
# In a list as kubectl prints it, items and the keys after them start in the first column.
_ITEM_START = re.compile(rb"^- ", re.MULTILINE)
_AFTER_ITEMS = re.compile(rb"^[^ \n-]", re.MULTILINE)
_WHOLE_YAML_BYTES_MAX = 1_000_000
SLOW_YAML_BYTES = 50_000_000
_SPACE = re.compile(r"\s*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE = re.compile(r"yaml: line (\d+): ")
_TABLE_HEADS = ("NAME ", "NAMESPACE ")
_TRUNCATED = "the file may be truncated"


class ManifestError(ValueError):
    """A file that cannot be read; the message names the file, the place and the problem."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text.strip().replace("\n", "; ")))


class Document(NamedTuple):
    """One document of a file: its location and its contents."""

    where: str
    tree: object
    strict_error: str | None = None


class ListItems(msgspec.Struct):
    """A `List` whose items are decoded one by one, which keeps memory low for large clusters."""

    kind: Literal["List"]
    items: list[msgspec.Raw]


class ObjectHead(msgspec.Struct, rename="camel"):
    """The fields that identify the kind of an item."""

    kind: str = ""
    api_version: str = ""


_LIST_DECODER = msgspec.json.Decoder(ListItems)
HEAD_DECODER = msgspec.json.Decoder(ObjectHead)


def file_contents(paths: Iterable[str], stdin: BinaryIO | None) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the contents of each file; `-` is standard input."""
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
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise ManifestError(f"{path}: the directory has no {', '.join(SUFFIXES)} files")
    return files


def split_documents(name: str, data: bytes) -> Iterator[Document]:
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
    items = items_of_list(data)
    if items is not None:
        del text  # Frees memory: the file may be large.
        yield Document(f"{name}: document 1", items)
        return
    try:
        trees = _json_trees(text)
    except (ValueError, RecursionError) as problem:
        if len(data) > _FLOW_YAML_BYTES_MAX or name.endswith(".json"):
            hint = _json_hint(problem, text)
            raise ManifestError(f"{name}: invalid JSON: {problem}{hint}") from None
        yield from _yaml_documents(name, data)
        return
    for number, tree in enumerate(trees, start=1):
        yield Document(f"{name}: document {number}", tree)


def items_of_list(data: bytes) -> ListItems | None:
    """Return the undecoded items of `kubectl get -o json` output; None for other data."""
    try:
        return _LIST_DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None  # The slower reader reports errors.


def _json_trees(text: str) -> list[object]:
    """Return the values of a JSON text; several may follow each other, as in kubectl."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.MsgspecError:
        pass  # Several values, or invalid JSON: read them one by one.
    decoder, trees, start = json.JSONDecoder(), [], _after_space(text, 0)
    while start < len(text):
        # The standard reader only finds the end: it accepts more than JSON.
        _, end = decoder.raw_decode(text, start)
        trees.append(msgspec.json.decode(text[start:end]))
        start = _after_space(text, end)
    return trees


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _yaml_documents(name: str, data: bytes) -> Iterator[Document]:
    for number, (line, part) in enumerate(_split(name, data), start=1):
        where = f"{name}: document {number}"
        items = _items_of_yaml_list(part) if len(part) > _WHOLE_YAML_BYTES_MAX else None
        if items is not None:
            yield Document(where, items)
            continue
        try:
            tree, strict_errors = decode_yaml(part)
        except YamlError as problem:
            moved = _at_line(problem, line, part)
            raise ManifestError(f"{where}: {moved}{_yaml_hint(moved, data)}") from None
        except RecursionError:
            raise ManifestError(f"{where}: nested too deeply") from None
        yield Document(where, tree, strict_errors[0] if strict_errors else None)


def _items_of_yaml_list(part: bytes) -> ListItems | None:
    """Return the items of `kubectl get -o yaml` output; None for other data.

    Items are read one by one: a parsed YAML document takes forty times the memory of its text.
    """
    head, marker, rest = part.partition(b"\nitems:\n")
    if not marker or not rest.startswith(b"- "):
        return None
    end = _AFTER_ITEMS.search(rest)
    tail = b"" if end is None else rest[end.start() :]
    texts = _ITEM_START.split(rest if end is None else rest[: end.start()])[1:]
    try:
        outer, strict_errors = decode_yaml(head + b"\n" + tail)
        if strict_errors or not isinstance(outer, dict):
            return None
        if outer.get("kind") != "List" or "items" in outer:
            return None
        items = []
        for text in texts:
            tree, strict_errors = decode_yaml(b"  " + text)
            if strict_errors:
                return None
            items.append(msgspec.Raw(msgspec.json.encode(tree)))
    except (YamlError, RecursionError):
        return None  # The reader of whole documents reports the error and its line.
    return ListItems("List", items)


def _split(name: str, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the documents of a YAML text, each with the number of lines before it."""
    # Parity: apimachinery yaml/decoder.go YAMLReader.Read, v1.36.
    start = line = 0
    for separator in _SEPARATOR.finditer(data):
        rest = (separator["rest"] or b"").strip()
        if rest and not rest.startswith(b"#"):
            shown = short_repr(rest.decode("utf-8"))
            raise ManifestError(f"{name}: invalid Yaml document separator: {shown}")
        part = data[start : separator.start()]
        if _has_content(part):
            yield line, part
        line += data.count(b"\n", start, separator.end())
        start = separator.end()
    if _has_content(data[start:]):
        yield line, data[start:]


def _has_content(part: bytes) -> bool:
    lines = (line.strip() for line in part.splitlines())
    return any(line and not line.startswith(b"#") for line in lines)


def _at_line(problem: YamlError, line: int, part: bytes) -> YamlError:
    """Return the error with the line number of the file instead of the document."""
    if line:
        try:
            decode_yaml(b"\n" * line + part)
        except YamlError as moved:
            return moved
    return problem


# -- hints on unreadable files --------------------------------------------------------------------


def _yaml_hint(problem: object, data: bytes) -> str:
    """Return a hint on invalid YAML, or an empty text; `data` is the file."""
    match = _LINE.search(str(problem))
    if match is None:
        return ""
    lines = data.splitlines()
    # Some errors count lines from zero, so the next line is checked, too.
    number = int(match.group(1))
    for at in (number, number + 1):
        if 0 < at <= len(lines) and b"\t" in _indentation(lines[at - 1]):
            return f"; line {at} is indented with a tab, YAML requires spaces"
    return f"; {_TRUNCATED}" if number >= len(lines) - 1 and len(lines) > 1 else ""


def _json_hint(problem: Exception, text: str) -> str:
    """Return a hint on invalid JSON, or an empty text."""
    at_end = getattr(problem, "pos", -1) >= len(text.rstrip())
    # An unterminated string is reported at its start.
    is_open = "Unterminated string" in str(problem)
    return f"; {_TRUNCATED}" if at_end or is_open or "truncated" in str(problem) else ""


def document_hint(tree: object) -> str:
    """Return a hint on a document that is not an object, or an empty text."""
    if isinstance(tree, str) and tree.startswith(_TABLE_HEADS):
        return "; this is a table, use kubectl get -o yaml or -o json"
    if isinstance(tree, Mapping) and "items" in tree and not tree.get("kind"):
        return f"; the list has no kind, {_TRUNCATED}"
    return ""


def _indentation(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip())]
