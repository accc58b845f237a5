"""Root CA publisher: the ConfigMap `kube-root-ca.crt` in every namespace.

Owns that ConfigMap. Never creates certificates.
Upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go
"""

from __future__ import annotations

from typing import Final

from kubesched.api.documents import Document, name_of, namespace_of
from kubesched.client.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from kubesched.client.resources import CONFIG_MAPS, NAMESPACES
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating

_NAME: Final = "kube-root-ca.crt"
_ANNOTATION: Final = "kubernetes.io/description"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)


class RootCaPublisherController(Controller):
    """Creates the ConfigMaps and reverts changes to them."""

    name = "root-ca-certificate-publisher"
    component = "root-ca-cert-publisher"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._data = {"ca.crt": context.settings.root_ca_pem}
        self._namespaces = context.informers.of(NAMESPACES)
        self._config_maps = context.informers.of(CONFIG_MAPS)
        self._namespaces.on_change(self._namespace_changed)
        self._config_maps.on_change(self._config_map_changed)

    def _namespace_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            return
        if old is None or (new.get("status") or {}).get("phase") == "Active":
            self.queue.add(name_of(new))

    def _config_map_changed(self, old: Document | None, new: Document | None) -> None:
        config_map = new or old
        if old is not None and config_map is not None and name_of(config_map) == _NAME:
            self.queue.add(namespace_of(config_map))

    async def sync(self, key: str) -> None:
        """Create or correct the ConfigMap of a namespace."""
        if self._namespaces.get(key) is None:
            return
        config_map = self._config_maps.get(f"{key}/{_NAME}")
        if config_map is None:
            await self._create(key)
            return
        annotations = config_map["metadata"].get("annotations") or {}
        if config_map.get("data") == self._data and annotations.get(_ANNOTATION):
            return
        metadata = {
            **config_map["metadata"],
            "annotations": {**annotations, _ANNOTATION: _DESCRIPTION},
        }
        await self.api.update(CONFIG_MAPS, {**config_map, "metadata": metadata, "data": self._data})

    async def _create(self, namespace: str) -> None:
        config_map = {
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
            await self.api.create(CONFIG_MAPS, config_map)
        except (AlreadyExistsError, NotFoundError):
            return
        except ForbiddenError as error:
            if not is_namespace_terminating(error):
                raise
