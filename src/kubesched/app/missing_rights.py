"""Rights that the scheduler turned out to lack.

Owns the translation of a refused request into the rule that would allow it, said once, ready to
paste. What is needed beforehand is `doctor`'s to find out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kubesched.client.errors import ApiError
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log

# Parity: apiserver options/authentication.go, v1.36: serving gets along without it.
TOLERATED: Final = ("configmaps", "extension-apiserver-authentication")
# A right that is asked for again and again is still lacking; one that is not may have been granted.
FORGET_S: Final = 300.0
_VERBS: Final = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "WATCH": "watch",
}


class Asked(NamedTuple):
    """The right a request asks for."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def rule(self) -> str:
        """Return the rule of a Role or ClusterRole that gives this right."""
        # A reader lists and watches: one rule rather than three refusals one after the other.
        verbs = "get, list, watch" if self.verb in ("get", "list", "watch") else self.verb
        return (
            f'- apiGroups: ["{self.group}"]\n  resources: ["{self.resource}"]\n  verbs: [{verbs}]'
        )


def right_of(method: str, path: str) -> Asked:
    """Return the right a request needs."""
    parts = path.partition("?")[0].strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    resource, name = parts[0] if parts else "", parts[1] if len(parts) > 1 else ""
    verb = _VERBS.get(method) or ("get" if name else "list")
    if len(parts) > 2:
        resource = f"{resource}/{parts[2]}"
    return Asked(verb, group, resource, namespace, name)


@dataclass(slots=True)
class MissingRights:
    """The rights we were refused lately."""

    clock: Clock
    log: Log
    _seen: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, method: str, path: str, error: ApiError) -> None:
        """Take notice of a refusal; the first of its rule is said."""
        right = right_of(method, path)
        if (right.resource, right.name) == TOLERATED:
            return
        rule, place = right.rule, right.namespace
        is_new = (rule, place) not in self._seen
        self._seen[rule, place] = self.clock.monotonic_s()
        if is_new:
            where = f"Role in namespace {place} or ClusterRole" if place else "ClusterRole"
            self.log.error(
                "A right is missing; add this rule to the scheduler's role",
                err=str(error),
                role=where,
                rule=rule,
            )

    def problem(self) -> str | None:
        """Return which rights are lacking, None if none is."""
        now_s = self.clock.monotonic_s()
        self._seen = {key: at for key, at in self._seen.items() if now_s - at < FORGET_S}
        if not self._seen:
            return None
        return f"{len(self._seen)} rights are missing, see the log"
