"""Serving settings, and the listening socket.

Owns the defaults of the serving flags, binding of the port, and upstream's error texts. Never
accepts a connection.
Upstream: staging/src/k8s.io/apiserver/pkg/server/options/{serving,authentication,authorization}.go
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass

DEFAULT_PORT = 10259


class ServingError(Exception):
    """The server cannot start: a port is in use, or a certificate is invalid."""


@dataclass(frozen=True, slots=True)
class NamedCertKey:
    """A certificate, its key, and the host names to use it for (`--tls-sni-cert-key`)."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()
    """The names; those in the certificate if empty."""

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """Settings of authentication."""

    kubeconfig: str = ""
    """Kubeconfig for TokenReviews and the lookup of authorities."""
    client_ca_file: str = ""
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)
    skip_lookup: bool = False
    """Whether to skip the lookup of authorities in the cluster."""
    tolerate_lookup_failure: bool = True
    token_cache_ttl_s: float = 10.0


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """Settings of authorization."""

    kubeconfig: str = ""
    """Kubeconfig for SubjectAccessReviews."""
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    """A path may end in `*`."""
    allow_cache_ttl_s: float = 10.0
    deny_cache_ttl_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Settings of the server."""

    bind_address: str = "0.0.0.0"
    port: int = DEFAULT_PORT
    """0 takes any free port; as --secure-port, it disables serving."""
    cert_dir: str = ""
    """Directory of the self-signed pair; in memory if empty."""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_sni_cert_keys: tuple[NamedCertKey, ...] = ()
    tls_min_version: str = ""
    """`VersionTLS10` to `VersionTLS13`; 1.2 if empty."""
    tls_cipher_suites: tuple[str, ...] = ()
    """Go's names."""
    tls_curve_preferences: tuple[int, ...] = ()
    """Go's numbers."""
    permit_port_sharing: bool = False
    shutdown_timeout_s: float = 5.0
    enable_profiling: bool = True
    component_name: str = "kube-scheduler"
    authentication: AuthenticationSettings = AuthenticationSettings()
    authorization: AuthorizationSettings = AuthorizationSettings()


def listen(settings: ServingSettings) -> socket.socket:
    """Bind the port; ServingError with the address if that fails."""
    address = settings.bind_address or "::"
    where = join_host_port(address, settings.port)
    try:
        host = ipaddress.ip_address(address)
    except ValueError as error:
        raise ServingError(f"failed to parse IP: {address!r}") from error
    try:
        # As in Go, an unspecified address means all addresses of both families.
        if host.is_unspecified and socket.has_dualstack_ipv6():
            return _bound(socket.AF_INET6, "::", settings, is_dual=True)
        if host.is_unspecified:
            return _bound(socket.AF_INET, "0.0.0.0", settings)
        family = socket.AF_INET6 if host.version == 6 else socket.AF_INET
        return _bound(family, address, settings)
    except OSError as error:
        # Go's texts of system errors are the system's, in lower case.
        reason = os.strerror(error.errno or 0)
        reason = reason[:1].lower() + reason[1:]
        raise ServingError(
            f"failed to create listener: failed to listen on {where}: "
            f"listen tcp {where}: bind: {reason}"
        ) from error


def address_of(listener: socket.socket) -> str:
    """Return the address of a socket as Go writes it."""
    return join_host_port(*listener.getsockname()[:2])


def join_host_port(host: str, port: int) -> str:
    """Return an address as Go's net.JoinHostPort writes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_url(scheme: str, bind_address: str, port: int) -> str:
    """Return the URL of a server for clients on this machine."""
    host = "127.0.0.1" if bind_address in ("", "0.0.0.0", "::") else bind_address
    return f"{scheme}://{join_host_port(host, port)}"


def _bound(
    family: socket.AddressFamily, address: str, settings: ServingSettings, *, is_dual: bool = False
) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Go sets it for every listener, so that --permit-address-sharing adds nothing.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if settings.permit_port_sharing:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if is_dual else 1)
        listener.bind((address, settings.port))
        # At once, since another process can bind a port that does not listen yet.
        listener.listen(1024)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
