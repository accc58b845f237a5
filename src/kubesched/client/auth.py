"""Who we are to the API server.

Owns credentials: fixed ones, tokens in files that are written anew, and what a plugin program
says. Never reads a kubeconfig and never opens a connection: kubeconfig and transport do.
Upstream: staging/src/k8s.io/client-go/transport/token_source.go
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, NullLog

_REREAD_S = 50.0  # a minute, less the ten seconds that client-go goes before


class AccessError(Exception):
    """The cluster cannot be reached in the way that was configured."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request carries to say who sends it."""

    authorization: str = field(default="", repr=False)
    """The value of the Authorization header; empty for none."""
    certificate: KeyPair | None = None
    """A client certificate that came with it, from a plugin."""


class CredentialSource(Protocol):
    """Where credentials come from."""

    def cached(self) -> Credential | None:
        """Return what holds at the moment; None when it has to be fetched."""
        ...

    async def fetch(self) -> Credential:
        """Return a credential; AccessError if there is none to be had."""
        ...

    def reject(self, credential: Credential) -> None:
        """Say that the server did not know the credential."""
        ...


class FixedCredential:
    """A credential that never changes."""

    def __init__(self, authorization: str = "") -> None:
        self._credential = Credential(authorization)

    def cached(self) -> Credential | None:
        """Return the credential."""
        return self._credential

    async def fetch(self) -> Credential:
        """Return the credential."""
        return self._credential

    def reject(self, credential: Credential) -> None:
        """Do nothing: there is no other."""


class TokenFile:
    """A bearer token in a file, read again every minute and when the server refuses it.

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
        """Have the file read before the next request."""
        if credential is self._credential:
            self._read_s = float("-inf")

    def _last_or_raise(self, text: str) -> Credential:
        if self._credential is None:
            raise AccessError(text)
        self._log.error("Unable to rotate token", err=text)
        return self._credential


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How a server is recognised, and which certificate we show it."""

    authority_file: str = ""
    authority_data: bytes = b""
    certificate_file: str = ""
    certificate_data: bytes = b""
    key_file: str = ""
    key_data: bytes = field(default=b"", repr=False)
    server_name: str = ""
    """The name in the server's certificate, where it is not the host's."""
    is_insecure: bool = False


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Where an API server is, how it is reached and as whom."""

    server: str
    """The address, as `https://host:port` with a path if it has one; no slash at the end."""
    credentials: CredentialSource = field(default_factory=FixedCredential)
    tls: TlsSettings = field(default_factory=TlsSettings)
    proxy: str = ""
    """The proxy that requests go through; empty for none."""
    headers: tuple[tuple[str, str], ...] = ()
    """What every request carries besides: whom we impersonate."""
    context: str = ""
    """The context of the kubeconfig it came from."""
    namespace: str = ""
    """The namespace of that context."""
