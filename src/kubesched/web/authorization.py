"""Who may read what.

Owns the order of the rules: groups and paths that are always allowed, then the API server's word.
Never finds out who somebody is.
Upstream: staging/src/k8s.io/apiserver/pkg/server/options/authorization.go toAuthorizer,
authorization/path, plugin/pkg/authorizer/webhook/webhook.go
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.web.authentication import User
from kubesched.web.reviews import Remembered, ReviewError, Reviews
from kubesched.web.settings import AuthorizationSettings, ServingError

_ANSWERS_MAX = 8192
_PATH_BYTES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a request to be let through."""

    result: str
    """`allowed`, `denied`, or `no-opinion`, which refuses too."""
    reason: str = ""

    @property
    def is_allowed(self) -> bool:
        """Return whether it may pass."""
        return self.result == "allowed"


class Authorizer:
    """Decides who passes."""

    def __init__(
        self,
        settings: AuthorizationSettings,
        reviews: Reviews | None,
        *,
        clock: Clock,
        log: Log,
    ) -> None:
        """Read the rules; ServingError if a path has a star in its middle."""
        self._settings = settings
        self._reviews = reviews
        self._log = log
        self._remembered: Remembered[dict[str, Any]] = Remembered(clock, count_max=_ANSWERS_MAX)
        self._paths, self._prefixes = _paths(settings.always_allow_paths)
        if reviews is None:
            log.line(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization "
                "tokens won't work.",
                severity="W",
            )

    async def decide(self, user: User, verb: str, path: str) -> Decision:
        """Return whether somebody may; ReviewError if the API server cannot be asked."""
        if set(user.groups) & set(self._settings.always_allow_groups):
            return Decision("allowed")
        # Parity: path.go NewAuthorizer, v1.36: one leading slash does not matter.
        plain = path.removeprefix("/")
        if plain in self._paths or plain.startswith(self._prefixes):
            return Decision("allowed")
        if self._reviews is None:
            return Decision("no-opinion")
        return await self._ask(self._reviews, _spec(user, verb, path), len(verb) + len(path))

    async def _ask(self, reviews: Reviews, spec: dict[str, Any], length: int) -> Decision:
        """Return what the API server says.

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
            status = await self._remembered.ask(key, lambda: reviews.create(spec), ttl_s)
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


def _paths(given: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    plain = [one.removeprefix("/") for one in given]
    for one in plain:
        if "*" in one[:-1]:
            raise ServingError(f'only trailing * allowed in "{one}"')
    return (
        frozenset(one for one in plain if not one.endswith("*")),
        tuple(one[:-1] for one in plain if one.endswith("*")),
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
