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
    """The replica count of an object, as autoscaling/v1 Scale."""

    spec_path: tuple[str, ...] = ("spec", "replicas")
    status_path: tuple[str, ...] = ("status", "replicas")
    selector_path: tuple[str, ...] = ("spec", "selector")
    needs_replicas: bool = False
    """Whether there is no Scale of an object that names no replica count (custom kinds)."""
    name: str = "scale"
    verbs: tuple[str, ...] = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Unserved:
    """What upstream has below a resource and this server has not: it needs a kubelet."""

    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


class Action(Protocol):
    """What POSTing to a subresource does: `binding`, `eviction`, `token`."""

    name: str
    group: str
    version: str
    kind: str
    """The kind of the body."""

    def create(self, body: Document, request: Request, writer: Writer) -> Document:
        """Perform the action; return the object of the response."""


class Writer(Protocol):
    """Writing other objects from within an action, through the same verbs as a client."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None: ...

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]: ...

    def create(
        self, group: str, resource: str, document: Document, request: Request
    ) -> Document: ...

    def replace(self, group: str, resource: str, document: Document, request: Request) -> Document:
        """Store a validated document; Conflict if it is not the newest."""

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
    """What `status` is where nothing is known yet, None where it is left out."""
    empty_object: Document = field(default_factory=dict)
    """What an empty object shows besides metadata (`spec: {}`)."""
    deprecation: str = ""
    """Warning in every response, that the kind is deprecated."""
    is_custom: bool = False
    """Whether a CustomResourceDefinition defines it."""
    storage_version: str = ""
    """The version in which a custom kind's objects are kept."""
    printer_columns: tuple[dict[str, Any], ...] = ()
    """The additionalPrinterColumns of a custom kind."""
    unserved: dict[str, Unserved] = field(default_factory=dict)
    """Subresources that are named in discovery only."""
    creates: Action | None = None
    """What POSTing to the collection does where nothing is stored (bindings, tokenreviews)."""
    storage: str = ""
    """Where objects are kept: `group/resource`; resources that share it show the same objects."""
    to_storage: Any = None
    """Document in this version to the stored one (events.k8s.io to core events), None if equal."""
    from_storage: Any = None
    list_kind: str = ""

    def __post_init__(self) -> None:
        self.storage = self.storage or f"{self.group}/{self.resource}"
        self.list_kind = self.list_kind or f"{self.kind}List"

    @property
    def error_group(self) -> str:
        """Return the group that errors name: that of the stored kind."""
        return self.storage.partition("/")[0]

    @property
    def api_version(self) -> str:
        """Return the apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Registry:
    """Every resource served, by group, version and plural."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}

    def add(self, resource: Resource) -> None:
        """Serve a resource from now on."""
        self._by_path[resource.group, resource.version, resource.resource] = resource

    def remove(self, group: str, version: str, resource: str) -> None:
        """Cease to serve a resource."""
        self._by_path.pop((group, version, resource), None)

    def find(self, group: str, version: str, resource: str) -> Resource | None:
        """Return a resource, None if it is not served."""
        return self._by_path.get((group, version, resource))

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_path.values()))
