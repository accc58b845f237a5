"""Answers as YAML, for clients that ask for it.

Owns the style of texts: quoted as Go's library quotes them.
Upstream: sigs.k8s.io/yaml
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from kubesched.apiserver.documents import Document

_STRING: Final = "tag:yaml.org,2002:str"


class _Dumper(yaml.SafeDumper):
    """Writes texts that look like something else in double quotes, and long ones as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        """Tell that nothing is written as a reference."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif _resolve(dumper, text) != _STRING:
        style = '"'
    return dumper.represent_scalar(_STRING, text, style=style)


def _resolve(dumper: Any, text: str) -> Any:
    """Return what a reader would take the text for, unquoted."""
    return dumper.resolve(yaml.ScalarNode, text, (True, False))


_Dumper.add_representer(str, _text)


def as_yaml(document: Document) -> bytes:
    """Return a document as YAML."""
    text = yaml.dump(document, Dumper=_Dumper, default_flow_style=False, allow_unicode=True)
    return text.encode()
