"""The certificates that the server shows: given in files, kept in a directory, or made up.

Owns making and reading them. Never decides which one a client sees: tls does.
Upstream: staging/src/k8s.io/apiserver/pkg/server/options/serving.go
MaybeDefaultWithSelfSignedCerts, staging/src/k8s.io/client-go/util/cert/cert.go
"""

from __future__ import annotations

import ipaddress
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_HOST = "localhost"
_KEY_BITS = 2048


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with those above it, and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def names(self) -> list[str]:
        """Return the server names it is for.

        Parity: dynamiccertificates/named_certificates.go getCertificateNames, v1.36.
        """
        leaf = x509.load_pem_x509_certificate(self.certificate)
        common = [
            str(one.value) for one in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        ]
        names = [name for name in common[-1:] if _is_domain(name)]
        try:
            alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return names
        return names + alternative.value.get_values_for_type(x509.DNSName)


@contextmanager
def as_files(pair: KeyPair) -> Iterator[str]:
    """Give a pair a path: OpenSSL's binding reads files only. In memory where that can be."""
    data = pair.certificate + b"\n" + pair.key
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("serving-certificate")
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name


def pair_in_directory(directory: str, name: str) -> tuple[str, str, bool]:
    """Return the paths of a kept pair and whether it is there; ValueError if half of it is."""
    paths = [str(Path(directory, f"{name}.{end}")) for end in ("crt", "key")]
    readable = [_is_readable(path) for path in paths]
    for path, is_there in zip(paths, readable, strict=True):
        if not is_there and any(readable):
            raise ValueError(
                f"error reading {path}, certificate and key must be supplied as a pair"
            )
    return paths[0], paths[1], all(readable)


def write_pair(pair: KeyPair, certificate_file: str, key_file: str) -> None:
    """Keep a pair; the key for its owner only."""
    for path, data, mode in (
        (Path(certificate_file), pair.certificate, 0o644),
        (Path(key_file), pair.key, 0o600),
    ):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.touch(mode=mode)
        path.write_bytes(data)


def self_signed(bind_address: str, now_s: float) -> KeyPair:
    """Return a new pair for this machine, good for a year; takes a tenth of a second.

    Parity: cert.go GenerateSelfSignedCertKeyWithOptions, v1.36. The authority's key is used once
    and thrown away, so that it may be of the kind that is quick to make.
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
    certificates = [one.public_bytes(serialization.Encoding.PEM) for one in (leaf, authority)]
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
    return [x509.DNSName(_HOST), *(x509.IPAddress(one) for one in addresses)]


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


_DOMAIN = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


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
