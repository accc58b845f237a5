"""TokenReview, SubjectAccessReview and the other review kinds; none is stored.

Upstream: pkg/registry/{authentication,authorization}/*/rest.go and storage.go,
pkg/apis/authorization/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kubesched.cluster.apiserver.auth.attributes import Attributes
from kubesched.cluster.apiserver.auth.authentication import Authenticator
from kubesched.cluster.apiserver.auth.authorization import Authorizer
from kubesched.cluster.apiserver.auth.tokens import InvalidTokenError
from kubesched.cluster.apiserver.documents import Document, dig, namespace_of
from kubesched.cluster.apiserver.errors import Problem, bad_request, invalid, invalid_object
from kubesched.cluster.apiserver.resources import Action, Writer
from kubesched.cluster.apiserver.strategy import Request, User

AUTHENTICATION = "authentication.k8s.io"
AUTHORIZATION = "authorization.k8s.io"


@dataclass(slots=True)
class Reviews:
    """Handlers of reviews."""

    authenticator: Authenticator
    authorizer: Authorizer

    def handlers(self) -> dict[tuple[str, str], Callable[[Document, Request], Document]]:
        """Return the handlers of reviews, by group and resource."""
        return {
            (AUTHENTICATION, "tokenreviews"): self.token_review,
            (AUTHENTICATION, "selfsubjectreviews"): self.self_subject_review,
            (AUTHORIZATION, "subjectaccessreviews"): self.subject_access_review,
            (AUTHORIZATION, "localsubjectaccessreviews"): self.local_subject_access_review,
            (AUTHORIZATION, "selfsubjectaccessreviews"): self.self_subject_access_review,
            (AUTHORIZATION, "selfsubjectrulesreviews"): self.self_subject_rules_review,
        }

    def token_review(self, body: Document, request: Request) -> Document:
        """Handle a TokenReview."""
        del request
        token = dig(body, "spec", "token")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        audiences = dig(body, "spec", "audiences") or self.authenticator.audiences
        status: Document
        try:
            found = self.authenticator.review(token, audiences)
        except InvalidTokenError:
            status = {"user": {}, "error": "invalid bearer token"}
        else:
            status = {
                "authenticated": True,
                "user": user_info(found.user),
                "audiences": list(found.audiences),
            }
        return {**body, "status": status}

    def self_subject_review(self, body: Document, request: Request) -> Document:
        """Handle a SelfSubjectReview."""
        return {
            "kind": "SelfSubjectReview",
            "apiVersion": body.get("apiVersion", f"{AUTHENTICATION}/v1"),
            "metadata": {"creationTimestamp": request.now},
            "status": {"userInfo": user_info(request.user)},
        }

    def subject_access_review(self, body: Document, request: Request) -> Document:
        """Handle a SubjectAccessReview."""
        del request
        spec = body.get("spec") or {}
        problems = [*_attribute_problems(spec), *_user_problems(spec)]
        problems += _metadata_problems(body, "must be empty", ())
        _reject(problems)
        return self._with_decision(body, _user_of(spec))

    def local_subject_access_review(self, body: Document, request: Request) -> Document:
        """Handle a LocalSubjectAccessReview."""
        spec = body.get("spec") or {}
        home = namespace_of(body) or request.namespace
        problems = [*_attribute_problems(spec), *_user_problems(spec)]
        problems += _metadata_problems(body, "must be empty except for namespace", ("namespace",))
        requested = dig(spec, "resourceAttributes", "namespace") or ""
        if spec.get("resourceAttributes") is not None and requested != home:
            problems.append(
                invalid(
                    "spec.resourceAttributes.namespace", requested, "must match metadata.namespace"
                )
            )
        if spec.get("nonResourceAttributes") is not None:
            internal = _internal_path(spec["nonResourceAttributes"])
            problems.append(
                invalid(
                    "spec.nonResourceAttributes", internal, "disallowed on this kind of request"
                )
            )
        _reject(problems)
        return self._with_decision(body, _user_of(spec))

    def self_subject_access_review(self, body: Document, request: Request) -> Document:
        """Handle a SelfSubjectAccessReview."""
        problems = _attribute_problems(body.get("spec") or {})
        problems += _metadata_problems(body, "must be empty", ())
        _reject(problems)
        return self._with_decision(body, request.user)

    def self_subject_rules_review(self, body: Document, request: Request) -> Document:
        """Handle a SelfSubjectRulesReview."""
        namespace = dig(body, "spec", "namespace")
        if not namespace:
            raise bad_request("no namespace on request")
        rules, problem = self.authorizer.rules_for(request.user, namespace)
        status: Document = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.get("resources")],
            "nonResourceRules": [
                {"verbs": rule.get("verbs"), "nonResourceURLs": rule["nonResourceURLs"]}
                for rule in rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }
        if problem:
            status["evaluationError"] = problem
        return {
            "kind": "SelfSubjectRulesReview",
            "apiVersion": f"{AUTHORIZATION}/v1",
            "metadata": {},
            "spec": {},
            "status": status,
        }

    def _with_decision(self, body: Document, user: User) -> Document:
        allowed, reason = self.authorizer.allows(_attributes_of(body.get("spec") or {}, user))
        status: Document = {"allowed": allowed}
        if reason:
            status["reason"] = reason
        return {**body, "status": status}


def user_info(user: User) -> Document:
    """Return the UserInfo of a user."""
    info: Document = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _attributes_of(spec: Document, user: User) -> Attributes:
    resource: dict[str, Any] | None = spec.get("resourceAttributes")
    if resource is None:
        path: dict[str, Any] = spec.get("nonResourceAttributes") or {}
        return Attributes(user, path.get("verb", ""), path=path.get("path", ""), is_resource=False)
    return Attributes(
        user,
        resource.get("verb", ""),
        group=resource.get("group", ""),
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
    )


def _user_of(spec: Document) -> User:
    return User(
        spec.get("user", ""),
        spec.get("uid", ""),
        tuple(spec.get("groups") or ()),
        spec.get("extra") or {},
    )


def _attribute_problems(spec: Document) -> list[Problem]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _internal_path(path), why)]
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, why)]
    return []


def _internal_path(path: Document) -> Document:
    # Parity: upstream prints its internal type here, whose fields have no JSON names.
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _user_problems(spec: Document) -> list[Problem]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _metadata_problems(body: Document, why: str, allowed: Sequence[str]) -> list[Problem]:
    metadata = body.get("metadata") or {}
    ignored = {"managedFields", "creationTimestamp", *allowed}
    if all(key in ignored or not value for key, value in metadata.items()):
        return []
    return [invalid("metadata", metadata, why)]


def _reject(problems: Sequence[Problem]) -> None:
    if problems:
        # Parity: upstream names no kind here.
        raise invalid_object(AUTHORIZATION, "", "", problems)


def _resource_rule(rule: Document) -> Document:
    fields = ("verbs", "apiGroups", "resources", "resourceNames")
    return {field: rule[field] for field in fields if rule.get(field)}


_KINDS = {
    "tokenreviews": "TokenReview",
    "selfsubjectreviews": "SelfSubjectReview",
    "subjectaccessreviews": "SubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
}


@dataclass(slots=True)
class _Review:
    group: str
    kind: str
    handler: Callable[[Document, Request], Document]
    name: str = ""
    version: str = "v1"

    def create(self, body: Document, request: Request, writer: Writer) -> Document:
        """Return the review with its status."""
        del writer
        return self.handler(body, request)


def review_actions(reviews: Reviews) -> dict[tuple[str, str, str], Action]:
    """Return the actions of reviews by group, resource and subresource (empty)."""
    return {
        (group, resource, ""): _Review(group, _KINDS[resource], handler)
        for (group, resource), handler in reviews.handlers().items()
    }
