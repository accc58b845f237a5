"""Field errors of validation, with upstream's texts.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/{errors,path}.go,
staging/src/k8s.io/apimachinery/pkg/api/validate/content/{kube,dns,errors}.go
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from kubesched.golang.json import go_json
from kubesched.golang.strconv import go_quote
from kubesched.golang.time import format_duration

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


class Typed(NamedTuple):
    """A string of a named Go type; messages write it as JSON rather than quoted."""

    text: str


class DurationValue(NamedTuple):
    """A duration in nanoseconds; messages write it as its JSON string."""

    nanoseconds: int


def _shown(value: object) -> str:
    if isinstance(value, Typed):
        return go_json(value.text)
    if isinstance(value, DurationValue):
        return go_json(format_duration(value.nanoseconds))
    if isinstance(value, str):
        return go_quote(value)
    return go_json(value, sort_keys=False)


def invalid(path: str, value: object, detail: str) -> str:
    """Return the text of field.Invalid; a list of None is a nil slice."""
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def required(path: str, detail: str = "") -> str:
    """Return the text of field.Required."""
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def duplicate(path: str, value: object) -> str:
    """Return the text of field.Duplicate."""
    return f"{path}: Duplicate value: {_shown(value)}"


def not_supported(path: str, value: object, supported: Iterable[str]) -> str:
    """Return the text of field.NotSupported."""
    listed = ", ".join(go_quote(item) for item in supported)
    return f"{path}: Unsupported value: {_shown(value)}: supported values: {listed}"


def forbidden(path: str, detail: str) -> str:
    """Return the text of field.Forbidden."""
    return f"{path}: Forbidden: {detail}"


def child(path: str, name: str) -> str:
    """Return the path of a field below `path`; the empty path is upstream's nil."""
    return f"{path}.{name}" if path else name


def aggregate_text(errors: Iterable[str]) -> str:
    """Return upstream's text of several errors: each once, in brackets unless alone."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def label_key_errors(key: str) -> list[str]:
    """Return the errors of a label key, with IsLabelKey's text."""
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
    """Return the errors of a label value, with IsValidLabelValue's text."""
    errors: list[str] = []
    if _byte_count(value) > 63:
        errors.append("must be no more than 63 bytes")
    if not _VALUE_PATTERN.fullmatch(value):
        errors.append(_VALUE_RULE)
    return errors


def _subdomain_errors(value: str) -> list[str]:
    errors: list[str] = []
    if _byte_count(value) > 253:
        errors.append("must be no more than 253 bytes")
    if not _SUBDOMAIN_PATTERN.fullmatch(value):
        errors.append(_SUBDOMAIN_RULE)
    return errors


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
