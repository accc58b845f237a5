"""How the ops server is set up: plain values, as the serving flags give them.

Owns the defaults of the flags. Never reads a file or opens a socket.
Upstream: staging/src/k8s.io/apiserver/pkg/server/options/{serving,authentication,authorization}.go
"""

from __future__ import annotations

from dataclasses import dataclass, field


class ServingError(Exception):
    """The server cannot be set up: a port in use, a certificate that does not fit."""


@dataclass(frozen=True, slots=True)
class SniCertificate:
    """A certificate for some server names (`--tls-sni-cert-key`)."""

    certificate_file: str
    key_file: str
    names: tuple[str, ...] = ()
    """Which names; those in the certificate if empty."""


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """Who is believed to be whom."""

    client_ca_file: str = ""
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)
    skip_lookup: bool = False
    """Whether the cluster is not asked for authorities that no flag gives."""
    tolerate_lookup_failure: bool = True
    token_cache_ttl_s: float = 10.0


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """Who may read what."""

    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    """A path may end in `*`."""
    always_allow_groups: tuple[str, ...] = ("system:masters",)
    allow_cache_ttl_s: float = 10.0
    deny_cache_ttl_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Where and how is served."""

    bind_address: str = "0.0.0.0"
    port: int = 10259
    """0 takes any that is free: whoever wants no server makes none."""
    cert_dir: str = ""
    """Where the pair is kept that is made if no files are given; in memory if empty."""
    pair_name: str = "kube-scheduler"
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    sni_certificates: tuple[SniCertificate, ...] = ()
    min_tls_version: str = ""
    """`VersionTLS10` to `VersionTLS13`; 1.2 if empty."""
    cipher_suites: tuple[str, ...] = ()
    """Go's names."""
    curve_preferences: tuple[int, ...] = ()
    """Go's numbers."""
    permit_port_sharing: bool = False
    permit_address_sharing: bool = False
    shutdown_timeout_s: float = 5.0
    enable_profiling: bool = True
    component_name: str = "kube-scheduler"
    authentication: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    authorization: AuthorizationSettings = field(default_factory=AuthorizationSettings)
