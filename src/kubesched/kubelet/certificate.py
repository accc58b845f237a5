"""The certificate under which the kubelets serve.

Owns its making: signed by itself, as kubelets have it that were given none. Never asks anybody to
sign it; API servers do not verify it unless they are told whom to trust.
Upstream: pkg/kubelet/server, staging/src/k8s.io/client-go/util/cert GenerateSelfSignedCertKey
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NAME: Final = "kubesched-kubelets"
_VALID: Final = timedelta(days=365)


def serving_context(address: str, now_s: float) -> ssl.SSLContext:
    """Return what serves TLS at an address."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(key, address, datetime.fromtimestamp(now_s, UTC))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # The standard library reads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="kubesched-") as directory:
        certificate_file, key_file = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.touch(mode=0o600)
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        context.load_cert_chain(certificate_file, key_file)
    return context


def _certificate(key: ec.EllipticCurvePrivateKey, address: str, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    try:
        names.append(x509.IPAddress(ipaddress.ip_address(address)))
    except ValueError:
        names.append(x509.DNSName(address))
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
