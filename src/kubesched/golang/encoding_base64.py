"""Base64, decoded as Go's StdEncoding does: padded, line breaks ignored.

Owns Go's error, which names the first illegal byte.
Upstream: Go encoding/base64
"""

import base64
import re

_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BREAKS = b"\r\n"
_WELL_FORMED = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def decode_base64(text: str) -> bytes:
    """Return the decoded bytes.

    Raises:
        ValueError: With Go's text, naming the illegal byte.
    """
    data = text.encode("utf-8", "replace")
    plain = data.translate(None, _BREAKS)
    if _WELL_FORMED.fullmatch(plain):
        return base64.b64decode(plain)
    raise ValueError(f"illegal base64 data at input byte {_illegal_byte(data)}")


def _illegal_byte(data: bytes) -> int:
    in_group = 0
    for index, byte in enumerate(data):
        if byte in _BREAKS:
            continue
        if byte == ord("="):
            return _illegal_padding(data, index, in_group)
        if byte not in _ALPHABET:
            return index
        in_group = (in_group + 1) % 4
    return len(data) - in_group


def _illegal_padding(data: bytes, index: int, in_group: int) -> int:
    if in_group < 2:
        return index
    at = _after_breaks(data, index + 1)
    if in_group == 2:
        if at == len(data):
            return at
        if data[at] != ord("="):
            return at - 1
        at = _after_breaks(data, at + 1)
    return at


def _after_breaks(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _BREAKS:
        at += 1
    return at
