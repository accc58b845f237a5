"""Requests, an API server that answers what a test says, and certificates."""

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

from kubesched.kit.measures import Measures
from kubesched.model.serving_metrics import ServingMetrics
from kubesched.web.answers import Asked
from kubesched.web.peers import Peer
from kubesched.web.serving_counts import ServingCounts
from tests.unit.client.election_world import HandClock


def asked(
    path: str = "/metrics",
    *,
    method: str = "GET",
    headers: list[tuple[str, str]] | None = None,
    peer: Peer | None = None,
    body: bytes = b"",
) -> Asked:
    async def read() -> bytes:
        return body

    sent = CIMultiDictProxy(CIMultiDict(headers or []))
    return Asked(method, path.partition("?")[0], path, sent, read, peer)


class ApiServer:
    """Answers requests with what a function makes of them, and keeps them."""

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


def counts(clock: HandClock) -> ServingCounts:
    return ServingCounts(ServingMetrics(Measures()), clock)


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
        """Return its own certificate with its key, for a server."""
        key = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self.pem + key

    def peer(self, *names: tuple[x509.ObjectIdentifier, str]) -> Peer:
        """Return what TLS tells of a client with a certificate of this authority."""
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
