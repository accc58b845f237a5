"""Requests, a fake API server, and certificates."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from multidict import CIMultiDict, CIMultiDictProxy

from kubesched.metrics.instruments import Measures
from kubesched.metrics.serving import ServingMetrics
from kubesched.ops.client_certificates import Peer
from kubesched.ops.http_messages import Request


def a_request(
    path: str = "/metrics",
    *,
    method: str = "GET",
    headers: list[tuple[str, str]] | None = None,
    peer: Peer | None = None,
    body: bytes = b"",
) -> Request:
    async def read() -> bytes:
        return body

    sent = CIMultiDictProxy(CIMultiDict(headers or []))
    return Request(method, path.partition("?")[0], path, sent, read, peer)


class ApiServer:
    """Responds by a function, and records the requests."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], Any]) -> None:
        self._answer = answer
        self.requests: list[tuple[str, str, dict[str, Any]]] = []

    async def request(
        self, method: str, path: str, *, body: Any = None, timeout_s: float | None = None
    ) -> bytes:
        assert timeout_s == 10
        document = json.loads(body) if body else {}
        self.requests.append((method, path, document))
        answer = self._answer(path, document)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


def serving_metrics() -> ServingMetrics:
    return ServingMetrics(Measures())


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key.public_key(), is_authority=True)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def serving_pair(self) -> bytes:
        """Return a serving certificate with its key."""
        key = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self.pem + key

    def peer(self, *names: tuple[x509.ObjectIdentifier, str]) -> Peer:
        """Return the peer of a TLS connection with a certificate of this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
        leaf = self._sign(subject, key.public_key(), is_authority=False)
        encoded = leaf.public_bytes(Encoding.DER)
        return Peer(encoded, (encoded, self.certificate.public_bytes(Encoding.DER)))

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
    ) -> x509.Certificate:
        start = datetime(2020, 1, 1, tzinfo=UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
