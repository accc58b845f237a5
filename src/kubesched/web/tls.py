"""The server's side of TLS: which certificate it shows, and whose it asks clients for.

Owns the contexts, made anew when a certificate or an authority changes, for every connection opened
afterwards. Never looks at a request.
Upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go tlsConfig,
dynamiccertificates/tlsconfig.go
"""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.web.cipher_suites import (
    insecure_ciphers,
    openssl_ciphers,
    openssl_curves,
    tls_version,
)
from kubesched.web.followed_files import FollowedFiles
from kubesched.web.peers import CaBundle
from kubesched.web.serving_certificates import (
    KeyPair,
    as_files,
    pair_in_directory,
    self_signed,
    write_pair,
)
from kubesched.web.settings import ServingError, ServingSettings
from kubesched.web.trust import Trust

_State = tuple[tuple[KeyPair, ...], tuple[CaBundle, ...]]


class ServingTls:
    """The context of the listener, and behind it one for every certificate."""

    def __init__(self, settings: ServingSettings, trust: Trust, *, clock: Clock, log: Log) -> None:
        """Read or make the certificates; ServingError if they do not fit.

        Takes a tenth of a second if a key has to be made: call it beside the event loop.
        """
        self._settings = settings
        self._trust = trust
        self._log = log
        self._ciphers = openssl_ciphers(settings.cipher_suites)
        self._curves = openssl_curves(settings.curve_preferences)
        self._minimum = tls_version(settings.min_tls_version)
        self._pairs = _pairs(settings, clock, log)
        self._state: _State | None = None
        self._default = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._by_name: dict[str, ssl.SSLContext] = {}
        self.context = self._new_context()
        # Called for each connection, also for those that name no server.
        self.context.sni_callback = self._choose
        self._say_weaknesses()
        self.refresh()

    def refresh(self) -> None:
        """Make contexts anew if a certificate or an authority has changed."""
        pairs = tuple(pair() for pair in self._pairs)
        state = (pairs, tuple(self._trust.authorities()))
        if state == self._state:
            return
        contexts = [self._with(pair, state[1]) for pair in pairs]
        self._default = contexts[0]
        self._by_name = self._named(pairs, contexts)
        # What a connection takes before it has named a server: it is made of this one.
        with as_files(pairs[0]) as path:
            self.context.load_cert_chain(path)
        self.context.verify_mode = self._default.verify_mode
        self._state = state

    def _with(self, pair: KeyPair, authorities: tuple[CaBundle, ...]) -> ssl.SSLContext:
        context = self._new_context()
        with as_files(pair) as path:
            context.load_cert_chain(path)
        if authorities:
            pem = b"\n".join(bundle.pem for bundle in authorities)
            context.load_verify_locations(cadata=pem.decode("ascii", errors="ignore"))
            # Differs: Go takes any certificate here and refuses the request; OpenSSL's binding can
            # only refuse the connection of a client whose certificate nobody signed.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with warnings.catch_warnings():
            # Versions that are out of date are deprecated there; the flag may ask for them.
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = self._minimum
        context.set_alpn_protocols(["http/1.1"])
        # An authority in the middle is as good as a root, as in Go.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # A resumed session would bring the certificate of another time along.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            if self._ciphers:
                context.set_ciphers(":".join(self._ciphers))
            elif self._settings.cipher_suites:
                context.minimum_version = ssl.TLSVersion.TLSv1_3
            if len(self._curves) == 1:
                context.set_ecdh_curve(self._curves[0])
        except (ssl.SSLError, ValueError) as error:
            raise ServingError(f"not supported by this OpenSSL: {error}") from error
        return context

    def _named(
        self, pairs: tuple[KeyPair, ...], contexts: list[ssl.SSLContext]
    ) -> dict[str, ssl.SSLContext]:
        """Return contexts by server name: names that a flag gives go before those found.

        Parity: named_certificates.go BuildNamedCertificates, v1.36.
        """
        found: dict[str, ssl.SSLContext] = {}
        explicit: dict[str, ssl.SSLContext] = {}
        # All but the default one, which need not be there twice; the first given wins.
        offset = len(pairs) - len(self._settings.sni_certificates)
        for position in reversed(range(len(self._settings.sni_certificates))):
            names = self._settings.sni_certificates[position].names
            context = contexts[offset + position]
            explicit.update((name.lower(), context) for name in names)
            if not names:
                found.update((name.lower(), context) for name in pairs[offset + position].names())
        return {**found, **explicit}

    def _choose(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        """Give a connection the certificate for the name it asks for, and today's authorities."""
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

    def _say_weaknesses(self) -> None:
        for name in insecure_ciphers(self._settings.cipher_suites):
            self._log.line(f"Use of insecure cipher '{name}' detected.", severity="W")
        if len(self._curves) > 1:
            self._log.line(
                "--tls-curve-preferences with more than one value is not supported here, "
                "OpenSSL's defaults are used.",
                severity="W",
            )


def _pairs(settings: ServingSettings, clock: Clock, log: Log) -> list[Callable[[], KeyPair]]:
    """Return what gives the certificates: the default one first, then those for server names."""
    try:
        found = [_default_pair(settings, clock, log)]
    except (OSError, ValueError) as error:
        raise ServingError(_text(error)) from error
    for one in settings.sni_certificates:
        try:
            files = _followed("sni-serving-cert", one.certificate_file, one.key_file, clock, log)
        except (OSError, ValueError) as error:
            raise ServingError(f"failed to load SNI cert and key: {_text(error)}") from error
        found.append(files.current)
    return found


def _default_pair(settings: ServingSettings, clock: Clock, log: Log) -> Callable[[], KeyPair]:
    files = settings.tls_cert_file, settings.tls_private_key_file
    if not any(files) and settings.cert_dir:
        certificate, key, is_there = pair_in_directory(settings.cert_dir, settings.pair_name)
        files = certificate, key
        if not is_there:
            write_pair(self_signed(settings.bind_address, clock.now_s()), certificate, key)
            log.line(f"Generated self-signed cert ({certificate}, {key})")
    if any(files):
        return _followed("serving-cert", *files, clock, log).current
    made = self_signed(settings.bind_address, clock.now_s())
    log.line("Generated self-signed cert in-memory")
    return lambda: made


def _followed(
    purpose: str, certificate_file: str, key_file: str, clock: Clock, log: Log
) -> FollowedFiles[KeyPair]:
    if not certificate_file or not key_file:
        raise ValueError("missing filename for serving cert")
    name = f"{purpose}::{certificate_file}::{key_file}"

    def parse(contents: list[bytes]) -> KeyPair:
        if not all(contents):
            raise ValueError(f'missing content for serving cert "{name}"')
        pair = KeyPair(contents[0], contents[1])
        with as_files(pair) as path:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
        return pair

    return FollowedFiles(
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
