"""ClusterRole aggregation: fills in `admin`, `edit`, `view` and other aggregated roles.

Owns the rules of every ClusterRole that has an aggregationRule. Never changes another role.
Upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubesched.api.documents import Document, labels_of, name_of, selector_of
from kubesched.client.resources import CLUSTER_ROLES
from kubesched.cluster.controllers.controller import Context, Controller

_APPLY: Final = "application/apply-patch+yaml"
_MANAGER: Final = "clusterrole-aggregation-controller"


class ClusterRoleAggregationController(Controller):
    """Aggregates the rules of ClusterRoles."""

    name = "clusterrole-aggregation"
    component = _MANAGER
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._roles = context.informers.of(CLUSTER_ROLES)
        self._aggregated: dict[str, None] = {}
        self._roles.on_change(self._changed)

    def _changed(self, old: Document | None, new: Document | None) -> None:
        role = new or old
        if role is None:
            return
        if new is not None and new.get("aggregationRule") is not None:
            self._aggregated[name_of(new)] = None
        else:
            self._aggregated.pop(name_of(role), None)
        # There are few of them, and any role may be aggregated into any other.
        for name in self._aggregated:
            self.queue.add(name)

    async def sync(self, key: str) -> None:
        """Update the rules of one aggregated role."""
        role = self._roles.get(key)
        if role is None or role.get("aggregationRule") is None:
            return
        rules = aggregated_rules(role, self._roles)
        if rules == (role.get("rules") or []):
            return
        body = {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            "metadata": {"name": key},
            "rules": rules,
        }
        await self.api.client.patch(
            CLUSTER_ROLES,
            key,
            body,
            content_type=_APPLY,
            query={"fieldManager": _MANAGER, "force": True},
        )


def aggregated_rules(role: Document, roles: Iterable[Document]) -> list[Document]:
    """Return the rules of all selected roles, ordered by role name, without duplicates."""
    rules: list[Document] = []
    others = sorted((one for one in roles if name_of(one) != name_of(role)), key=name_of)
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        matcher = selector_of(selector)
        for other in others:
            if not matcher.matches(labels_of(other)):
                continue
            for rule in other.get("rules") or ():
                if rule not in rules:
                    rules.append(rule)
    return rules
