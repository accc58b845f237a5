"""The registry of served resources, kinds and subresources.

Upstream: pkg/controlplane/instance.go, the installed APIResourceLists
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubesched.api.schema.types import Struct
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.strategy import Request, Strategy


@dataclass(slots=True)
class ViewSubresource:
    """A subresource that is a part of the object: `status`, `resize`, `ephemeralcontainers`."""

    name: str
    strategy: Strategy
    verbs: tuple[str, ...] = ("get", "patch", "update")


@dataclass(slots=True)
class ScaleSubresource:
    """The scale subresource: the replica count of an object, as autoscaling/v1 Scale."""

    spec_path: tuple[str, ...] = ("spec", "replicas")
    status_path: tuple[str, ...] = ("status", "replicas")
    selector_path: tuple[str, ...] = ("spec", "selector")
    needs_replicas: bool = False
    """Whether an object without a replica count has no Scale (custom kinds)."""
    name: str = "scale"
    verbs: tuple[str, ...] = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Unserved:
    """A subresource that upstream serves and this server rejects: it needs a kubelet."""

    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


class Action(Protocol):
    """Handler of a POST to a subresource such as `binding`, `eviction` or `token`."""

    name: str
    group: str
    version: str
    kind: str
    """Kind of the request body."""

    def create(self, body: Document, request: Request, writer: Writer) -> Document:
        """Perform the action; return the object of the response."""


class Writer(Protocol):
    """Write access to other objects for actions, through the verbs that clients use."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None: ...

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]: ...

    def create(
        self, group: str, resource: str, document: Document, request: Request
    ) -> Document: ...

    def replace(self, group: str, resource: str, document: Document, request: Request) -> Document:
        """Store a validated document; Conflict if its resourceVersion is not the current one."""

    def delete(
        self,
        group: str,
        resource: str,
        namespace: str,
        name: str,
        options: Document,
        request: Request,
    ) -> Document: ...


@dataclass(slots=True)
class Resource:
    """One resource in one version."""

    group: str
    version: str
    resource: str
    """The plural in paths."""
    kind: str
    singular: str
    is_namespaced: bool
    verbs: tuple[str, ...]
    strategy: Strategy
    schema: Struct | None
    """None for custom resources without a schema."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    views: dict[str, ViewSubresource] = field(default_factory=dict)
    scale: ScaleSubresource | None = None
    actions: dict[str, Action] = field(default_factory=dict)
    empty_status: Document | None = None
    """Status of an object that has none yet; None if `status` is omitted."""
    empty_object: Document = field(default_factory=dict)
    """Fields of an empty object besides metadata, e.g. `spec: {}`."""
    deprecation: str = ""
    """Deprecation warning of every response."""
    is_custom: bool = False
    """Whether a CustomResourceDefinition defines it."""
    storage_version: str = ""
    """Storage version of a custom kind."""
    printer_columns: tuple[dict[str, Any], ...] = ()
    """The additionalPrinterColumns of a custom kind."""
    unserved: dict[str, Unserved] = field(default_factory=dict)
    """Subresources that discovery lists but the server rejects."""
    creates: Action | None = None
    """Handler of a POST to the collection that stores nothing (bindings, tokenreviews)."""
    storage: str = ""
    """Key of the bucket, `group/resource`; resources with the same key share their objects."""
    to_storage: Any = None
    """Converts a document to its stored form (events.k8s.io to core events); None if equal."""
    from_storage: Any = None
    list_kind: str = ""

    def __post_init__(self) -> None:
        self.storage = self.storage or f"{self.group}/{self.resource}"
        self.list_kind = self.list_kind or f"{self.kind}List"

    @property
    def error_group(self) -> str:
        """Return the group in error messages: that of the stored kind."""
        return self.storage.partition("/")[0]

    @property
    def api_version(self) -> str:
        """Return the apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Registry:
    """All served resources by group, version and plural."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}

    def add(self, resource: Resource) -> None:
        """Register a resource."""
        self._by_path[resource.group, resource.version, resource.resource] = resource

    def remove(self, group: str, version: str, resource: str) -> None:
        """Unregister a resource."""
        self._by_path.pop((group, version, resource), None)

    def find(self, group: str, version: str, resource: str) -> Resource | None:
        """Return a resource; None if it is not served."""
        return self._by_path.get((group, version, resource))

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_path.values()))
