"""TLS contexts of the client, reloaded when their files change.

Owns the contexts: a rewritten certificate or authority yields a new context for new connections.
Never opens a connection.
Upstream: staging/src/k8s.io/client-go/transport/transport.go TLSConfigFor, cert_rotation.go
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubesched.client.auth.credentials import AccessError, KeyPair, TlsSettings
from kubesched.golang.encoding_pem import (
    PemError,
    check_key_pair,
    check_root_certificates,
    pem_blocks,
)
from kubesched.kit.clock import Clock

_CHECK_S = 10.0


class TlsFiles:
    """The context for new connections, recreated when its files change."""

    def __init__(self, settings: TlsSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._files = [
            Path(name)
            for name, data in (
                (settings.authority_file, settings.authority_data),
                (settings.certificate_file, settings.certificate_data),
                (settings.key_file, settings.key_data),
            )
            if name and not data
        ]
        self._seen = self._stamps()
        self._pair: KeyPair | None = None
        self._context = make_context(settings)
        self._check_s = clock.monotonic_s() + _CHECK_S

    def context(self, pair: KeyPair | None = None) -> ssl.SSLContext:
        """Return the context for a connection, with the certificate of a plugin if any."""
        if pair is not self._pair:
            self._recreate(pair)
        elif self._files and self._clock.monotonic_s() >= self._check_s:
            self._reload()
        return self._context

    def check_now(self) -> None:
        """Check the files before the next connection."""
        self._check_s = float("-inf")

    def _reload(self) -> None:
        self._check_s = self._clock.monotonic_s() + _CHECK_S
        stamps = self._stamps()
        if stamps != self._seen:
            try:
                self._recreate(self._pair)
            except AccessError:
                # Half written: the certificate changed before its key. Try again later.
                return
            self._seen = stamps

    def _recreate(self, pair: KeyPair | None) -> None:
        self._context = make_context(self._settings, pair)
        self._pair = pair

    def _stamps(self) -> list[tuple[int, int, int]]:
        stamps = []
        for path in self._files:
            try:
                status = path.stat()
            except OSError:
                stamps.append((0, 0, 0))
            else:
                stamps.append((status.st_mtime_ns, status.st_ino, status.st_size))
        return stamps


def make_context(settings: TlsSettings, pair: KeyPair | None = None) -> ssl.SSLContext:
    """Return a context like that of Go's client; AccessError for invalid files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Go accepts an intermediate certificate in the pool as a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _trust(context, settings)
    try:
        if settings.certificate_file or settings.certificate_data:
            pair = KeyPair(
                settings.certificate_data or Path(settings.certificate_file).read_bytes(),
                settings.key_data or Path(settings.key_file).read_bytes(),
            )
        if pair is not None:
            _load_pair(context, pair)
    except OSError as error:
        raise AccessError(f"unable to load client certificate: {error}") from error
    return context


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return
    if not (settings.authority_data or settings.authority_file):
        context.load_default_certs()
        return
    try:
        data = settings.authority_data or Path(settings.authority_file).read_bytes()
        check_root_certificates(data)
        blocks = [block.der for block in pem_blocks(data) if block.type == "CERTIFICATE"]
        context.load_verify_locations(cadata=b"".join(blocks))
    except PemError as error:
        raise AccessError(str(error)) from error
    except OSError as error:
        raise AccessError(f"unable to load root certificates: {error}") from error


def _load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    try:
        check_key_pair(pair.certificate, pair.key)
        with pem_file(pair.certificate + b"\n" + pair.key) as path:
            context.load_cert_chain(path)
    except PemError as error:
        raise AccessError(str(error)) from error
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise AccessError("tls: private key does not match public key") from error
        raise


@contextmanager
def pem_file(data: bytes) -> Iterator[str]:
    """Write data to a file, in memory if possible, since ssl loads certificates from files only."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("certificate")
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name
