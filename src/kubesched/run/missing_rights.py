"""Missing RBAC permissions: translates a forbidden request into the rule that would allow it.

Each rule is logged once, ready to paste. `doctor` checks permissions before the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kubesched.client.errors import ApiError
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log

# Parity: apiserver options/authentication.go, v1.36: serving works without it.
TOLERATED: Final = ("configmaps", "extension-apiserver-authentication")
# After this time without a forbidden request, a permission may have been granted.
FORGET_S: Final = 300.0
_WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# A reflector lists and watches: one rule instead of three errors in a row.
_READ: Final = "get, list, watch"


class NeededRight(NamedTuple):
    """The permission that a request needs."""

    verbs: str
    group: str
    resource: str
    namespace: str
    name: str

    @property
    def rule(self) -> str:
        """Return the rule of a Role or ClusterRole that grants the permission."""
        resource = f'- apiGroups: ["{self.group}"]\n  resources: ["{self.resource}"]'
        return f"{resource}\n  verbs: [{self.verbs}]"


def right_of(method: str, path: str) -> NeededRight:
    """Return the permission that a request needs."""
    parts = path.partition("?")[0].strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    resource, name = parts[0] if parts else "", parts[1] if len(parts) > 1 else ""
    if len(parts) > 2:
        resource = f"{resource}/{parts[2]}"
    return NeededRight(_WRITES.get(method, _READ), group, resource, namespace, name)


@dataclass(slots=True)
class MissingRights:
    """The permissions that recent requests lacked."""

    clock: Clock
    log: Log
    _seen: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, method: str, path: str, error: ApiError) -> None:
        """Record a forbidden request; the first one of a rule is logged."""
        right = right_of(method, path)
        if (right.resource, right.name) == TOLERATED:
            return
        rule, place = right.rule, right.namespace
        is_new = (rule, place) not in self._seen
        self._seen[rule, place] = self.clock.monotonic_s()
        if is_new:
            where = f"Role in namespace {place} or ClusterRole" if place else "ClusterRole"
            self.log.error(
                "Missing permission; add this rule to the scheduler's role",
                err=str(error),
                role=where,
                rule=rule,
            )

    def problem(self) -> str | None:
        """Return how many permissions are missing; None if none is."""
        now_s = self.clock.monotonic_s()
        self._seen = {key: at for key, at in self._seen.items() if now_s - at < FORGET_S}
        if not self._seen:
            return None
        return f"missing permissions: {len(self._seen)}, see the log"
