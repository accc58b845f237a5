"""Authorization of requests to the ops server.

Owns the order of rules: groups and paths that are always allowed, then SubjectAccessReviews. Never
authenticates a user.
Upstream: staging/src/k8s.io/apiserver/pkg/server/options/authorization.go toAuthorizer,
authorization/path, plugin/pkg/authorizer/webhook/webhook.go
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.ops.authentication import User
from kubesched.ops.reviews import ReviewCache, ReviewError, Reviews
from kubesched.ops.serving import AuthorizationSettings, ServingError

_ALWAYS_ALLOWED = "system:masters"
_ANSWERS_MAX = 8192
_PATH_BYTES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of an authorization."""

    result: str
    """`allowed`, `denied`, or `no-opinion`, which also rejects."""
    reason: str = ""

    @property
    def is_allowed(self) -> bool:
        """Return whether the request is allowed."""
        return self.result == "allowed"


class Authorizer:
    """Authorizes users."""

    def __init__(
        self,
        settings: AuthorizationSettings,
        reviews: Reviews | None,
        *,
        clock: Clock,
        log: Log,
    ) -> None:
        """Parse the rules; ServingError if a path has a star not at its end."""
        self._settings = settings
        self._reviews = reviews
        self._log = log
        self._cache: ReviewCache[dict[str, Any]] = ReviewCache(clock, count_max=_ANSWERS_MAX)
        self._paths, self._prefixes = _paths(settings.always_allow_paths)
        if reviews is None:
            log.line(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization "
                "tokens won't work.",
                severity="W",
            )

    async def decide(self, user: User, verb: str, path: str) -> Decision:
        """Authorize a request; ReviewError if the review fails."""
        if _ALWAYS_ALLOWED in user.groups:
            return Decision("allowed")
        # Parity: path.go NewAuthorizer, v1.36: one leading slash is ignored.
        plain = path.removeprefix("/")
        if plain in self._paths or plain.startswith(self._prefixes):
            return Decision("allowed")
        if self._reviews is None:
            return Decision("no-opinion")
        return await self._review(self._reviews, _spec(user, verb, path), len(verb) + len(path))

    async def _review(self, reviews: Reviews, spec: dict[str, Any], length: int) -> Decision:
        """Return the decision of the API server.

        Parity: plugin/pkg/authorizer/webhook/webhook.go Authorize, shouldCache, v1.36.
        """

        def ttl_s(status: dict[str, Any]) -> float:
            if length >= _PATH_BYTES_MAX:
                return 0.0
            settings = self._settings
            allowed = status.get("allowed")
            return settings.allow_cache_ttl_s if allowed else settings.deny_cache_ttl_s

        try:
            key = msgspec.json.encode(spec)
            status = await self._cache.fetch(key, lambda: reviews.create(spec), ttl_s)
        except ReviewError as error:
            self._log.line(f"Failed to make webhook authorizer request: {error}", severity="E")
            raise
        reason = status.get("reason") or ""
        if status.get("denied"):
            if status.get("allowed"):
                raise ReviewError(
                    "webhook subject access review returned both allow and deny response"
                )
            return Decision("denied", reason)
        return Decision("allowed" if status.get("allowed") else "no-opinion", reason)


def _paths(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    paths = [pattern.removeprefix("/") for pattern in patterns]
    for path in paths:
        if "*" in path[:-1]:
            raise ServingError(f'only trailing * allowed in "{path}"')
    return (
        frozenset(path for path in paths if not path.endswith("*")),
        tuple(path[:-1] for path in paths if path.endswith("*")),
    )


def _spec(user: User, verb: str, path: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"nonResourceAttributes": {"path": path, "verb": verb}}
    if user.name:
        spec["user"] = user.name
    if user.groups:
        spec["groups"] = user.groups
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    if user.uid:
        spec["uid"] = user.uid
    return spec
