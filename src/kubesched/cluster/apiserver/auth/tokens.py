"""Service account tokens: signing key and claims.

Upstream: pkg/serviceaccount/{jwt,claims}.go, pkg/serviceaccount/openidmetadata.go
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kubesched.cluster.apiserver.documents import Document, dig, name_of, namespace_of
from kubesched.cluster.apiserver.strategy import Reader, User

ISSUER = "https://kubernetes.default.svc"
_ALGORITHM = "RS256"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_NODE_UID = "authentication.kubernetes.io/node-uid"


class InvalidTokenError(Exception):
    """The token is invalid or expired; the message says why."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The service account and the audiences of a token."""

    user: User
    audiences: tuple[str, ...]


class ServiceAccountTokens:
    """Issues and verifies the tokens of one signing key."""

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        der = self._public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.key_id = _url_base64(hashlib.sha256(der).digest())

    def issue(
        self,
        account: Document,
        *,
        audiences: Sequence[str],
        now_s: int,
        lifetime_s: int,
        token_id: str,
        bound: Document | None = None,
    ) -> str:
        """Return a new token.

        Args:
            account: the service account.
            audiences: the audiences of the token.
            now_s: the current time.
            lifetime_s: how long the token is valid.
            token_id: the claim `jti`.
            bound: claims about the object that the token is bound to, by lowercase kind.
        """
        own: dict[str, Any] = {"namespace": namespace_of(account)}
        own.update(bound or {})
        own["serviceaccount"] = _reference(account)
        claims = {
            "aud": list(audiences),
            "exp": now_s + lifetime_s,
            "iat": now_s,
            "iss": ISSUER,
            "jti": token_id,
            "kubernetes.io": own,
            "nbf": now_s,
            "sub": f"system:serviceaccount:{namespace_of(account)}:{name_of(account)}",
        }
        return jwt.encode(claims, self._key, _ALGORITHM, headers={"kid": self.key_id, "typ": None})

    def verify(
        self, token: str, *, audiences: Sequence[str], now_s: float, reader: Reader
    ) -> Verified:
        """Return the service account of a token.

        Raises:
            InvalidTokenError: The token is invalid or expired.
        """
        claims = self._claims(token)
        own = claims.get("kubernetes.io") or {}
        if not claims.get("nbf", 0) - 10 <= now_s <= claims.get("exp", 0) + 10:
            raise InvalidTokenError("service account token has expired")
        common = tuple(name for name in claims.get("aud") or () if name in audiences)
        if not common:
            raise InvalidTokenError(
                f"token audiences {list(claims.get('aud') or ())} is invalid for the target "
                f"audiences {list(audiences)}"
            )
        _check_objects(own, reader)
        return Verified(_user_of(claims, own), common)

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = jwt.decode(
                token,
                self._public,
                [_ALGORITHM],
                # `verify` checks expiry and audience, with its own clock and audiences.
                options={"verify_exp": False, "verify_nbf": False, "verify_iat": False,
                         "verify_aud": False},
            )  # fmt: skip
        except jwt.PyJWTError as problem:
            raise InvalidTokenError(str(problem)) from None
        if found.get("iss") != ISSUER:
            raise InvalidTokenError("unknown issuer")
        return found

    def key_set(self) -> Document:
        """Return the public key as a JSON Web Key Set."""
        numbers = self._public.public_numbers()
        return {
            "keys": [
                {
                    "use": "sig",
                    "kty": "RSA",
                    "kid": self.key_id,
                    "alg": _ALGORITHM,
                    "n": _url_base64(numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")),
                    "e": _url_base64(numbers.e.to_bytes((numbers.e.bit_length() + 7) // 8, "big")),
                }
            ]
        }


def new_key() -> rsa.RSAPrivateKey:
    """Return a new signing key."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _check_objects(own: dict[str, Any], reader: Reader) -> None:
    namespace = own.get("namespace", "")
    account = own.get("serviceaccount") or {}
    found = reader.get("", "serviceaccounts", namespace, account.get("name", ""))
    if found is None or dig(found, "metadata", "uid") != account.get("uid"):
        raise InvalidTokenError("service account UID does not match claim, or it is gone")
    for kind, resource in (("pod", "pods"), ("secret", "secrets"), ("node", "nodes")):
        ref = own.get(kind)
        if ref is None or (kind == "node" and "pod" in own):
            continue
        ref_namespace = "" if kind == "node" else namespace
        bound = reader.get("", resource, ref_namespace, ref.get("name", ""))
        if bound is None or dig(bound, "metadata", "uid") != ref.get("uid"):
            raise InvalidTokenError(f"the {kind} the token is bound to is gone")


def _user_of(claims: dict[str, Any], own: dict[str, Any]) -> User:
    namespace = own.get("namespace", "")
    extra: dict[str, list[str]] = {}
    if claims.get("jti"):
        extra[_CREDENTIAL] = [f"JTI={claims['jti']}"]
    for kind, name_key, uid_key in (("node", _NODE_NAME, _NODE_UID), ("pod", _POD_NAME, _POD_UID)):
        ref = own.get(kind)
        if ref is not None:
            extra[name_key] = [ref.get("name", "")]
            if ref.get("uid"):
                extra[uid_key] = [ref["uid"]]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    account = own.get("serviceaccount") or {}
    return User(claims["sub"], account.get("uid", ""), groups, extra)


def _reference(document: Document) -> Document:
    return {"name": name_of(document), "uid": dig(document, "metadata", "uid") or ""}


def _url_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
