"""Writes documents as YAML or JSON, in many styles.

Owns indentation, quoting, flow style and comments. Never changes the meaning of a document.
Upstream: none
"""

import json
import random
from typing import Any, NamedTuple

from conformance.config_texts.values import maybe


class Raw(NamedTuple):
    """A scalar that is written literally."""

    text: str


def write(rng: random.Random, document: Any) -> str:
    """Return a document as YAML or JSON, in one of many styles."""
    if maybe(rng, 0.25) and not has_raw(document):
        indent = rng.choice((None, None, 2, 4))
        return json.dumps(document, indent=indent, ensure_ascii=maybe(rng, 0.5)) + rng.choice(
            ("", "\n")
        )
    return yaml_text(rng, document)


def has_raw(value: Any) -> bool:
    """Return whether a value can be written in YAML only."""
    if isinstance(value, Raw):
        return True
    if isinstance(value, dict):
        return any(has_raw(item) for item in value.values())
    return isinstance(value, list) and any(has_raw(item) for item in value)


def yaml_text(rng: random.Random, document: Any) -> str:
    """Return a document as block YAML with some flow parts, comments and quotes."""
    lines = block(rng, document, 0, rng.choice((0, 2)))
    if maybe(rng, 0.15):
        lines.insert(rng.randrange(len(lines) + 1), "# a comment")
    if maybe(rng, 0.1):
        lines.insert(0, "---")
    return "\n".join(lines) + rng.choice(("\n", "\n", "\n", "", "\n\n"))


def block(rng: random.Random, value: Any, depth: int, list_indent: int) -> list[str]:
    """Return the lines of a block mapping or sequence."""
    pad = " " * depth
    if isinstance(value, dict) and value:
        lines: list[str] = []
        for key, item in value.items():
            name = key if maybe(rng, 0.9) else json.dumps(key)
            if is_inline(rng, item):
                lines.append(f"{pad}{name}: {flow(rng, item)}".rstrip())
                continue
            deeper = depth + (list_indent if isinstance(item, list) else 2)
            lines += [f"{pad}{name}:", *block(rng, item, deeper, list_indent)]
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            if is_inline(rng, item):
                lines.append(f"{pad}- {flow(rng, item)}")
            else:
                inner = block(rng, item, depth + 2, list_indent)
                lines += [pad + "- " + inner[0][depth + 2 :], *inner[1:]]
        return lines
    return [pad + flow(rng, value)]


def is_inline(rng: random.Random, value: Any) -> bool:
    """Return whether to write a value on one line."""
    return not isinstance(value, dict | list) or not value or maybe(rng, 0.12)


def flow(rng: random.Random, value: Any) -> str:
    """Return a value in flow style."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(rng, item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(rng, item) for item in value) + "]"
    if isinstance(value, str):
        return scalar(rng, value)
    if value is None:
        return rng.choice(("null", "~", "null"))
    return json.dumps(value)


def scalar(rng: random.Random, value: str) -> str:
    """Return a string, quoted unless it is certainly read back unchanged."""
    words = ("yes", "no", "on", "off", "y", "n", "null", "true", "false")
    simple = value[:1].isalpha() and all(c.isalnum() or c in "-/." for c in value)
    if simple and value.lower() not in words and maybe(rng, 0.85):
        return value
    if maybe(rng, 0.3) and "'" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False)
