"""Paths to a field inside a document, as messages write them.

Owns the writing of a path and the finding of the value msgspec complains about. Never decodes.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/path.go
"""

import re
from collections.abc import Mapping
from typing import Any, Final

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]|(\[\.\.\.\])")
_COMPLAINT: Final = re.compile(
    r"(?P<problem>.*?)(?: - at (?:`key` in )?`\$(?P<path>.*)`)?", re.DOTALL
)
_GOT: Final = re.compile(r"got `([a-z]+)`")
_JSON_NAMES: Final = {
    type(None): "null", bool: "bool", int: "int", float: "float", str: "str",
    list: "array", tuple: "array", dict: "object", bytes: "bytes",
}  # fmt: skip


def at_key(path: str, key: str) -> str:
    """Return the path of a map's entry."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{key}]"


def locate(complaint: str, document: Any) -> tuple[str, str, Any]:
    """Split msgspec's complaint into problem, field and the value it speaks of.

    msgspec does not name keys of maps; the entry is found again by the type it complains about.
    """
    found = _COMPLAINT.fullmatch(complaint)
    assert found is not None
    problem = found["problem"]
    path, value = "", document
    for name, index, wildcard in _STEP.findall(found["path"] or ""):
        if wildcard:
            path, value = _find_entry(path, value, problem)
        elif index:
            path, value = f"{path}[{index}]", _item(value, int(index))
        else:
            path = f"{path}.{name}" if path else name
            value = value.get(name) if isinstance(value, Mapping) else None
    return problem, path, value


def _item(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list | tuple) and index < len(value) else None


def _find_entry(path: str, value: Any, problem: str) -> tuple[str, Any]:
    got = _GOT.search(problem)
    if isinstance(value, Mapping) and got is not None:
        for key, part in value.items():
            if _JSON_NAMES.get(type(part), type(part).__name__) == got[1]:
                return at_key(path, str(key)), part
    return f"{path}[...]", None
