"""Authentication of requests to the ops server.

Owns the order of methods: authenticating proxy, client certificate, bearer token, anonymous. Never
authorizes a request.
Upstream: staging/src/k8s.io/apiserver/pkg/authentication/authenticatorfactory/delegating.go,
authentication/request/*
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier
from multidict import CIMultiDictProxy

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.metrics.serving import ServingMetrics
from kubesched.ops.client_certificates import Peer, PeerError, Trust
from kubesched.ops.http_messages import Request
from kubesched.ops.reviews import ReviewCache, ReviewError, Reviews

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_UID_IN_SUBJECT = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_TOKENS_MAX = 32 * 1024


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


NOBODY = User(ANONYMOUS, (UNAUTHENTICATED,))


class AuthenticationError(Exception):
    """A credential was sent and is invalid."""


Method: TypeAlias = Callable[[Request], Awaitable[User | None]]


class Authenticator:
    """Determines the user of a request."""

    def __init__(
        self,
        trust: Trust,
        tokens: TokenAuthenticator | None,
        clock: Clock,
        metrics: ServingMetrics,
    ) -> None:
        """Order the authentication methods.

        Args:
            trust: Authorities of certificates and proxies.
            tokens: Authenticates tokens; they are ignored if None.
            clock: Compared with the lifetime of certificates.
            metrics: Observes the remaining lifetime of client certificates.
        """
        self._trust = trust
        self._tokens = tokens
        self._clock = clock
        self._metrics = metrics

    async def user_of(self, request: Request) -> User:
        """Return the user; AuthenticationError if a credential is invalid and no other is valid.

        Parity: authenticatorfactory/delegating.go New, request/union, v1.36.
        """
        errors: list[str] = []
        for method in (self._by_proxy, self._by_certificate, self._by_token):
            try:
                user = await method(request)
            except (AuthenticationError, PeerError, ReviewError) as error:
                errors.append(str(error))
                continue
            if user is not None:
                return _as_authenticated(user)
        if errors:
            unique = list(dict.fromkeys(errors))
            text = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
            raise AuthenticationError(text)
        return NOBODY

    async def _by_proxy(self, request: Request) -> User | None:
        """Return the user that a trusted proxy names.

        Parity: request/headerrequest/requestheader.go, request/x509/x509.go Verifier, v1.36.
        """
        rules = self._trust.proxies()
        if request.peer is None or rules is None or rules.authorities is None:
            return None
        request.peer.check(rules.authorities, self._clock.now_s())
        name = _common_name(request.peer.certificate)
        if rules.allowed_names and name not in rules.allowed_names:
            raise AuthenticationError(f"x509: subject with cn={name} is not in the allowed list")
        user_name = _first(request.headers, rules.username_headers)
        if not user_name:
            return None
        groups = [
            value
            for header in rules.group_headers
            for value in request.headers.getall(header, ())
            if value
        ]
        return User(
            user_name,
            tuple(groups),
            _first(request.headers, rules.uid_headers),
            _extra(request.headers, rules.extra_prefixes),
        )

    async def _by_certificate(self, request: Request) -> User | None:
        """Return the user of a client certificate.

        Parity: request/x509/x509.go AuthenticateRequest, CommonNameUserConversion, v1.36.
        """
        authorities = self._trust.clients()
        if request.peer is None or authorities is None:
            return None
        now_s = self._clock.now_s()
        certificate = request.peer.certificate
        self._metrics.observe_certificate(certificate.not_valid_after_utc.timestamp() - now_s)
        try:
            request.peer.check(authorities, now_s)
        except PeerError as error:
            shown = _identifier(certificate)
            raise PeerError(f"verifying certificate {shown} failed: {error}") from error
        return _named_in(request.peer)

    async def _by_token(self, request: Request) -> User | None:
        """Return the user of a bearer token.

        Parity: request/bearertoken/bearertoken.go, v1.36.
        """
        if self._tokens is None:
            return None
        parts = request.headers.get("Authorization", "").strip().split(" ", 2)
        if len(parts) < 2 or parts[0].lower() != "bearer" or not parts[1]:
            return None
        user = await self._tokens.user_of(parts[1])
        if user is None:
            raise AuthenticationError("invalid bearer token")
        return user


class TokenAuthenticator:
    """Authenticates tokens by TokenReviews, with a cache."""

    def __init__(
        self,
        reviews: Reviews,
        *,
        ttl_s: float,
        clock: Clock,
        log: Log,
        metrics: ServingMetrics,
    ) -> None:
        self._reviews = reviews
        self._ttl_s = ttl_s
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._cache: ReviewCache[tuple[User | None]] = ReviewCache(clock, count_max=_TOKENS_MAX)
        self._key = secrets.token_bytes(32)

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token; None for an unknown token."""
        # The cache holds no tokens.
        key = hmac.digest(self._key, token.encode("utf-8", "surrogateescape"), hashlib.sha256)
        with self._metrics.token_lookup(self._clock, is_cached=self._cache.get(key) is not None):
            review = await self._cache.fetch(
                key, lambda: self._review(token), lambda _: self._ttl_s
            )
        return review[0]

    async def _review(self, token: str) -> tuple[User | None]:
        """Return the user in a tuple, so that an unknown token is cached, too.

        Parity: plugin/pkg/authenticator/token/webhook/webhook.go AuthenticateToken, v1.36.
        """
        try:
            with self._metrics.token_fetch():
                status = await self._reviews.create({"token": token})
                if not status.get("authenticated") and (error := status.get("error")):
                    raise AuthenticationError(error)
        except ReviewError as error:
            self._log.line(f"Failed to make webhook authenticator request: {error}", severity="E")
            raise
        return (_reviewed(status.get("user") or {}) if status.get("authenticated") else None,)


def _reviewed(user: Mapping[str, Any]) -> User:
    extra = {key: tuple(values) for key, values in (user.get("extra") or {}).items()}
    return User(
        user.get("username") or "", tuple(user.get("groups") or ()), user.get("uid") or "", extra
    )


def _as_authenticated(user: User) -> User:
    """Return a user with the group of all authenticated users.

    Parity: authentication/group/authenticated_group_adder.go, v1.36.
    """
    if user.name == ANONYMOUS or {AUTHENTICATED, UNAUTHENTICATED} & set(user.groups):
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _named_in(peer: Peer) -> User | None:
    subject = peer.certificate.subject
    name = _common_name(peer.certificate)
    if not name:
        return None
    uids = [str(uid.value) for uid in subject.get_attributes_for_oid(_UID_IN_SUBJECT)]
    if len(uids) > 1:
        raise AuthenticationError(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if uids == [""]:
        raise AuthenticationError("UID cannot be an empty string")
    organizations = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return User(
        name,
        tuple(str(organization.value) for organization in organizations),
        uids[0] if uids else "",
        {CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(peer.encoded).hexdigest()}",)},
    )


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else ""


def _identifier(certificate: x509.Certificate) -> str:
    return (
        f"SN={certificate.serial_number}, SKID={_key_id(certificate, x509.SubjectKeyIdentifier)}, "
        f"AKID={_key_id(certificate, x509.AuthorityKeyIdentifier)}"
    )


def _key_id(
    certificate: x509.Certificate,
    kind: type[x509.SubjectKeyIdentifier] | type[x509.AuthorityKeyIdentifier],
) -> str:
    try:
        key_id = certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return ""
    digest = (
        key_id.digest if isinstance(key_id, x509.SubjectKeyIdentifier) else key_id.key_identifier
    )
    return (digest or b"").hex(":").upper()


def _first(headers: CIMultiDictProxy[str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := headers.get(name, ""))), "")


def _extra(headers: CIMultiDictProxy[str], prefixes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for name, value in headers.items():
            if name.lower().startswith(prefix.lower()):
                key = unquote(name[len(prefix) :].lower())
                extra[key] = (*extra.get(key, ()), value)
    return extra
