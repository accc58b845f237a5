"""Authenticates requests: client certificate, bearer token, then anonymous.

Upstream: pkg/kubeapiserver/authenticator/config.go,
staging/src/k8s.io/apiserver/pkg/authentication/request/{x509,bearertoken,anonymous,union}
"""

from __future__ import annotations

import csv
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kubesched.cluster.apiserver.auth.tokens import (
    InvalidTokenError,
    ServiceAccountTokens,
    Verified,
)
from kubesched.cluster.apiserver.errors import unauthorized
from kubesched.cluster.apiserver.strategy import Reader, User
from kubesched.kit.clock import Clock

AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
ADMIN = User("kubernetes-admin", groups=("system:masters", AUTHENTICATED))


@dataclass(slots=True)
class Authenticator:
    """Finds the user of a request."""

    clock: Clock
    reader: Reader
    accounts: ServiceAccountTokens
    audiences: Sequence[str]
    tokens: Mapping[str, User] = field(default_factory=dict)
    """Users by static bearer token."""
    anonymous: User | None = ANONYMOUS
    """User of requests without credentials; None rejects such requests."""

    def user_of(
        self, headers: Mapping[str, str], peer_certificate: Mapping[str, object] | None = None
    ) -> User:
        """Return the authenticated user, before impersonation.

        Args:
            headers: the headers of the request, in a case-insensitive mapping.
            peer_certificate: the verified client certificate, as `ssl` returns it.

        Raises:
            ApiError: Unauthorized.
        """
        if peer_certificate:
            user = _user_of_certificate(peer_certificate)
            if user is not None:
                return user
        kind, _, token = headers.get("Authorization", "").strip().partition(" ")
        if kind.lower() == "bearer" and token.strip():
            try:
                return self.review(token.strip(), self.audiences).user
            except InvalidTokenError:
                raise unauthorized() from None
        if self.anonymous is None:
            raise unauthorized()
        return self.anonymous

    def review(self, token: str, audiences: Sequence[str]) -> Verified:
        """Return the user of a token.

        Raises:
            InvalidTokenError: The token is unknown.
        """
        for known, user in self.tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                common = tuple(audience for audience in self.audiences if audience in audiences)
                return Verified(_with_group(user), common)
        found = self.accounts.verify(
            token, audiences=audiences, now_s=self.clock.now_s(), reader=self.reader
        )
        return replace(found, user=_with_group(found.user))


def _with_group(user: User) -> User:
    if AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _user_of_certificate(certificate: Mapping[str, object]) -> User | None:
    """Return the user in the subject of a certificate, as `ssl` returns it."""
    name, groups = "", []
    subject = certificate.get("subject")
    for part in subject if isinstance(subject, tuple) else ():
        for key, value in part:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, groups=(*groups, AUTHENTICATED)) if name else None


class TokenFileError(ValueError):
    """An invalid token file; the message has the line and the reason."""


def read_token_file(path: Path) -> dict[str, User]:
    """Return users by token.

    Raises:
        TokenFileError: A line is invalid.
    """
    users: dict[str, User] = {}
    with path.open(newline="", encoding="utf-8") as stream:
        for number, line in enumerate(csv.reader(stream, skipinitialspace=True), start=1):
            if not line or line[0].startswith("#"):
                continue
            if len(line) < 3:
                raise TokenFileError(
                    f"{path}: line {number}: a token, a user and a uid are needed, "
                    f"there are {len(line)} fields"
                )
            token, name, uid, *groups = line
            if not token:
                raise TokenFileError(f"{path}: line {number}: the token is empty")
            named = tuple(one.strip() for one in ",".join(groups).split(",") if one.strip())
            users[token] = User(name, uid, named)
    return users
