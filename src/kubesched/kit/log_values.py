"""The values in a log line, in klog's text and in JSON.

Owns the form of each kind of value. Never raises: a value that cannot be written becomes its error.
Upstream: k8s.io/klog/v2/internal/serialize/keyvalues_slog.go, k8s.io/klog/v2/k8s_references.go,
go.uber.org/zap/zapcore/json_encoder.go
"""

from __future__ import annotations

import base64
import math
import re
from datetime import timedelta
from enum import Enum
from typing import NamedTuple

from kubesched.golang.json import go_json
from kubesched.golang.strconv import go_quote, go_quote_ascii, plain_float
from kubesched.golang.time import format_duration


class Ref(NamedTuple):
    """The name of an object in the cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def json_items(self) -> list[tuple[str, object]]:
        named: list[tuple[str, object]] = [("name", self.name)]
        return [*named, ("namespace", self.namespace)] if self.namespace else named


def text_value(value: object) -> str:
    """Return a value as it follows its key in klog's text, with the equals sign."""
    kind = type(value)
    if isinstance(value, Ref):
        namespace, name = value
        return f'="{namespace}/{name}"' if namespace else f'="{name}"'
    if kind is str:
        return _text_string(value)  # type: ignore[arg-type]  # Checked above.
    if kind is int:
        return f"={value}"
    try:
        return _other_text(value)
    except Exception as error:  # noqa: BLE001  # Code of a field may raise anything.
        return f'="<panic: {error}>"'


def _other_text(value: object) -> str:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bytes):
        return f"={go_quote_ascii(value)}"
    if isinstance(value, timedelta):
        return f'="{_duration(value)}"'
    if isinstance(value, (str, BaseException)):
        return _text_string(str(value))
    if (reference := _reference(value)) is not None:
        return f'="{reference}"'
    if (references := _references(value)) is not None:
        return "=[" + ",".join([f'"{reference}"' for reference in references]) + "]"
    return f"={go_json(value)}"


def _text_string(text: str) -> str:
    if "\n" not in text:
        return f"={go_quote(text)}"
    lines = text.removesuffix("\n").split("\n")
    return "=<\n" + "".join([f"\t{line}\n" for line in lines]) + " >"


def _reference(value: object) -> Ref | None:
    """Return the reference to a value that has a name and a namespace."""
    if type(value) is Ref:
        return value
    name = getattr(value, "name", None)
    namespace = getattr(value, "namespace", None)
    if isinstance(name, str) and isinstance(namespace, str):
        return Ref(namespace, name)
    return None


def _references(value: object) -> list[Ref] | None:
    if not isinstance(value, (list, tuple)) or not value:
        return None
    references = [reference for item in value if (reference := _reference(item)) is not None]
    return references if len(references) == len(value) else None


def json_value(value: object) -> str:
    """Return a value as JSON."""
    kind = type(value)
    if kind is str:
        return zap_string(value)  # type: ignore[arg-type]  # Checked above.
    if kind is int:
        return str(value)
    if isinstance(value, Ref):
        namespace, name = value
        own = f'{{"name":{zap_string(name)}'
        return f'{own},"namespace":{zap_string(namespace)}}}' if namespace else own + "}"
    try:
        return _other_json(value)
    except Exception as error:  # noqa: BLE001  # Code of a field may raise anything.
        return zap_string(f"PANIC={error}")


def _other_json(value: object) -> str:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, timedelta):
        return f'"{_duration(value)}"'
    if isinstance(value, (str, BaseException)):
        return zap_string(str(value))
    if isinstance(value, float):
        return plain_float(value) if math.isfinite(value) else f'"{plain_float(value)}"'
    if (reference := _reference(value)) is not None:
        return go_json(reference, escape_html=False)
    return _json_list(value)


def _json_list(value: object) -> str:
    if isinstance(value, (list, tuple)) and all(type(item) is str for item in value):
        return "[" + ",".join(map(zap_string, value)) + "]"
    references = _references(value)
    return go_json(value if references is None else references, escape_html=False)


def _duration(value: timedelta) -> str:
    return format_duration(round(value / timedelta(microseconds=1)) * 1000)


_ZAP_ESCAPED = re.compile(r'[\x00-\x1f"\\\ud800-\udfff]')
_ZAP_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def zap_string(text: str) -> str:
    """Return text as zap writes it: only what JSON requires is escaped."""
    if _ZAP_ESCAPED.search(text) is None:
        return f'"{text}"'
    return '"' + _ZAP_ESCAPED.sub(_zap_escape, text) + '"'


def _zap_escape(match: re.Match[str]) -> str:
    char = match[0]
    if char >= "\ud800":
        return "\\ufffd"
    return _ZAP_ESCAPES.get(char) or f"\\u{ord(char):04x}"
