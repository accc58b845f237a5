"""Certificates and keys of a short-lived cluster.

Owns the files: a CA, a serving certificate for loopback, and a service account key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubesched.cluster.apiserver.auth.certificates import new_authority
from kubesched.kit.clock import SystemClock


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files of one cluster."""

    authority: Path
    authority_key: Path
    serving: Path
    serving_key: Path
    service_account_key: Path
    service_account_public_key: Path


def write_certificates(directory: Path) -> CertificateFiles:
    """Write the files of a cluster on loopback, valid for a year."""
    files = CertificateFiles(
        authority=directory / "ca.crt",
        authority_key=directory / "ca.key",
        serving=directory / "api.crt",
        serving_key=directory / "api.key",
        service_account_key=directory / "sa.key",
        service_account_public_key=directory / "sa.pub",
    )
    now_s = SystemClock().now_s()
    authority = new_authority(now_s)
    serving = authority.serving((), now_s)
    account_key = ec.generate_private_key(ec.SECP256R1())
    account_key_pem = account_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    for path, key in (
        (files.authority_key, authority.key_pem),
        (files.serving_key, serving.key),
        (files.service_account_key, account_key_pem),
    ):
        path.touch(mode=0o600)
        path.write_bytes(key)
    files.authority.write_bytes(authority.pem)
    files.serving.write_bytes(serving.certificate)
    files.service_account_public_key.write_bytes(
        account_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return files
