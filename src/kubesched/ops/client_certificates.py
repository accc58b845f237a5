"""Client certificates and the authorities that sign them.

Owns the verification of client certificates, and the authorities from flags and from the ConfigMap
of the cluster. Never maps a certificate to a user: authentication does.
Upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go,
server/options/authentication.go, authentication/request/headerrequest
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from kubesched.client.errors import ApiError, ForbiddenError, NotFoundError, TransportError
from kubesched.client.resources import CONFIG_MAPS
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks
from kubesched.ops.serving import AuthenticationSettings, ServingError
from kubesched.ops.serving_certificates import DynamicFileContent
from kubesched.ops.sources import Requests

_PEM_END = b"-----END CERTIFICATE-----"
_PEM_BEGIN = b"-----BEGIN CERTIFICATE-----"
NAMESPACE = "kube-system"
CONFIG_MAP = "extension-apiserver-authentication"
_POLL_S = 60.0
_TIMEOUT_S = 10.0
_LOADED = "Loaded a new CA Bundle and Verifier"


class PeerError(Exception):
    """A client certificate is not trusted."""


class CaBundle:
    """Authorities of a PEM bundle."""

    def __init__(self, pem: bytes) -> None:
        """Parse a bundle; ValueError without a certificate or with a malformed one."""
        self.pem = pem
        blocks = [
            _PEM_BEGIN + part.partition(_PEM_END)[0] + _PEM_END + b"\n"
            for part in pem.split(_PEM_BEGIN)[1:]
        ]
        self.certificates = [x509.load_pem_x509_certificate(block) for block in blocks]
        if not self.certificates:
            raise ValueError("data does not contain any valid RSA or ECDSA certificates")
        self._encoded = frozenset(ca.public_bytes(Encoding.DER) for ca in self.certificates)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CaBundle) and other.pem == self.pem

    def __hash__(self) -> int:
        return hash(self.pem)

    def has_signed(self, peer: Peer) -> bool:
        """Return whether the chain of a client ends at one of these authorities."""
        if any(encoded in self._encoded for encoded in peer.chain):
            return True
        # A resumed session has no chain.
        return any(_issued(peer.certificate, ca) for ca in self.certificates)


@dataclass(frozen=True)
class Peer:
    """A client certificate that TLS verified when the connection was opened."""

    encoded: bytes
    chain: tuple[bytes, ...] = ()
    """From the client certificate up to the trusted authority."""

    @cached_property
    def certificate(self) -> x509.Certificate:
        """Return the parsed certificate."""
        return x509.load_der_x509_certificate(self.encoded)

    def check(self, bundle: CaBundle, now_s: float) -> None:
        """Raise PeerError unless it is valid now and signed by one of the authorities.

        TLS has verified signatures, purposes and times when the connection was made; authorities
        and the time may have changed since.
        """
        if not bundle.has_signed(self):
            raise PeerError("x509: certificate signed by unknown authority")
        now = datetime.fromtimestamp(now_s, UTC)
        first, last = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        if not first <= now <= last:
            border = f"before {_rfc3339(first)}" if now < first else f"after {_rfc3339(last)}"
            raise PeerError(
                "x509: certificate has expired or is not yet valid: "
                f"current time {_rfc3339(now)} is {border}"
            )


def peer_of(tls: Any) -> Peer | None:
    """Return the client certificate of a connection, if any."""
    if not isinstance(tls, ssl.SSLObject):
        return None
    encoded = tls.getpeercert(binary_form=True)
    return Peer(encoded, _verified_chain(tls)) if encoded else None


def _verified_chain(tls: ssl.SSLObject) -> tuple[bytes, ...]:
    if hasattr(tls, "get_verified_chain"):
        return tuple(tls.get_verified_chain())
    # Public from Python 3.13 on, private in 3.11 and 3.12.
    chain = tls._sslobj.get_verified_chain()  # type: ignore[attr-defined]  # noqa: SLF001
    return tuple(ssl.PEM_cert_to_DER_cert(cert.public_bytes()) for cert in chain or ())


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class RequestHeaderRules:
    """The authenticating proxies, and the headers in which they name the user."""

    authorities: CaBundle | None
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()


class Trust:
    """The current authorities."""

    def __init__(
        self,
        settings: AuthenticationSettings,
        client: Requests | None,
        *,
        clock: Clock,
        log: Log,
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._log = log
        self._tasks = Tasks()
        self._client_file = self._file("client-ca-bundle", settings.client_ca_file)
        self._proxy_file = self._file("request-header", settings.requestheader_client_ca_file)
        self._looks_up_clients = False
        self._looks_up_proxies = False
        self._cluster_clients: CaBundle | None = None
        self._cluster_proxies: RequestHeaderRules | None = None
        self.on_change: Callable[[], None] = _nothing
        """Called when the authorities of the cluster change."""

    def clients(self) -> CaBundle | None:
        """Return the authorities of client certificates, if any."""
        return self._client_file.current() if self._client_file else self._cluster_clients

    def proxies(self) -> RequestHeaderRules | None:
        """Return the rules of authenticating proxies, if any."""
        if self._proxy_file is None:
            return self._cluster_proxies
        settings = self._settings
        return RequestHeaderRules(
            self._proxy_file.current(),
            settings.requestheader_allowed_names,
            settings.requestheader_username_headers,
            settings.requestheader_uid_headers,
            settings.requestheader_group_headers,
            settings.requestheader_extra_headers_prefix,
        )

    def authorities(self) -> list[CaBundle]:
        """Return all authorities for TLS."""
        proxies = self.proxies()
        bundles = [self.clients(), proxies.authorities if proxies else None]
        return [bundle for bundle in bundles if bundle is not None]

    async def start(self) -> None:
        """Look up and watch the authorities without a flag; ServingError if that must not fail."""
        if self._settings.skip_lookup:
            return
        self._looks_up_clients = self._client_file is None and self._can_look_up(
            "client-ca-file", "client certificate"
        )
        self._looks_up_proxies = self._proxy_file is None and self._can_look_up(
            "requestheader-client-ca-file", "request-header client certificate"
        )
        if not (self._looks_up_clients or self._looks_up_proxies):
            return
        error = await self._refresh()
        if error is not None and self._looks_up_proxies:
            # Parity: only the authorities of clients are looked up again, not those of proxies.
            self._looks_up_proxies = False
            self._tolerate(error)
        if self._looks_up_clients or self._looks_up_proxies:
            self._tasks.start(self._follow(), name="authentication-configuration")

    async def stop(self) -> None:
        """Stop watching."""
        await self._tasks.stop()

    def _can_look_up(self, key: str, method: str) -> bool:
        if self._client is None:
            self._warn(
                f"No authentication-kubeconfig provided in order to lookup {key} in "
                f"configmap/{CONFIG_MAP} in {NAMESPACE}, so {method} authentication won't work."
            )
        return self._client is not None

    def _tolerate(self, error: Exception) -> None:
        if isinstance(error, ForbiddenError):
            self._warn(
                f"Unable to get configmap/{CONFIG_MAP} in {NAMESPACE}.  Usually fixed by "
                f"'kubectl create rolebinding -n {NAMESPACE} ROLEBINDING_NAME "
                "--role=extension-apiserver-authentication-reader "
                "--serviceaccount=YOUR_NS:YOUR_SA'"
            )
        if not self._settings.tolerate_lookup_failure:
            raise ServingError(
                f"unable to load configmap based request-header-client-ca-file: {error}"
            )
        self._warn(f"Error looking up in-cluster authentication configuration: {error}")
        self._warn(
            "Continuing without authentication configuration. "
            "This may treat all requests as anonymous."
        )
        self._warn(
            "To require authentication configuration lookup to succeed, "
            "set --authentication-tolerate-lookup-failure=false"
        )

    async def _follow(self) -> None:
        while True:
            await self._clock.sleep(_POLL_S)
            if error := await self._refresh():
                self._log.info(
                    "Failed to read authentication configuration",
                    level=2,
                    configMap=f"{NAMESPACE}/{CONFIG_MAP}",
                    err=error,
                )

    async def _refresh(self) -> Exception | None:
        """Read the ConfigMap; return the error, if any."""
        assert self._client is not None
        path = CONFIG_MAPS.path(NAMESPACE, CONFIG_MAP)
        try:
            data = await self._client.request("GET", path, timeout_s=_TIMEOUT_S)
        except NotFoundError:
            return None
        except (ApiError, TransportError) as error:
            return error
        before = self._cluster_clients, self._cluster_proxies
        try:
            self._take(msgspec.json.decode(data).get("data") or {})
            if before != (self._cluster_clients, self._cluster_proxies):
                self.on_change()
        except (ValueError, OSError, msgspec.MsgspecError) as error:
            return error
        return None

    def _take(self, data: dict[str, Any]) -> None:
        if self._looks_up_clients and (pem := data.get("client-ca-file")):
            self._cluster_clients = self._bundle(self._cluster_clients, pem, "client-ca")
        if self._looks_up_proxies:
            before = self._cluster_proxies
            pem = data.get("requestheader-client-ca-file")
            authorities = before.authorities if before else None
            rules = RequestHeaderRules(
                self._bundle(authorities, pem, "request-header") if pem else authorities,
                _names(data, "requestheader-allowed-names"),
                _names(data, "requestheader-username-headers"),
                _names(data, "requestheader-uid-headers"),
                _names(data, "requestheader-group-headers"),
                _names(data, "requestheader-extra-headers-prefix"),
            )
            if rules != before:
                self._cluster_proxies = rules
                self._log.line(
                    "Loaded a new request header values for RequestHeaderAuthRequestController",
                    level=2,
                )

    def _bundle(self, before: CaBundle | None, pem: str, purpose: str) -> CaBundle:
        if before is not None and before.pem == pem.encode():
            return before
        name = f"{purpose}::{NAMESPACE}::{CONFIG_MAP}"
        self._log.info(_LOADED, level=2, name=name)
        return CaBundle(pem.encode())

    def _file(self, purpose: str, path: str) -> DynamicFileContent[CaBundle] | None:
        if not path:
            return None
        try:
            return DynamicFileContent(
                [path],
                lambda contents: CaBundle(contents[0]),
                clock=self._clock,
                log=self._log,
                loaded=(_LOADED, f"{purpose}::{path}"),
            )
        except OSError as error:
            text = f"open {path}: {(error.strerror or '').lower()}"
        except ValueError as error:
            text = f'error loading CA file "{path}": {error}'
        action = "load client CA provider"
        if purpose == "request-header":
            action = "create request header authentication config"
        raise ServingError(f"unable to {action}: {text}")

    def _warn(self, text: str) -> None:
        self._log.line(text, severity="W")


def _nothing() -> None:
    pass


def _names(data: dict[str, Any], key: str) -> tuple[str, ...]:
    return msgspec.json.decode(data[key], type=tuple[str, ...]) if data.get(key) else ()
