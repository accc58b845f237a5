"""Go's names of TLS versions, cipher suites and curves, as OpenSSL knows them.

Upstream: component-base cli/flag/{ciphersuites_flag,curves_flag}.go, Go 1.26 crypto/tls
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Final

from kubesched.golang.strconv import go_quote
from kubesched.ops.serving import ServingError

_TLS12: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
_INSECURE: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
# Always enabled in TLS 1.3, as in Go.
_TLS13: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_VERSIONS: Final[Mapping[str, int]] = {
    "": 0x0303,
    "VersionTLS10": 0x0301,
    "VersionTLS11": 0x0302,
    "VersionTLS12": 0x0303,
    "VersionTLS13": 0x0304,
}
_CURVES: Final[Mapping[int, str]] = {
    23: "prime256v1",
    24: "secp384r1",
    25: "secp521r1",
    29: "X25519",
    4587: "SecP256r1MLKEM768",
    4588: "X25519MLKEM768",
    4589: "SecP384r1MLKEM1024",
}


def openssl_ciphers(names: Sequence[str]) -> list[str]:
    """Return OpenSSL's names of suites up to TLS 1.2; ServingError for an unknown one."""
    ciphers = []
    for name in names:
        if name in _TLS13:
            continue
        cipher = _TLS12.get(name) or _INSECURE.get(name)
        if cipher is None:
            raise ServingError(f"Cipher suite {name} not supported or doesn't exist")
        ciphers.append(cipher)
    return ciphers


def insecure_ciphers(names: Sequence[str]) -> list[str]:
    """Return the insecure suites."""
    return [name for name in names if name in _INSECURE]


def tls_version(name: str) -> ssl.TLSVersion:
    """Return the minimum version; ServingError for an unknown one."""
    if name not in _VERSIONS:
        raise ServingError(f"unknown tls version {go_quote(name)}")
    return ssl.TLSVersion(_VERSIONS[name])


def openssl_curves(numbers: Sequence[int]) -> list[str]:
    """Return OpenSSL's names of key exchanges; ServingError for an unknown one.

    Parity: curves_flag.go TLSCurvePreferences, v1.36.
    """
    curves: list[str] = []
    for number in numbers:
        if not 0 < number <= 0xFFFF:
            raise ServingError(f"curve preference {number} is out of range (must be 1-65535)")
        if number in numbers[: len(curves)]:
            raise ServingError(f"duplicate curve preference {number}")
        if number not in _CURVES:
            raise ServingError(
                f"curve preference {number} is not supported by the current Go version"
            )
        curves.append(_CURVES[number])
    return curves
