"""The certificate that a client shows, and whether an authority stands behind it.

Owns the reading of certificates and bundles of authorities. Never knows what a name in a
certificate means: authentication does.
Upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

_PEM_END = b"-----END CERTIFICATE-----"
_PEM_BEGIN = b"-----BEGIN CERTIFICATE-----"


class PeerError(Exception):
    """A certificate is not to be believed."""


class CaBundle:
    """Authorities, read from PEM."""

    def __init__(self, pem: bytes) -> None:
        """Read a bundle; ValueError if it has no certificate or a broken one."""
        self.pem = pem
        blocks = [
            _PEM_BEGIN + part.partition(_PEM_END)[0] + _PEM_END + b"\n"
            for part in pem.split(_PEM_BEGIN)[1:]
        ]
        self.certificates = [x509.load_pem_x509_certificate(block) for block in blocks]
        if not self.certificates:
            raise ValueError("data does not contain any valid RSA or ECDSA certificates")
        self._encoded = frozenset(one.public_bytes(Encoding.DER) for one in self.certificates)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CaBundle) and other.pem == self.pem

    def __hash__(self) -> int:
        return hash(self.pem)

    def stands_behind(self, peer: Peer) -> bool:
        """Return whether the chain of a client leads to one of these authorities."""
        if any(encoded in self._encoded for encoded in peer.chain):
            return True
        # A resumed session has no chain.
        return any(_issued(peer.certificate, one) for one in self.certificates)


@dataclass(frozen=True)
class Peer:
    """What a client showed, verified by TLS against all authorities that were known then."""

    encoded: bytes
    chain: tuple[bytes, ...] = ()
    """Up to the authority that was trusted, the client's own certificate first."""

    @cached_property
    def certificate(self) -> x509.Certificate:
        """Return the certificate, read."""
        return x509.load_der_x509_certificate(self.encoded)

    def check(self, bundle: CaBundle, now_s: float) -> None:
        """Raise PeerError unless one of the authorities stands behind it, now.

        TLS has verified signatures, purposes and times when the connection was made; authorities
        and the time may have changed since.
        """
        if not bundle.stands_behind(self):
            raise PeerError("x509: certificate signed by unknown authority")
        now = datetime.fromtimestamp(now_s, UTC)
        first, last = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        if not first <= now <= last:
            border = f"before {_rfc3339(first)}" if now < first else f"after {_rfc3339(last)}"
            raise PeerError(
                "x509: certificate has expired or is not yet valid: "
                f"current time {_rfc3339(now)} is {border}"
            )


def peer_of(tls: Any) -> Peer | None:
    """Return what the client of a connection showed, None if nothing."""
    if not isinstance(tls, ssl.SSLObject):
        return None
    encoded = tls.getpeercert(binary_form=True)
    return Peer(encoded, _verified_chain(tls)) if encoded else None


def _verified_chain(tls: ssl.SSLObject) -> tuple[bytes, ...]:
    if hasattr(tls, "get_verified_chain"):
        return tuple(tls.get_verified_chain())
    # Public from Python 3.13 on; 3.11 and 3.12 have it all the same, and change no more.
    chain = tls._sslobj.get_verified_chain()  # type: ignore[attr-defined]  # noqa: SLF001
    return tuple(ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in chain or ())


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
