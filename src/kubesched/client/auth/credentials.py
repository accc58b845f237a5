"""Credentials for the API server, and how to reach it.

Owns fixed credentials, tokens in files that are rewritten, and the protocol of credential sources.
Never reads a kubeconfig and never opens a connection: kubeconfig and transport do.
Upstream: staging/src/k8s.io/client-go/transport/token_source.go
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, NullLog

_REREAD_S = 50.0  # A minute, less the leeway of client-go.


class AccessError(Exception):
    """The configuration of the cluster access is invalid."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of a request."""

    authorization: str = field(default="", repr=False)
    """The value of the Authorization header; empty for none."""
    certificate: KeyPair | None = None
    """A client certificate from a credential plugin."""


class CredentialSource(Protocol):
    """A source of credentials."""

    def cached(self) -> Credential | None:
        """Return the current credential; None if it has to be fetched."""

    async def fetch(self) -> Credential:
        """Return a credential; AccessError if that fails."""

    def reject(self, credential: Credential) -> None:
        """Report that the server rejected a credential."""


def basic_authorization(user: str, password: str) -> str:
    """Return the Authorization header of a user with a password."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


class FixedCredential:
    """A credential that never changes."""

    def __init__(self, authorization: str = "") -> None:
        self._credential = Credential(authorization)

    def cached(self) -> Credential | None:
        return self._credential

    async def fetch(self) -> Credential:
        return self._credential

    def reject(self, credential: Credential) -> None:
        """Do nothing: there is no other."""


class TokenFile:
    """A bearer token in a file, read again every minute and after a rejection.

    Parity: client-go transport/token_source.go NewCachedFileTokenSource, v1.36: a file that cannot
    be read leaves the last token in use.
    """

    def __init__(
        self, path: Path, *, first: str = "", clock: Clock | None = None, log: Log | None = None
    ) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._log = log or NullLog()
        self._credential = Credential(f"Bearer {first}") if first else None
        self._read_s = float("-inf")

    def cached(self) -> Credential | None:
        """Return the token if it was read less than a minute ago."""
        if self._clock.monotonic_s() - self._read_s < _REREAD_S:
            return self._credential
        return None

    async def fetch(self) -> Credential:
        """Read the file."""
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeError) as error:
            return self._last_or_raise(f'failed to read token file "{self._path}": {error}')
        if not token:
            return self._last_or_raise(f'read empty token from file "{self._path}"')
        self._read_s = self._clock.monotonic_s()
        authorization = f"Bearer {token}"
        if self._credential is None or self._credential.authorization != authorization:
            self._credential = Credential(authorization)
        return self._credential

    def reject(self, credential: Credential) -> None:
        """Read the file before the next request."""
        if credential is self._credential:
            self._read_s = float("-inf")

    def _last_or_raise(self, text: str) -> Credential:
        if self._credential is None:
            raise AccessError(text)
        self._log.error("Unable to rotate token", err=text)
        return self._credential


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Authorities of the server, and the client certificate."""

    authority_file: str = ""
    authority_data: bytes = b""
    certificate_file: str = ""
    certificate_data: bytes = b""
    key_file: str = ""
    key_data: bytes = field(default=b"", repr=False)
    server_name: str = ""
    """The name in the server's certificate, if it differs from the host."""
    is_insecure: bool = False


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The URL of an API server, with credentials, TLS settings and proxy."""

    server: str
    """The URL, as `https://host:port` with an optional path; no slash at the end."""
    credentials: CredentialSource = field(default_factory=FixedCredential)
    tls: TlsSettings = field(default_factory=TlsSettings)
    proxy: str = ""
    """The proxy; empty for none."""
    headers: tuple[tuple[str, str], ...] = ()
    """More headers of every request, for impersonation."""
    context: str = ""
    """The context in the kubeconfig."""
    namespace: str = ""
    """The namespace of the context."""
