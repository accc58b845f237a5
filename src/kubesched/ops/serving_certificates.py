"""Serving certificates: loaded from files, kept in a directory, or self-signed.

Owns creating, loading and reloading them. Never selects one for a connection: tls does.
Upstream: staging/src/k8s.io/apiserver/pkg/server/options/serving.go
MaybeDefaultWithSelfSignedCerts, staging/src/k8s.io/client-go/util/cert/cert.go
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log

_HOST = "localhost"
_KEY_BITS = 2048
_DOMAIN = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
T = TypeVar("T")
_CHECK_S = 1.0


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate chain and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def pem(self) -> bytes:
        """Return both in one PEM file."""
        return self.certificate + b"\n" + self.key

    def names(self) -> list[str]:
        """Return its server names.

        Parity: dynamiccertificates/named_certificates.go getCertificateNames, v1.36.
        """
        leaf = x509.load_pem_x509_certificate(self.certificate)
        common = [
            str(name.value) for name in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        ]
        names = [name for name in common[-1:] if _is_domain(name)]
        try:
            alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return names
        return names + alternative.value.get_values_for_type(x509.DNSName)


def pair_in_directory(directory: str, name: str) -> tuple[str, str, bool]:
    """Return the paths of a pair and whether it exists; ValueError if only half of it does."""
    paths = [str(Path(directory, f"{name}.{end}")) for end in ("crt", "key")]
    readable = [_is_readable(path) for path in paths]
    for path, is_there in zip(paths, readable, strict=True):
        if not is_there and any(readable):
            raise ValueError(
                f"error reading {path}, certificate and key must be supplied as a pair"
            )
    return paths[0], paths[1], all(readable)


def write_pair(pair: KeyPair, certificate_file: str, key_file: str) -> None:
    """Save a pair, with a key that only the owner can read."""
    for path, data, mode in (
        (Path(certificate_file), pair.certificate, 0o644),
        (Path(key_file), pair.key, 0o600),
    ):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.touch(mode=mode)
        path.write_bytes(data)


def self_signed(bind_address: str, now_s: float) -> KeyPair:
    """Return a new pair for this host, valid for a year; takes a tenth of a second.

    Parity: cert.go GenerateSelfSignedCertKeyWithOptions, v1.36. The authority's key is used once,
    so it may be of a kind that is quick to generate.
    """
    start = datetime.fromtimestamp(int(now_s), UTC) - timedelta(hours=1)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _named(f"{_HOST}-ca@{int(now_s)}")
    authority = (
        _draft(authority_name, authority_name, authority_key.public_key(), start)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    leaf = (
        _draft(_named(f"{_HOST}@{int(now_s)}"), authority_name, key.public_key(), start)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(_own_names(bind_address)), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificates = [cert.public_bytes(serialization.Encoding.PEM) for cert in (leaf, authority)]
    return KeyPair(
        b"".join(certificates),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ),
    )


def _own_names(bind_address: str) -> list[x509.GeneralName]:
    addresses = [ipaddress.ip_address("127.0.0.1")]
    bound = ipaddress.ip_address(bind_address)
    if not bound.is_unspecified and bound not in addresses:
        addresses.append(bound)
    return [x509.DNSName(_HOST), *map(x509.IPAddress, addresses)]


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _draft(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
    start: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=365))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _is_domain(name: str) -> bool:
    return name == "*" or (_DOMAIN.fullmatch(name) is not None and not _is_address(name))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_readable(path: str) -> bool:
    try:
        with Path(path).open("rb"):
            return True
    except OSError:
        return False


class DynamicFileContent(Generic[T]):
    """A value that is loaded from files, and reloaded when a file changes."""

    def __init__(
        self,
        paths: Sequence[str],
        parse: Callable[[list[bytes]], T],
        *,
        clock: Clock,
        log: Log,
        loaded: tuple[str, str],
    ) -> None:
        """Load the files; raise if that fails.

        Args:
            paths: The files.
            parse: Returns the value of their contents; raises ValueError or OSError.
            clock: Limits how often the files are checked.
            log: The log.
            loaded: The message to log after each load, and the name of the value.
        """
        self._paths = [Path(path) for path in paths]
        self._parse = parse
        self._clock = clock
        self._log = log
        self._loaded = loaded
        self._stamps = self._stat()
        self._contents = self._read()
        self.value = parse(self._contents)
        self._check_s = clock.monotonic_s() + _CHECK_S
        self._log_load()

    def current(self) -> T:
        """Return the current value."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._check_s:
            self._check_s = now_s + _CHECK_S
            stamps = self._stat()
            if stamps != self._stamps:
                self._reload(stamps)
        return self.value

    def _reload(self, stamps: list[tuple[int, int, int]]) -> None:
        try:
            contents = self._read()
            if contents != self._contents:
                self.value = self._parse(contents)
                self._contents = contents
                self._log_load()
        except (OSError, ValueError) as error:
            # Possibly half written; try again, since the stamps are not updated.
            name = self._loaded[1]
            self._log.error("Unhandled Error", err=f"{name} failed with : {error}")
            return
        self._stamps = stamps

    def _read(self) -> list[bytes]:
        return [path.read_bytes() for path in self._paths]

    def _log_load(self) -> None:
        self._log.info(self._loaded[0], level=2, name=self._loaded[1])

    def _stat(self) -> list[tuple[int, int, int]]:
        stamps = []
        for path in self._paths:
            try:
                status = path.stat()
            except OSError:
                stamps.append((0, 0, 0))
            else:
                stamps.append((status.st_mtime_ns, status.st_ino, status.st_size))
        return stamps
