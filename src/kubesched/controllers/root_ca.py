"""Every namespace has the certificate by which pods know the API server.

Owns the ConfigMap `kube-root-ca.crt` of each namespace. Never makes certificates.
Upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go
"""

from __future__ import annotations

from typing import Final

from kubesched.client.cached.documents import Document, name_of, namespace_of
from kubesched.client.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from kubesched.client.resources import CONFIG_MAPS, NAMESPACES
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.refusals import is_namespace_ending

_NAME: Final = "kube-root-ca.crt"
_ANNOTATION: Final = "kubernetes.io/description"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)


class RootCaPublisher(Controller):
    """Makes the ConfigMaps, and puts right what others made of them."""

    name = "root-ca-certificate-publisher"
    component = "root-ca-cert-publisher"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._data = {"ca.crt": parts.settings.root_ca_pem}
        self._namespaces = parts.informers.of(NAMESPACES)
        self._config_maps = parts.informers.of(CONFIG_MAPS)
        self._namespaces.on_change(self._namespace_changed)
        self._config_maps.on_change(self._config_map_changed)

    def _namespace_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            return
        if old is None or (new.get("status") or {}).get("phase") == "Active":
            self.queue.add(name_of(new))

    def _config_map_changed(self, old: Document | None, new: Document | None) -> None:
        found = new or old
        if old is not None and found is not None and name_of(found) == _NAME:
            self.queue.add(namespace_of(found))

    async def sync(self, key: str) -> None:
        """Bring the ConfigMap of a namespace to what it should be."""
        if self._namespaces.get(key) is None:
            return
        found = self._config_maps.get(f"{key}/{_NAME}")
        if found is None:
            await self._create(key)
            return
        annotations = found["metadata"].get("annotations") or {}
        if found.get("data") == self._data and annotations.get(_ANNOTATION):
            return
        metadata = {**found["metadata"], "annotations": {**annotations, _ANNOTATION: _DESCRIPTION}}
        await self.api.update(CONFIG_MAPS, {**found, "metadata": metadata, "data": self._data})

    async def _create(self, namespace: str) -> None:
        made = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": _NAME,
                "namespace": namespace,
                "annotations": {_ANNOTATION: _DESCRIPTION},
            },
            "data": self._data,
        }
        try:
            await self.api.create(CONFIG_MAPS, made)
        except (AlreadyExistsError, NotFoundError):
            return
        except ForbiddenError as error:
            if not is_namespace_ending(error):
                raise
