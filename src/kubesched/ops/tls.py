"""TLS of the ops server: contexts, server name selection, versions and cipher suites.

Owns the contexts, recreated for new connections when a certificate or an authority changes. Never
handles a request.
Upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go tlsConfig,
dynamiccertificates/tlsconfig.go
"""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubesched.client.http.tls import pem_file
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.ops.client_certificates import CaBundle, Trust
from kubesched.ops.serving import ServingError, ServingSettings
from kubesched.ops.serving_certificates import (
    DynamicFileContent,
    KeyPair,
    pair_in_directory,
    self_signed,
    write_pair,
)
from kubesched.ops.tls_names import insecure_ciphers, openssl_ciphers, openssl_curves, tls_version

_PAIR_NAME = "kube-scheduler"
_State = tuple[tuple[KeyPair, ...], tuple[CaBundle, ...]]


class ServingTls:
    """The context of the listener, and one context per certificate."""

    def __init__(self, settings: ServingSettings, trust: Trust, *, clock: Clock, log: Log) -> None:
        """Load or create the certificates; ServingError if they are invalid.

        Takes a tenth of a second if a key has to be generated: call it in a thread.
        """
        self._settings = settings
        self._trust = trust
        self._log = log
        self._ciphers = openssl_ciphers(settings.tls_cipher_suites)
        self._curves = openssl_curves(settings.tls_curve_preferences)
        self._minimum = tls_version(settings.tls_min_version)
        self._pairs = _pairs(settings, clock, log)
        self._state: _State | None = None
        self._default = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._by_name: dict[str, ssl.SSLContext] = {}
        self.context = self._new_context()
        # Called for each connection, even without a server name.
        self.context.sni_callback = self._choose
        self._log_weaknesses()
        self.refresh()

    def refresh(self) -> None:
        """Recreate the contexts if a certificate or an authority has changed."""
        pairs = tuple(pair() for pair in self._pairs)
        state = (pairs, tuple(self._trust.authorities()))
        if state == self._state:
            return
        contexts = [self._with(pair, state[1]) for pair in pairs]
        self._default = contexts[0]
        self._by_name = self._named(pairs, contexts)
        # Connections start with this context.
        with pem_file(pairs[0].pem) as path:
            self.context.load_cert_chain(path)
        self.context.verify_mode = self._default.verify_mode
        self._state = state

    def _with(self, pair: KeyPair, authorities: tuple[CaBundle, ...]) -> ssl.SSLContext:
        context = self._new_context()
        with pem_file(pair.pem) as path:
            context.load_cert_chain(path)
        if authorities:
            pem = b"\n".join(bundle.pem for bundle in authorities)
            context.load_verify_locations(cadata=pem.decode("ascii", errors="ignore"))
            # Differs: Go accepts any certificate here and rejects the request. Python's ssl can
            # only reject the connection of a client with an untrusted certificate.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with warnings.catch_warnings():
            # ssl deprecates old versions, which the flag may request.
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = self._minimum
        context.set_alpn_protocols(["http/1.1"])
        # An intermediate authority counts as a root, as in Go.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # A resumed session would keep an old client certificate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            if self._ciphers:
                context.set_ciphers(":".join(self._ciphers))
            elif self._settings.tls_cipher_suites:
                context.minimum_version = ssl.TLSVersion.TLSv1_3
            if len(self._curves) == 1:
                context.set_ecdh_curve(self._curves[0])
        except (ssl.SSLError, ValueError) as error:
            raise ServingError(f"not supported by this OpenSSL: {error}") from error
        return context

    def _named(
        self, pairs: tuple[KeyPair, ...], contexts: list[ssl.SSLContext]
    ) -> dict[str, ssl.SSLContext]:
        """Return contexts by server name; names from flags win over names in certificates.

        Parity: named_certificates.go BuildNamedCertificates, v1.36.
        """
        from_certificates: dict[str, ssl.SSLContext] = {}
        explicit: dict[str, ssl.SSLContext] = {}
        # Without the default certificate; the first one wins.
        offset = len(pairs) - len(self._settings.tls_sni_cert_keys)
        for position in reversed(range(len(self._settings.tls_sni_cert_keys))):
            names = self._settings.tls_sni_cert_keys[position].names
            context = contexts[offset + position]
            explicit.update((name.lower(), context) for name in names)
            if not names:
                names_in_it = pairs[offset + position].names()
                from_certificates.update((name.lower(), context) for name in names_in_it)
        return {**from_certificates, **explicit}

    def _choose(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        """Select the certificate for the server name, and the current authorities."""
        del context
        try:
            self.refresh()
        except (OSError, ValueError) as error:
            self._log.error("Unhandled Error", err=f"key failed with : {error}")
        connection.context = self._context_for((name or "").lower().rstrip("."))

    def _context_for(self, name: str) -> ssl.SSLContext:
        if (exact := self._by_name.get(name)) is not None:
            return exact
        wildcard = f"*.{name.partition('.')[2]}"
        return self._by_name.get(wildcard, self._default)

    def _log_weaknesses(self) -> None:
        for name in insecure_ciphers(self._settings.tls_cipher_suites):
            self._log.line(f"Use of insecure cipher '{name}' detected.", severity="W")
        if len(self._curves) > 1:
            self._log.line(
                "--tls-curve-preferences with more than one value is not supported here, "
                "OpenSSL's defaults are used.",
                severity="W",
            )


def _pairs(settings: ServingSettings, clock: Clock, log: Log) -> list[Callable[[], KeyPair]]:
    """Return the certificate sources: the default one first, then those for server names."""
    try:
        sources = [_default_pair(settings, clock, log)]
    except (OSError, ValueError) as error:
        raise ServingError(_text(error)) from error
    for named in settings.tls_sni_cert_keys:
        try:
            files = _followed("sni-serving-cert", named.cert_file, named.key_file, clock, log)
        except (OSError, ValueError) as error:
            raise ServingError(f"failed to load SNI cert and key: {_text(error)}") from error
        sources.append(files.current)
    return sources


def _default_pair(settings: ServingSettings, clock: Clock, log: Log) -> Callable[[], KeyPair]:
    files = settings.tls_cert_file, settings.tls_private_key_file
    if not any(files) and settings.cert_dir:
        certificate, key, is_there = pair_in_directory(settings.cert_dir, _PAIR_NAME)
        files = certificate, key
        if not is_there:
            write_pair(self_signed(settings.bind_address, clock.now_s()), certificate, key)
            log.line(f"Generated self-signed cert ({certificate}, {key})")
    if any(files):
        return _followed("serving-cert", *files, clock, log).current
    pair = self_signed(settings.bind_address, clock.now_s())
    log.line("Generated self-signed cert in-memory")
    return lambda: pair


def _followed(
    purpose: str, certificate_file: str, key_file: str, clock: Clock, log: Log
) -> DynamicFileContent[KeyPair]:
    if not certificate_file or not key_file:
        raise ValueError("missing filename for serving cert")
    name = f"{purpose}::{certificate_file}::{key_file}"

    def parse(contents: list[bytes]) -> KeyPair:
        if not all(contents):
            raise ValueError(f'missing content for serving cert "{name}"')
        pair = KeyPair(contents[0], contents[1])
        with pem_file(pair.pem) as path:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
        return pair

    return DynamicFileContent(
        [certificate_file, key_file],
        parse,
        clock=clock,
        log=log,
        loaded=("Loaded a new cert/key pair", name),
    )


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"open {Path(error.filename)}: {(error.strerror or '').lower()}"
    return str(error)
