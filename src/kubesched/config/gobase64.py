"""Base64 as Go's standard encoding reads it: padded, line breaks ignored anywhere.

Owns the place of the first illegal byte, which Go's message names. Never decodes leniently.
Upstream: Go encoding/base64
"""

import base64

_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BREAKS = b"\r\n"


def decode_base64(text: str) -> bytes:
    """Return the decoded bytes.

    Raises:
        ValueError: With Go's text, naming the illegal byte.
    """
    data = text.encode("utf-8", "replace")
    illegal = _illegal_byte(data)
    if illegal is not None:
        raise ValueError(f"illegal base64 data at input byte {illegal}")
    return base64.b64decode(data.translate(None, _BREAKS))


def _illegal_byte(data: bytes) -> int | None:
    in_group = 0
    for index, byte in enumerate(data):
        if byte in _BREAKS:
            continue
        if byte == ord("="):
            return _illegal_padding(data, index, in_group)
        if byte not in _ALPHABET:
            return index
        in_group = (in_group + 1) % 4
    return len(data) - in_group if in_group else None


def _illegal_padding(data: bytes, index: int, in_group: int) -> int | None:
    if in_group < 2:
        return index
    at = _after_breaks(data, index + 1)
    if in_group == 2:
        if at == len(data):
            return at
        if data[at] != ord("="):
            return at - 1
        at = _after_breaks(data, at + 1)
    return at if at < len(data) else None


def _after_breaks(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _BREAKS:
        at += 1
    return at
