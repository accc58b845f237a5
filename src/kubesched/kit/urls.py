"""URLs: parsing with Go's errors, and hiding passwords in messages.

Upstream: Go's net/http/client.go stripPassword, net/url/url.go parseHost
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from kubesched.golang.strconv import go_quote

# A scheme, a user, a colon and the password, up to the last @ before the host.
_PASSWORD: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^/?#:@]*):[^/?#]*@")


def without_password(address: str) -> str:
    """Return a URL with three asterisks in place of its password."""
    return _PASSWORD.sub(r"\1:***@", address, count=1)


def split_address(address: str) -> SplitResult:
    """Return the parts of a URL; raise ValueError with Go's text if it is malformed."""
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
