"""Impersonation headers, and the permission they need.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/impersonation.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import unquote

from kubesched.cluster.apiserver.auth.attributes import Attributes, rejection
from kubesched.cluster.apiserver.auth.authentication import ANONYMOUS, AUTHENTICATED
from kubesched.cluster.apiserver.errors import internal
from kubesched.cluster.apiserver.strategy import User

_ACCOUNT: Final = "system:serviceaccount:"
_EXTRA: Final = "impersonate-extra-"


class _Authorizes(Protocol):
    def allows(self, request: Attributes) -> tuple[bool, str]: ...


def impersonated(user: User, headers: Mapping[str, str], authorizer: _Authorizes) -> User:
    """Return the effective user of a request.

    Raises:
        ApiError: Forbidden, the user may not impersonate the other one.
    """
    if "Impersonate-User" not in headers and "Impersonate-Group" not in headers:
        return user
    name = headers.get("Impersonate-User", "")
    if not name:
        raise internal("requested [groups] without impersonating a user")
    groups = [value for key, value in headers.items() if key.lower() == "impersonate-group"]
    extra: dict[str, list[str]] = {}
    for key, value in headers.items():
        if key.lower().startswith(_EXTRA):
            extra.setdefault(unquote(key[len(_EXTRA) :].lower()), []).append(value)
    uid = headers.get("Impersonate-Uid", "")
    for permission in _needed_permissions(user, name, groups, extra, uid):
        allowed, reason = authorizer.allows(permission)
        if not allowed:
            raise rejection(permission, reason)
    return User(name, uid, tuple(_all_groups(name, groups)), extra)


def _needed_permissions(
    user: User, name: str, groups: list[str], extra: Mapping[str, list[str]], uid: str
) -> list[Attributes]:
    """Return the permissions that the impersonation requires."""
    verb, review = "impersonate", "authentication.k8s.io"
    if name.startswith(_ACCOUNT) and name.count(":") == 3:
        namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
        permissions = [
            Attributes(user, verb, resource="serviceaccounts", namespace=namespace, name=account)
        ]
    else:
        permissions = [Attributes(user, verb, resource="users", name=name)]
    permissions += [Attributes(user, verb, resource="groups", name=group) for group in groups]
    for key, values in extra.items():
        permissions += [
            Attributes(user, verb, group=review, resource="userextras", subresource=key, name=value)
            for value in values
        ]
    if uid:
        permissions.append(Attributes(user, verb, group=review, resource="uids", name=uid))
    return permissions


def _all_groups(name: str, groups: list[str]) -> list[str]:
    all_groups = list(groups)
    if name.startswith(_ACCOUNT) and name.count(":") == 3 and not groups:
        namespace = name.split(":")[2]
        all_groups += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    implied = ANONYMOUS.groups[0] if name == ANONYMOUS.name else AUTHENTICATED
    return all_groups if implied in all_groups else [*all_groups, implied]
