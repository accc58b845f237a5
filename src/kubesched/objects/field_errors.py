"""Texts of upstream's field errors.

Owns the exact wording and quoting of a validation error, and the rules for label keys and values.
Never decides where to apply them.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/{errors,path}.go,
staging/src/k8s.io/apimachinery/pkg/api/validate/content/{kube,dns,errors}.go
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_NAME})?"
_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_NAME_PATTERN: Final = re.compile(_NAME)
_VALUE_PATTERN: Final = re.compile(_VALUE)
_SUBDOMAIN_PATTERN: Final = re.compile(_SUBDOMAIN)

_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)

_GO_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip
_JSON_ESCAPES: Final = str.maketrans({
    "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
})  # fmt: skip


def invalid(path: str, value: str, detail: str) -> str:
    """Return the text of field.Invalid for a string."""
    return f"{path}: Invalid value: {go_quote(value)}: {detail}"


def invalid_list(path: str, values: Sequence[str] | None, detail: str) -> str:
    """Return the text of field.Invalid for a list of strings, None being a nil slice."""
    return f"{path}: Invalid value: {go_json(values)}: {detail}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    """Return the text of field.NotSupported for a value of a named string type."""
    # A named type is not printed as a string but as JSON; the two differ for odd characters.
    known = ", ".join(go_quote(name) for name in supported)
    return f"{path}: Unsupported value: {go_json(value)}: supported values: {known}"


def child(path: str, name: str) -> str:
    """Return the path of a field below `path`; the empty path is upstream's nil."""
    return f"{path}.{name}" if path else name


def aggregate_text(errors: Iterable[str]) -> str:
    """Return upstream's text of several errors: each once, in brackets unless alone."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def label_key_errors(key: str) -> list[str]:
    """Return what is wrong with a label key, as IsLabelKey words it."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        rest = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_NAME_RULE} {rest}"]
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors.extend(f"prefix part {error}" for error in _subdomain_errors(prefix))
    if not name:
        errors.append("name part must be non-empty")
    elif _byte_count(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _NAME_PATTERN.fullmatch(name):
        errors.append(f"name part {_NAME_RULE}")
    return errors


def label_value_errors(value: str) -> list[str]:
    """Return what is wrong with a label value, as IsValidLabelValue words it."""
    errors: list[str] = []
    if _byte_count(value) > 63:
        errors.append("must be no more than 63 bytes")
    if not _VALUE_PATTERN.fullmatch(value):
        errors.append(_VALUE_RULE)
    return errors


def go_quote(text: str) -> str:
    """Return the text as Go's %q prints it."""
    return '"' + "".join(_go_escape(char) for char in text) + '"'


def go_json(value: str | Sequence[str] | None) -> str:
    """Return the value as Go's json.Marshal prints it."""
    plain = list(value) if value is not None and not isinstance(value, str) else value
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_JSON_ESCAPES)


def _subdomain_errors(value: str) -> list[str]:
    errors: list[str] = []
    if _byte_count(value) > 253:
        errors.append("must be no more than 253 bytes")
    if not _SUBDOMAIN_PATTERN.fullmatch(value):
        errors.append(_SUBDOMAIN_RULE)
    return errors


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _go_escape(char: str) -> str:
    if char in _GO_ESCAPES:
        return _GO_ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
