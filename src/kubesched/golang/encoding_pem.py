"""PEM blocks, and the checks of certificates and keys that upstream makes when it starts.

Errors have Go's text. The content of a well-formed block is left to the TLS handshake.
Upstream: client-go transport/transport.go rootCertPool; Go crypto/tls X509KeyPair
"""

import re
from typing import NamedTuple

from kubesched.golang.encoding_base64 import decode_base64

_BLOCK = re.compile(
    rb"(?:^|\n)-----BEGIN ([^\n]*?)-----[ \t]*\r?\n(.*?)(?:^|\n)?-----END \1-----", re.DOTALL
)
_HEADER = re.compile(rb"[^\n:]+:[^\n]*\n")


class Block(NamedTuple):
    """One PEM block."""

    type: str
    has_headers: bool
    der: bytes


class PemError(ValueError):
    """Data that upstream rejects; the message is its own."""


def pem_blocks(data: bytes) -> list[Block]:
    """Return the PEM blocks in data, in order; anything else is skipped."""
    blocks: list[Block] = []
    for match in _BLOCK.finditer(data):
        body = match.group(2)
        header = _HEADER.match(body)
        has_headers = header is not None
        while header is not None:
            body = body[header.end() :]
            header = _HEADER.match(body)
        try:
            der = decode_base64(b"".join(body.split()).decode("utf-8", "replace"))
        except ValueError:
            continue
        blocks.append(Block(match.group(1).decode("utf-8", "replace"), has_headers, der))
    return blocks


def check_root_certificates(data: bytes) -> None:
    """Reject data without a CA certificate.

    Raises:
        PemError: With upstream's text.
    """
    blocks = pem_blocks(data)
    certificates = [b for b in blocks if b.type == "CERTIFICATE" and not b.has_headers]
    if any(_is_der_sequence(block.der) for block in certificates):
        return
    if certificates:
        problem = "failed to parse certificate: x509: malformed certificate"
    elif blocks:
        problem = _after_last_block(data)
    else:
        problem = "unable to parse bytes as PEM block"
    raise PemError(f"unable to load root certificates: {problem}")


def _after_last_block(data: bytes) -> str:
    last = list(_BLOCK.finditer(data))[-1]
    if data[last.end() :].lstrip(b"\r\n"):
        return "unable to parse bytes as PEM block"
    return "no valid certificate authority data seen"


def check_key_pair(certificate: bytes, key: bytes) -> None:
    """Reject a malformed certificate or key.

    Raises:
        PemError: With Go's text.
    """
    # Parity: Go crypto/tls/tls.go X509KeyPair
    certificates = _certificates(certificate)
    private = _private_key(key)
    if not _is_der_sequence(certificates[0]):
        raise PemError("x509: malformed certificate")
    if not _is_der_sequence(private):
        raise PemError("tls: failed to parse private key")


def _certificates(data: bytes) -> list[bytes]:
    blocks = pem_blocks(data)
    certificates = [block.der for block in blocks if block.type == "CERTIFICATE"]
    if certificates:
        return certificates
    skipped = [block.type for block in blocks]
    if not skipped:
        raise PemError("tls: failed to find any PEM data in certificate input")
    if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
        raise PemError(
            "tls: failed to find certificate PEM data in certificate input, but did find a "
            "private key; PEM inputs may have been switched"
        )
    raise PemError(
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
        f"blocks of the following types: [{' '.join(skipped)}]"
    )


def _private_key(data: bytes) -> bytes:
    skipped: list[str] = []
    for block in pem_blocks(data):
        if block.type == "PRIVATE KEY" or block.type.endswith(" PRIVATE KEY"):
            return block.der
        skipped.append(block.type)
    if not skipped:
        raise PemError("tls: failed to find any PEM data in key input")
    if skipped == ["CERTIFICATE"]:
        raise PemError("tls: found a certificate rather than a key in the PEM for the private key")
    raise PemError(
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
        f"skipping PEM blocks of the following types: [{' '.join(skipped)}]"
    )


def _is_der_sequence(der: bytes) -> bool:
    """Return whether bytes are exactly one ASN.1 sequence."""
    if len(der) < 2 or der[0] != 0x30:
        return False
    length, start = der[1], 2
    if length >= 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(der[2:start], "big")
    return start + length == len(der)
