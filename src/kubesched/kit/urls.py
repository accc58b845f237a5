"""Addresses: taken apart, and as they may be shown.

Owns that no password of an address reaches a text, and the words for an address that is none.
Never connects.
Upstream: Go's net/http/client.go stripPassword, net/url/url.go parseHost
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from kubesched.kit.go_text import go_quote

# A scheme, a user, a colon, the password: all up to the last @ of the part that names the host.
_PASSWORD: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^/?#:@]*):[^/?#]*@")


def without_password(address: str) -> str:
    """Return an address with three asterisks in place of its password."""
    return _PASSWORD.sub(r"\1:***@", address, count=1)


def split_address(address: str) -> SplitResult:
    """Return the parts of an address; ValueError with Go's words if it has no such parts."""
    try:
        parts = urlsplit(address)
    except ValueError:
        text = f"parse {go_quote(without_password(address))}: missing ']' in host"
        raise ValueError(text) from None
    try:
        _ = parts.port
    except ValueError:
        port = parts.netloc.rpartition("@")[2].rpartition(":")[2]
        text = f"parse {go_quote(without_password(address))}: invalid port"
        raise ValueError(f"{text} {go_quote(':' + port)} after host") from None
    return parts
