"""The plain YAML that kubectl prints, read line by line.

Owns a small part of YAML in which every line says what it is: block mappings and sequences, scalars
on one line or folded over several, literal blocks; ASCII only. Whatever else a text holds, nothing
of it is read here, and `goyaml` has the word. What is read here is what `goyaml` would read: the
tests hold them side by side. Never raises, and never guesses.
Upstream: sigs.k8s.io/yaml yaml.go, the encoder of go.yaml.in/yaml/v2 as kubectl uses it
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeAlias

from kubesched.config.gojson import to_builtins
from kubesched.config.goyaml import go_to_json
from kubesched.config.yaml_scalars import STR, YamlError, resolve

_READABLE: Final = re.compile(rb"[ -~\n]*\n")
_KEY: Final = re.compile(
    r"([A-Za-z_.](?:[A-Za-z0-9_./{}\",*-]|:(?=[^ ])){0,200}):(?: (?=[^ ])(.*))?"
)
# The first character of a scalar that is neither quoted nor a sign of something else.
_PLAIN_START: Final = re.compile(r"[A-Za-z0-9_/.+$(~<=;^]|-(?=[^ ])")
_QUOTED: Final = {
    '"': re.compile(r'"[^"\\]*"'),
    "'": re.compile(r"'(?:[^']|'')*'"),
}
_LITERAL_ENDS: Final = {"|": "\n", "|-": ""}
_DEPTH_MAX: Final = 100
_KNOWN_LINES_MAX: Final = 50_000
_DASH: Final = "- "

Tree: TypeAlias = "dict[str, Any]"


class _Line(NamedTuple):
    """What a line says, whatever its indentation."""

    is_item: bool
    """Whether it begins an item of a sequence."""
    key: str | None
    """The key that it gives a value; None for an item that is a scalar."""
    text: str
    """The value as it is written; empty if it is in the lines that follow, or null."""
    value: Any = None
    is_whole: bool = False
    """Whether the value is known from this line; a plain scalar may still be folded."""


class _Other(Exception):  # noqa: N818 - not an error: the text is for another reader
    """A text that is not plain."""


class _Block:
    """A mapping or a sequence whose lines begin in one column."""

    __slots__ = ("column", "items", "pairs")

    def __init__(self, column: int, pairs: Tree | None, items: list[Any] | None) -> None:
        self.column = column
        self.pairs = pairs
        self.items = items

    def put_last(self, value: Any) -> None:
        """Put a value in place of the last one."""
        if self.items is not None:
            self.items[-1] = value
        else:
            assert self.pairs is not None
            self.pairs[next(reversed(self.pairs))] = value


class PlainYamlReader:
    """Reads plain documents; lines that were seen before are not taken apart again."""

    def __init__(self) -> None:
        self._known: dict[str, _Line | None] = {}

    def read(self, data: bytes) -> Tree | None:
        """Return the mapping that a document is; None if it is not plain."""
        if not _READABLE.fullmatch(data):
            return None
        lines = data.decode("ascii").split("\n")
        lines.pop()  # What follows the last line break.
        try:
            return _Document(self, lines).read()
        except _Other:
            return None

    def line(self, text: str) -> _Line | None:
        """Return what a line says that is not indented; None if that is not known by itself."""
        try:
            return self._known[text]
        except KeyError:
            pass
        if len(self._known) >= _KNOWN_LINES_MAX:
            self._known.clear()
        line = self._known[text] = _take_apart(text)
        return line


class _Document:
    """One document, as far as it was read."""

    def __init__(self, reader: PlainYamlReader, lines: list[str]) -> None:
        self._reader = reader
        self._lines = lines
        self._at = 0
        self._blocks: list[_Block] = []
        self._is_sorted = True
        self._foldable = ""
        """The plain scalar of the line before, which this one may go on with."""

    def read(self) -> Tree:
        """Return the mapping; raise _Other if this is not plain."""
        lines, blocks, known = self._lines, self._blocks, self._reader.line
        root: Tree = {}
        opened: tuple[Tree, str, int] | None = None
        while self._at < len(lines):
            text = lines[self._at]
            bare = text.lstrip(" ")
            column = len(text) - len(bare)
            if self._foldable and column > blocks[-1].column:
                blocks[-1].put_last(self._folded(blocks[-1].column))
                continue
            line = known(bare)
            if line is None:
                raise _Other
            self._at += 1
            if opened is not None:
                self._open(opened, line, column)
            elif not blocks:
                blocks.append(_Block(column, root, None))
            block = blocks[-1]
            if block.column != column or line.is_item or block.pairs is None:
                block = self._block_at(line, column)
            opened = self._put(block, line, column)
        if not blocks:
            raise _Other
        # As goyaml, which does as Go: kubectl's are sorted, a user's need not be.
        ordered: Tree = root if self._is_sorted else _sorted(root)
        return ordered

    def _open(self, opened: tuple[Tree, str, int], line: _Line, column: int) -> None:
        """Begin the block that a key without a value announces, if one follows."""
        pairs, key, key_column = opened
        if line.is_item and column >= key_column:
            block = _Block(column, None, [])
            pairs[key] = block.items
        elif not line.is_item and column > key_column:
            block = _Block(column, {}, None)
            pairs[key] = block.pairs
        else:
            return  # Null it is, unless the line has no place at all.
        if len(self._blocks) >= _DEPTH_MAX:
            raise _Other
        self._blocks.append(block)

    def _block_at(self, line: _Line, column: int) -> _Block:
        """Return the block that a line is part of; those that end with it are left."""
        blocks = self._blocks
        while blocks:
            block = blocks[-1]
            if block.column == column and (block.items is not None) is line.is_item:
                return block
            # A sequence may begin in the column of the key whose value it is.
            if block.column < column or (block.column == column and line.is_item):
                break
            blocks.pop()
        raise _Other

    def _put(self, block: _Block, line: _Line, column: int) -> tuple[Tree, str, int] | None:
        """Put what a line says into its block; return the key that is left without a value."""
        pairs, key = block.pairs, line.key
        if block.items is not None:
            if key is None:
                block.items.append(self._value(line, column))
                return None
            pairs = {}
            block.items.append(pairs)
            column += len(_DASH)
            self._blocks.append(_Block(column, pairs, None))
        if pairs is None or key is None or key in pairs:
            raise _Other
        if pairs and key < next(reversed(pairs)):
            self._is_sorted = False
        pairs[key] = self._value(line, column)
        return None if line.text else (pairs, key, column)

    def _value(self, line: _Line, column: int) -> Any:
        value = line.value
        self._foldable = ""
        if line.is_whole:
            if value.__class__ is dict:
                return {}
            if value.__class__ is list:
                return []
            if line.text[0] not in _QUOTED:
                self._foldable = line.text
            return value
        if line.text in _LITERAL_ENDS:
            return self._literal(column) + _LITERAL_ENDS[line.text]
        return self._quoted(line.text, column) if line.text else None

    # -- values over several lines ----------------------------------------------------------------

    def _literal(self, parent_column: int) -> str:
        """Return the lines of a literal block, the last line break left out."""
        lines, start = self._lines, self._at
        first = lines[start] if start < len(lines) else ""
        width = len(first) - len(first.lstrip(" "))
        if width <= parent_column or width == len(first):
            raise _Other
        margin = " " * width
        end = start
        while end < len(lines) and (not lines[end] or lines[end].startswith(margin)):
            end += 1
        found = lines[start:end]
        # Lines of nothing but spaces, and empty ones at the end, have rules of their own.
        if any(one and not one.strip(" ") for one in found) or not found[-1]:
            raise _Other
        self._at = end
        return "\n".join(one[width:] for one in found)

    def _folded(self, parent_column: int) -> Any:
        """Return the value of the plain scalar that the line before began."""
        text = self._foldable
        while (more := self._next(parent_column)) is not None:
            text = f"{text} {more}"
            if not _is_plain(more):
                raise _Other
            self._at += 1
        self._foldable = ""
        return _plain_value(text)

    def _quoted(self, text: str, parent_column: int) -> str:
        """Return the value of a quoted scalar that ends in a line to come."""
        quote = text[0]
        while text.count(quote) % 2:
            more = self._next(parent_column)
            if more is None or text[-1] == " ":
                raise _Other
            text = f"{text} {more}"
            self._at += 1
        if not _QUOTED[quote].fullmatch(text):
            raise _Other
        return text[1:-1].replace("''", "'") if quote == "'" else text[1:-1]

    def _next(self, parent_column: int) -> str | None:
        """Return the line at hand if it is part of what began in a column to the left."""
        text = self._lines[self._at] if self._at < len(self._lines) else ""
        bare = text.lstrip(" ")
        return bare if bare and len(text) - len(bare) > parent_column else None


def _sorted(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _sorted(tree[key]) for key in sorted(tree)}
    return [_sorted(one) for one in tree] if isinstance(tree, list) else tree


def _take_apart(text: str) -> _Line | None:
    """Return what a line says that is not indented; None if it is not known by itself."""
    is_item = text.startswith(_DASH)
    rest = text.removeprefix(_DASH)
    found = _KEY.fullmatch(rest)
    if found is None:
        return _with_value(True, None, rest) if is_item else None
    key, written = found.groups()
    if resolve("", key) != (STR, key):
        return None
    return _Line(is_item, key, "") if written is None else _with_value(is_item, key, written)


def _with_value(is_item: bool, key: str | None, text: str) -> _Line | None:
    if text in _LITERAL_ENDS:
        return _Line(is_item, key, text)
    if text in ("{}", "[]"):
        return _Line(is_item, key, text, {} if text == "{}" else [], is_whole=True)
    quote = text[:1]
    if quote in _QUOTED:
        if text.count(quote) % 2:
            return _Line(is_item, key, text)
        if not _QUOTED[quote].fullmatch(text):
            return None
        inner = text[1:-1]
        value = inner.replace("''", "'") if quote == "'" else inner
        return _Line(is_item, key, text, value, is_whole=True)
    if not _is_plain(text):
        return None
    try:
        return _Line(is_item, key, text, _plain_value(text), is_whole=True)
    except _Other:
        return None


def _is_plain(text: str) -> bool:
    """Return whether a text is a plain scalar, or a line of one, and nothing else."""
    return not (
        _PLAIN_START.match(text) is None or text[-1] in " :" or ": " in text or " #" in text
    )


def _plain_value(text: str) -> Any:
    try:
        return to_builtins(go_to_json(resolve("", text)[1]))
    except YamlError:
        raise _Other from None
