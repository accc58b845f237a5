"""ServiceAccounts: the account `default` in every active namespace.

Never creates tokens: the API server does.
Upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go
"""

from __future__ import annotations

from typing import Final

from kubesched.api.documents import Document, namespace_of
from kubesched.client.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from kubesched.client.resources import NAMESPACES, SERVICE_ACCOUNTS
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating

_ACCOUNT: Final = "default"


class ServiceAccountController(Controller):
    """Creates the default accounts."""

    name = "serviceaccount"
    component = "service-account-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespaces = context.informers.of(NAMESPACES)
        self._accounts = context.informers.of(SERVICE_ACCOUNTS)
        self._namespaces.on_change(self.enqueue)
        self._accounts.on_change(self._account_changed)

    def _account_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None and old is not None:
            self.queue.add(namespace_of(old))

    async def sync(self, key: str) -> None:
        """Create the default account of a namespace if it is missing."""
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
            if not is_namespace_terminating(error):
                raise
