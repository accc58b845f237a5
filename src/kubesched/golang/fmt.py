"""Values and formats as Go's fmt package prints them.

`%v`, `%#v` and `%T` of decoded JSON, and Sprintf of a format without arguments: upstream passes
the failure message of a pod as a format, so that a percent sign becomes a verb without argument.
Upstream: Go's fmt/print.go and reflect, as strategicpatch and structured-merge-diff use them
"""

from __future__ import annotations

import re
from typing import Any

from kubesched.golang.strconv import go_float, go_quote

_INDEX = r"\[(?:(?!\]\Z)[^\]]*\])?"
_WIDTH = re.compile(rf"[#0+\- ]*(?P<index>{_INDEX})?(?P<size>\*|[0-9]*)")
_PRECISION = re.compile(rf"\.(?=.)(?P<index>{_INDEX})?(?P<size>\*|[0-9]*)", re.DOTALL)
_VERB_INDEX = re.compile(_INDEX)
_NUMBER_MAX = 1_000_000


def go_format_without_args(text: str) -> str:
    """Return what fmt.Sprintf(text) returns."""
    parts, at = [], 0
    while (percent := text.find("%", at)) >= 0:
        parts.append(text[at:percent])
        rendered, at = _directive(text, percent + 1)
        parts.append(rendered)
    return "".join(parts) + text[at:]


def _directive(text: str, at: int) -> tuple[str, int]:
    """Return a directive as it is printed without arguments, and where the text continues."""
    printed = ""
    has_index = is_after_index = False
    for pattern, error in ((_WIDTH, "%!(BADWIDTH)"), (_PRECISION, "%!(BADPREC)")):
        match = pattern.match(text, at)
        if match is None:
            continue
        at, index, size = match.end(), match["index"], match["size"]
        has_index |= index is not None
        is_after_index = size != "*" and index is not None and _is_number(index[1:-1])
        if size == "*":
            printed += error
        elif size and not _is_number(size):
            at = len(text)
    if not is_after_index and (match := _VERB_INDEX.match(text, at)):
        has_index, at = True, match.end()
    if at >= len(text):
        return f"{printed}%!(NOVERB)", at
    if text[at] == "%":
        return f"{printed}%", at + 1
    problem = "BADINDEX" if has_index else "MISSING"
    return f"{printed}%!{text[at]}({problem})", at + 1


def _is_number(digits: str) -> bool:
    # Parity: print.go parsenum: tooLarge is checked before each digit.
    return re.fullmatch("[0-9]+", digits) is not None and int(digits[:-1] or "0") <= _NUMBER_MAX


def go_value(value: Any) -> str:
    """Return `%v` of decoded JSON."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_float(value)
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_value, value)) + "]"
    return str(value)


def go_syntax(value: Any, key_type: str = "string") -> str:
    """Return `%#v` of decoded JSON, or of YAML, whose maps have keys of type interface {}."""
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, int):
        return hex(value) if value >= 1 << 63 else str(value)
    if isinstance(value, float):
        return go_float(value)
    if isinstance(value, dict):
        shown = ((go_syntax(key, key_type), go_syntax(value[key], key_type)) for key in value)
        pairs = ", ".join(f"{key}:{item}" for key, item in sorted(shown))
        return f"map[{key_type}]interface {{}}{{{pairs}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(go_syntax(item, key_type) for item in value)}}}"
    return go_syntax(value.value, key_type)


def go_type(value: Any) -> str:
    """Return `%T` of decoded JSON."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, bool):
        return "bool"
    for kind, name in (
        (str, "string"),
        (int, "int64"),
        (float, "float64"),
        (dict, "map[string]interface {}"),
    ):
        if isinstance(value, kind):
            return name
    return "[]interface {}"
