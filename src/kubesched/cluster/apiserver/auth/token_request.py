"""TokenRequest: POST to a service account's `token` subresource. Stores nothing.

Upstream: pkg/registry/core/serviceaccount/storage/token.go,
pkg/apis/authentication/validation/validation.go
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubesched.cluster.apiserver.auth.tokens import ServiceAccountTokens
from kubesched.cluster.apiserver.documents import Document, dig, metadata_of, name_of, namespace_of
from kubesched.cluster.apiserver.errors import (
    ApiError,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
)
from kubesched.cluster.apiserver.resources import Writer
from kubesched.cluster.apiserver.strategy import Request
from kubesched.kit.clock import Clock

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_LIFETIME_S, _LIFETIME_S_MIN, _LIFETIME_S_MAX = 3600, 600, 1 << 32
_BINDABLE = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


@dataclass(slots=True)
class TokenAction:
    """Issues tokens for service accounts."""

    tokens: ServiceAccountTokens
    clock: Clock
    new_id: Callable[[], str]
    audiences: Sequence[str]
    name: str = "token"
    group: str = _GROUP
    version: str = "v1"
    kind: str = _KIND

    def create(self, body: Document, request: Request, writer: Writer) -> Document:
        """Return the request with a token in its status."""
        self._check_names(body, request)
        account = writer.get("", "serviceaccounts", request.namespace, request.name)
        if account is None:
            raise not_found("", "serviceaccounts", request.name)
        uid = dig(account, "metadata", "uid")
        requested_uid = dig(body, "metadata", "uid")
        if requested_uid and requested_uid != uid:
            why = (
                f"the UID in the token request ({requested_uid}) does not match the UID of the "
                f"service account ({uid})"
            )
            raise conflict(_GROUP, _KIND, request.name, why)
        spec = dict(body.get("spec") or {})
        spec["audiences"] = spec.get("audiences") or list(self.audiences)
        lifetime_s = spec["expirationSeconds"] = spec.get("expirationSeconds") or _LIFETIME_S
        _check_lifetime(lifetime_s)
        bound = _bound_claims(spec.get("boundObjectRef"), account, writer)
        spec.setdefault("boundObjectRef", None)
        now_s = int(self.clock.now_s())
        token = self.tokens.issue(
            account,
            audiences=spec["audiences"],
            now_s=now_s,
            lifetime_s=lifetime_s,
            token_id=self.new_id(),
            bound=bound,
        )
        metadata = {
            "name": name_of(account),
            "namespace": namespace_of(account),
            "uid": uid,
            "creationTimestamp": request.now,
            **{k: v for k, v in metadata_of(body).items() if k == "managedFields"},
        }
        end = datetime.datetime.fromtimestamp(now_s + lifetime_s, datetime.UTC)
        status = {"token": token, "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/v1",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }

    def _check_names(self, body: Document, request: Request) -> None:
        for field, expected in (("name", request.name), ("namespace", request.namespace)):
            actual = dig(body, "metadata", field)
            if actual and actual != expected:
                why = f"must match the service account {field} if specified"
                problem = invalid(f"metadata.{field}", actual, why)
                raise invalid_object(_GROUP, _KIND, request.name, [problem])


def _check_lifetime(lifetime_s: int) -> None:
    why = ""
    if lifetime_s < _LIFETIME_S_MIN:
        why = "may not specify a duration less than 10 minutes"
    elif lifetime_s > _LIFETIME_S_MAX:
        why = "may not specify a duration larger than 2^32 seconds"
    if why:
        problem = invalid("spec.expirationSeconds", lifetime_s, why)
        raise invalid_object(_GROUP, _KIND, "", [problem])


def _bound_claims(ref: Document | None, account: Document, writer: Writer) -> Document | None:
    if not ref:
        return None
    kind, name = ref.get("kind", ""), ref.get("name", "")
    if ref.get("apiVersion", "v1") != "v1" or kind not in _BINDABLE:
        group, _, version = str(ref.get("apiVersion", "")).rpartition("/")
        group_kind = f"{group}/{version}, Kind={kind}"
        raise bad_request(f"cannot bind token to object of type {group_kind}")
    resource = _BINDABLE[kind]
    place = "" if kind == "Node" else namespace_of(account)
    found = writer.get("", resource, place, name)
    if found is None:
        raise not_found("", resource, name)
    _check_bound(ref, found, account)
    claims: Document = {kind.lower(): {"name": name, "uid": dig(found, "metadata", "uid")}}
    node_name = dig(found, "spec", "nodeName") if kind == "Pod" else None
    if node_name:
        node = writer.get("", "nodes", "", node_name)
        claims["node"] = {"name": node_name}
        if node is not None:
            claims["node"]["uid"] = dig(node, "metadata", "uid")
    return claims


def _check_bound(ref: Document, found: Document, account: Document) -> None:
    kind, name = ref["kind"], ref.get("name", "")
    if kind == "Pod" and dig(found, "spec", "serviceAccountName") != name_of(account):
        raise bad_request(
            f'cannot bind token for serviceaccount "{name_of(account)}" to pod running with '
            "different serviceaccount name."
        )
    uid = ref.get("uid")
    if uid and uid != dig(found, "metadata", "uid"):
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. The "
            "object might have been deleted and then recreated"
        )
        error: ApiError = conflict("", kind, name, why)
        raise error
