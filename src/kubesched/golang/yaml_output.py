"""YAML, written in the style of Go's library.

Quotes every string that a reader of YAML 1.1 or 1.2 would resolve to another type.
Upstream: sigs.k8s.io/yaml
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from kubesched.golang.yaml_scalars import STR, resolve

# Strings that readers other than Go's resolve to a number, a time or a special key.
_AMBIGUOUS: Final = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0[bB][01_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|\.?[0-9][0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?|\.(inf|Inf|INF)|\.(nan|NaN|NAN))"
    r"|[0-9]{4}-[0-9].*|=|<<|[yYnN~]|"
)


def dump_yaml(document: Mapping[str, Any], *, sort_keys: bool = True, width: int = 10_000) -> str:
    """Return plain values as YAML."""
    text: str = yaml.dump(
        dict(document),
        Dumper=_Dumper,
        default_flow_style=False,
        sort_keys=sort_keys,
        allow_unicode=True,
        width=width,
    )
    return text


def as_yaml(document: Mapping[str, Any]) -> bytes:
    """Return an API object as YAML, long lines folded."""
    return dump_yaml(document, width=80).encode()


class _Dumper(yaml.SafeDumper):
    """Quotes ambiguous strings, writes multi-line strings as blocks, and writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        """Write shared values in full: Go's writer has no anchors."""
        del data
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif resolve("", text)[0] != STR or _AMBIGUOUS.fullmatch(text):
        style = '"'
    return dumper.represent_scalar(STR, text, style=style)


_Dumper.add_representer(str, _represent_text)
