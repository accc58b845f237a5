"""The embedded API server, configured: users, keys, certificates and address.

Shared by `kubesched apiserver`, the playground and the test kit.
Upstream: cmd/kube-apiserver/app/options/options.go
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kubesched.cluster.apiserver.admission.chain import BARE, AdmissionOptions
from kubesched.cluster.apiserver.assembly import Parts, build_context, build_server
from kubesched.cluster.apiserver.auth.authentication import ADMIN, ANONYMOUS, Authenticator
from kubesched.cluster.apiserver.auth.authorization import Authorizer, check_create
from kubesched.cluster.apiserver.auth.certificates import Authority, load_authority, new_authority
from kubesched.cluster.apiserver.auth.escalation import EscalationCheck
from kubesched.cluster.apiserver.auth.kubeconfig import kubeconfig
from kubesched.cluster.apiserver.auth.rbac import GROUP, KINDS, RuleBook
from kubesched.cluster.apiserver.auth.reviews import Reviews, review_actions
from kubesched.cluster.apiserver.auth.token_request import TokenAction
from kubesched.cluster.apiserver.auth.tokens import ISSUER, ServiceAccountTokens, new_key
from kubesched.cluster.apiserver.bootstrap import authentication_trust, bootstrap_objects
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.http.pages import Page, PathHandler
from kubesched.cluster.apiserver.http.server import ApiServer
from kubesched.cluster.apiserver.resources import Action, Registry
from kubesched.cluster.apiserver.storage.persistence import SqliteJournal
from kubesched.cluster.apiserver.strategy import User
from kubesched.kit.clock import Clock

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a server."""

    address: str = "127.0.0.1"
    port: int = 0
    """0 selects a free port."""
    data: Path | None = None
    tokens: Mapping[str, User] = field(default_factory=dict)
    """Additional users by bearer token."""
    has_rbac: bool = False
    """Whether RBAC is enforced; otherwise everything is allowed."""
    has_tls: bool = True
    admin_token: str = ""
    """The administrator's token; stored or generated if empty."""
    admission: AdmissionOptions = BARE
    """Enabled admission plugins; the whole chain requires controllers."""
    seed: int | None = None
    """Seed of UIDs and generated names; random if None."""

    @property
    def is_open(self) -> bool:
        """Return whether anonymous requests have all permissions: on loopback without RBAC."""
        return self.address in LOOPBACK and not self.has_rbac


class EmbeddedServer:
    """A server with its users, keys and certificates."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        parts = Parts(
            clock=clock,
            seed=secrets.randbits(63) if settings.seed is None else settings.seed,
            data=settings.data,
            address=settings.address,
            port=settings.port,
            admission=settings.admission,
        )
        self.context = build_context(parts)
        journal = self.context.store.journal
        kept = journal if isinstance(journal, SqliteJournal) else None
        self.admin_token = settings.admin_token or _admin_token(kept)
        self.authority = _authority(kept, clock.now_s())
        self.account_key = _account_key(kept)
        tokens = ServiceAccountTokens(self.account_key)
        self._authenticator = Authenticator(
            clock,
            self.context,
            tokens,
            [ISSUER],
            {self.admin_token: ADMIN, **settings.tokens},
            ADMIN if settings.is_open else ANONYMOUS if settings.has_rbac else None,
        )
        authorizer = Authorizer(
            RuleBook(self.context, self._rbac_version) if settings.has_rbac else None
        )
        if settings.has_rbac:
            self.context.check_create = partial(check_create, authorizer)
            self.context.admission = (*self.context.admission, EscalationCheck(authorizer))
        actions = review_actions(Reviews(self._authenticator, authorizer))
        new_id = self.context.identities.uid
        actions["", "serviceaccounts", "token"] = TokenAction(tokens, clock, new_id, [ISSUER])
        _install(self.context.registry, actions)
        parts.pages.update(_key_pages(tokens))
        parts.objects.extend(
            (GROUP, _PLURALS[document["kind"]], document) for document in bootstrap_objects()
        )
        if settings.has_tls:
            parts.objects.append(authentication_trust(self.authority.pem))
        self.server: ApiServer = build_server(
            self.context, parts, authenticator=self._authenticator, authorizer=authorizer
        )

    async def start(self) -> None:
        """Start listening."""
        settings = self.settings
        tls = self._tls() if settings.has_tls else None
        await self.server.start(settings.address, settings.port, tls=tls)

    async def stop(self) -> None:
        """End all watches and stop the server."""
        await self.server.stop()

    @property
    def url(self) -> str:
        """Return the URL of the server for clients on this machine."""
        address = self.settings.address
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
        bracketed = f"[{host}]" if ":" in host else host
        return f"{'https' if self.settings.has_tls else 'http'}://{bracketed}:{self.server.port}"

    @property
    def ca_pem(self) -> bytes:
        """Return the CA certificate that clients must trust; empty without TLS."""
        return self.authority.pem if self.settings.has_tls else b""

    def kubeconfig(self, token: str | None = None, user: str = "admin") -> Document:
        """Return a kubeconfig for the administrator, or for the user of a token."""
        user_token = self.admin_token if token is None else token
        return kubeconfig(self.url, token=user_token, ca_pem=self.ca_pem, user=user)

    def _rbac_version(self) -> object:
        store = self.context.store
        return tuple(store.bucket(f"{GROUP}/{kind}").version for kind in KINDS)

    def _tls(self) -> ssl.SSLContext:
        pair = self.authority.serving([self.settings.address], self._clock.now_s())
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # The standard library reads certificates from files only.
        with tempfile.TemporaryDirectory(prefix="kubesched-") as directory:
            certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
            certificate.write_bytes(pair.certificate)
            key.touch(mode=0o600)
            key.write_bytes(pair.key)
            context.load_cert_chain(certificate, key)
        context.load_verify_locations(cadata=self.authority.pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _install(registry: Registry, actions: Mapping[tuple[str, str, str], Action]) -> None:
    """Register actions that need signing keys; the keys come from the store of the registry."""
    for resource in registry:
        for (group, plural, below), action in actions.items():
            if (resource.group, resource.resource) != (group, plural):
                continue
            if below:
                resource.actions[below] = action
            else:
                resource.creates = action


def _key_pages(tokens: ServiceAccountTokens) -> dict[str, PathHandler]:
    """Return the OpenID pages with which other servers verify our tokens."""
    metadata = {
        "issuer": ISSUER,
        "jwks_uri": f"{ISSUER}/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }

    def well_known(parts: list[str], headers: Mapping[str, str]) -> Page | None:
        del headers
        found = parts == [".well-known", "openid-configuration"]
        return Page(msgspec.json.encode(metadata)) if found else None

    def open_id(parts: list[str], headers: Mapping[str, str]) -> Page | None:
        del headers
        found = parts == ["openid", "v1", "jwks"]
        kind = "application/jwk-set+json"
        return Page(msgspec.json.encode(tokens.key_set()), kind) if found else None

    return {".well-known": well_known, "openid": open_id}


def _admin_token(journal: SqliteJournal | None) -> str:
    """Return the stored token of the administrator, or store a new one."""
    if journal is not None and journal.state("admin.token"):
        return journal.state("admin.token")
    made = secrets.token_urlsafe(24)
    if journal is not None:
        journal.set_state("admin.token", made)
    return made


def _authority(journal: SqliteJournal | None, now_s: float) -> Authority:
    """Return the stored CA, or store a new one."""
    if journal is not None and journal.state("ca.crt"):
        return load_authority(journal.state("ca.crt").encode(), journal.state("ca.key").encode())
    made = new_authority(now_s)
    if journal is not None:
        journal.set_state("ca.crt", made.pem.decode())
        journal.set_state("ca.key", made.key_pem.decode())
    return made


def _account_key(journal: SqliteJournal | None) -> rsa.RSAPrivateKey:
    """Return the stored signing key of service account tokens, or store a new one."""
    if journal is not None and journal.state("sa.key"):
        found = serialization.load_pem_private_key(journal.state("sa.key").encode(), None)
        assert isinstance(found, rsa.RSAPrivateKey), "it is what was written"
        return found
    made = new_key()
    if journal is not None:
        journal.set_state("sa.key", key_pem(made).decode())
    return made


def key_pem(key: rsa.RSAPrivateKey) -> bytes:
    """Return a private key in PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
