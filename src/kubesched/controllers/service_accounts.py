"""Every namespace has an account that pods are by default.

Owns the account `default` of each active namespace. Never makes tokens: the API server does.
Upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go
"""

from __future__ import annotations

from typing import Final

from kubesched.client.cached.documents import Document, name_of, namespace_of
from kubesched.client.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from kubesched.client.resources import NAMESPACES, SERVICE_ACCOUNTS
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.refusals import is_namespace_ending

_ACCOUNT: Final = "default"


class ServiceAccountsController(Controller):
    """Makes the accounts."""

    name = "serviceaccount"
    component = "service-account-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._namespaces = parts.informers.of(NAMESPACES)
        self._accounts = parts.informers.of(SERVICE_ACCOUNTS)
        self._namespaces.on_change(self._namespace_changed)
        self._accounts.on_change(self._account_changed)

    def _namespace_changed(self, old: Document | None, new: Document | None) -> None:
        del old
        if new is not None:
            self.queue.add(name_of(new))

    def _account_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None and old is not None:
            self.queue.add(namespace_of(old))

    async def sync(self, key: str) -> None:
        """Make the account of a namespace if it is not there."""
        namespace = self._namespaces.get(key)
        if namespace is None or (namespace.get("status") or {}).get("phase") != "Active":
            return
        if self._accounts.get(f"{key}/{_ACCOUNT}") is not None:
            return
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": _ACCOUNT, "namespace": key},
        }
        try:
            await self.api.create(SERVICE_ACCOUNTS, account)
        except (AlreadyExistsError, NotFoundError):
            return
        except ForbiddenError as error:
            if not is_namespace_ending(error):
                raise
