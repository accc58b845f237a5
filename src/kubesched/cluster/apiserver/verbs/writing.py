"""Writes from inside the server, for actions and bootstrap.

Upstream: pkg/registry/core/pod/storage/storage.go BindingREST, eviction.go
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import conflict, not_found, path_not_found
from kubesched.cluster.apiserver.metadata import resource_version_of
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import Context, WriteOptions
from kubesched.cluster.apiserver.verbs.create import create
from kubesched.cluster.apiserver.verbs.deletion import delete


@dataclass(slots=True)
class ContextWriter:
    """A Writer with the options of the current request."""

    context: Context
    options: WriteOptions

    def _resource(self, group: str, resource: str) -> Resource:
        found = self.context.find(group, resource)
        if found is None:
            raise path_not_found()
        return found

    def _request(
        self, found: Resource, request: Request, *, verb: str, namespace: str, name: str
    ) -> Request:
        return replace(
            request,
            group=found.group,
            version=found.version,
            resource=found.resource,
            kind=found.kind,
            subresource="",
            verb=verb,
            namespace=namespace,
            name=name,
        )

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None:
        """Return an object, or None."""
        return self.context.get(group, resource, namespace, name)

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]:
        """Yield objects ordered by key."""
        return self.context.list(group, resource, namespace)

    def create(self, group: str, resource: str, document: Document, request: Request) -> Document:
        """Create an object."""
        found = self._resource(group, resource)
        namespace = namespace_of(document) if found.is_namespaced else ""
        mine = self._request(
            found, request, verb="create", name=name_of(document), namespace=namespace
        )
        return create(self.context, found, document, mine, self.options)

    def replace(self, group: str, resource: str, document: Document, request: Request) -> Document:
        """Store a document unchanged; Conflict if its resourceVersion is not the current one."""
        del request
        found = self._resource(group, resource)
        name = name_of(document)
        entry = self.context.entry(found, namespace_of(document), name)
        if entry is None:
            raise not_found(group, resource, name)
        version = resource_version_of(document)
        if version and version != entry.version:
            raise conflict(group, resource, name)
        if self.options.is_dry_run:
            return document
        new = self.context.new_entry(found, document, self.context.store.next_version())
        self.context.store.put(found.storage, new)
        return document

    def delete(
        self,
        group: str,
        resource: str,
        namespace: str,
        name: str,
        options: Document,
        request: Request,
    ) -> Document:
        """Delete an object."""
        found = self._resource(group, resource)
        mine = self._request(found, request, verb="delete", name=name, namespace=namespace)
        if self.options.is_dry_run:
            options = {**options, "dryRun": ["All"]}
        return delete(self.context, found, options, mine)[0]
