"""Assembles a server from its parts.

Builds the resource registry from the shipped discovery document, the schemas and the strategies,
loads persisted objects, and connects all parts. The only module that knows all of them.
Upstream: cmd/kube-apiserver/app/server.go, pkg/controlplane/instance.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from kubesched.api.schema.load import schema_for
from kubesched.api.schema.types import Struct
from kubesched.cluster.apiserver import kinds
from kubesched.cluster.apiserver.admission.chain import BARE, AdmissionOptions, admission_chain
from kubesched.cluster.apiserver.admission.resource_quota import ResourceQuota
from kubesched.cluster.apiserver.bootstrap import documents, make_missing
from kubesched.cluster.apiserver.crd.custom_kinds import CustomKinds
from kubesched.cluster.apiserver.crd.definition import GROUP as DEFINITIONS_GROUP
from kubesched.cluster.apiserver.crd.definition import RESOURCE as DEFINITIONS
from kubesched.cluster.apiserver.crd.definition_strategy import DefinitionStrategy
from kubesched.cluster.apiserver.data import read_data
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.http.bodies import conform
from kubesched.cluster.apiserver.http.discovery import Discovery
from kubesched.cluster.apiserver.http.openapi import OpenApi
from kubesched.cluster.apiserver.http.pages import PathHandler
from kubesched.cluster.apiserver.http.server import ApiServer, Authenticates, Authorizes
from kubesched.cluster.apiserver.identity import Identities
from kubesched.cluster.apiserver.kinds.named_groups import named_group_strategies
from kubesched.cluster.apiserver.resources import (
    Action,
    Registry,
    Resource,
    ScaleSubresource,
    Unserved,
    ViewSubresource,
)
from kubesched.cluster.apiserver.storage.persistence import DataFileError, SqliteJournal
from kubesched.cluster.apiserver.storage.store import EMPTY, Store
from kubesched.cluster.apiserver.storage.watch_cache import Entry
from kubesched.cluster.apiserver.strategy import Admission, Request, Strategy
from kubesched.cluster.apiserver.verbs.context import Context, WriteOptions, decode
from kubesched.cluster.apiserver.verbs.writing import ContextWriter
from kubesched.kit.clock import Clock
from kubesched.kit.rng import RandomStream

Actions = Mapping[tuple[str, str, str], Action]
SERVICE_IP: Final = "10.0.0.1"
DEFAULT_PORT: Final = 6443
_NAMELESS: Final = Strategy()


class _Specless(Strategy):
    """Strategy of a kind without rules and without a spec."""

    bumps_generation = False


_SPECLESS: Final = _Specless()


@dataclass(slots=True)
class Parts:
    """Parts of a server besides its kinds; set during assembly."""

    clock: Clock
    seed: int
    data: Path | None = None
    address: str = "127.0.0.1"
    port: int = 6443
    actions: dict[tuple[str, str, str], Action] = field(default_factory=dict)
    admission: AdmissionOptions = BARE
    """Enabled admission plugins. With BARE, pods need no service account and nodes no kubelet."""
    pages: dict[str, PathHandler] = field(default_factory=dict)
    openapi: OpenApi = field(default_factory=OpenApi)
    objects: list[tuple[str, str, Document]] = field(default_factory=list)
    """Additional objects to create at the start: group, resource, document."""


def build_context(parts: Parts) -> Context:
    """Return the state of a server: registry and store."""
    journal = None if parts.data is None else SqliteJournal(parts.data)
    store = Store(journal, version=1 if journal is None else max(1, journal.version()))
    context = Context(
        registry=build_registry(parts.actions),
        store=store,
        clock=parts.clock,
        identities=Identities(parts.seed),
        admission=_admission(parts),
    )
    for resource in context.registry:
        store.bucket(resource.storage)
    for plugin in context.admission:
        if isinstance(plugin, ResourceQuota):
            plugin.charge = _charge(context)
    if journal is not None:
        load(context, journal.objects())
    return context


def _charge(context: Context) -> Callable[[Document, Request], None]:
    writer = ContextWriter(context, WriteOptions())

    def charge(quota: Document, request: Request) -> None:
        writer.replace("", "resourcequotas", quota, request)

    return charge


def _admission(parts: Parts) -> Sequence[Admission]:
    return admission_chain(parts.admission, RandomStream(parts.seed, "admission"))


def build_server(
    context: Context, parts: Parts, *, authenticator: Authenticates, authorizer: Authorizes
) -> ApiServer:
    """Return a server over a context; create the objects that every cluster has."""
    CustomKinds(context, parts.openapi).load()
    make_missing(context, [*documents(SERVICE_IP, parts.port or DEFAULT_PORT), *parts.objects])
    journal = context.store.journal
    if isinstance(journal, SqliteJournal):
        journal.commit()
    return ApiServer(
        context,
        authenticator=authenticator,
        authorizer=authorizer,
        discovery=Discovery(context.registry, f"{parts.address}:{parts.port}"),
        journal=journal if isinstance(journal, SqliteJournal) else None,
        pages=parts.pages,
        openapi=parts.openapi,
    )


def build_registry(actions: Actions) -> Registry:
    """Return the registry of all built-in resources."""
    registry = Registry()
    discovery: dict[str, Any] = msgspec.json.decode(read_data("discovery.json.gz"))
    strategies = {**named_group_strategies(), **kinds.strategies()}
    strategies[DEFINITIONS_GROUP, DEFINITIONS] = DefinitionStrategy()
    known = {
        **kinds.actions(),
        **{(*key, ""): one for key, one in kinds.collection_actions().items()},
        **actions,
    }
    maker = _Maker(strategies, kinds.views(), known)
    for group in (*discovery["api"]["items"], *discovery["apis"]["items"]):
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            for raw in version["resources"]:
                registry.add(maker.resource(name, version["version"], raw))
    return registry


@dataclass(slots=True)
class _Maker:
    """Builds resources from the discovery document and the strategies."""

    strategies: Mapping[tuple[str, str], Strategy]
    views: Mapping[tuple[str, str, str], Strategy]
    actions: Actions

    def resource(self, group: str, version: str, raw: Document) -> Resource:
        """Return one resource."""
        name, kind = raw["resource"], raw["responseKind"]["kind"]
        schema = schema_for(group, version, kind)
        resource = Resource(
            group=group,
            version=version,
            resource=name,
            kind=kind,
            singular=raw.get("singularResource", ""),
            is_namespaced=raw["scope"] == "Namespaced",
            verbs=tuple(raw["verbs"]),
            strategy=self.strategies.get((group, name)) or _default_strategy(schema),
            schema=schema,
            short_names=tuple(raw.get("shortNames", ())),
            categories=tuple(raw.get("categories", ())),
            creates=self.actions.get((group, name, "")),
        )
        if schema is not None:
            empty = conform(schema, {"kind": kind, "apiVersion": resource.api_version}).document
            resource.empty_status = empty.get("status")
            resource.empty_object = {
                key: value
                for key, value in empty.items()
                if key not in {"kind", "apiVersion", "metadata"}
            }
        for below in raw.get("subresources", ()):
            self._add_subresource(resource, below)
        kinds.share_storage(resource)
        return resource

    def _add_subresource(self, resource: Resource, raw: Document) -> None:
        name, verbs = raw["subresource"], tuple(raw["verbs"])
        key = (resource.group, resource.resource, name)
        if name == "scale":
            resource.scale = ScaleSubresource(verbs=verbs)
        elif name == "status":
            resource.views[name] = ViewSubresource(name, resource.strategy, verbs)
        elif key in self.views:
            resource.views[name] = ViewSubresource(name, self.views[key], verbs)
        elif key in self.actions:
            resource.actions[name] = self.actions[key]
        else:
            response_kind = raw["responseKind"]
            kind = (
                response_kind.get("group", ""),
                response_kind.get("version", ""),
                response_kind["kind"],
            )
            resource.unserved[name] = Unserved(*kind, verbs)


def _default_strategy(schema: Struct | None) -> Strategy:
    return _NAMELESS if schema is None or "spec" in schema.fields else _SPECLESS


def load(context: Context, rows: Iterable[tuple[str, str, int, bytes]]) -> None:
    """Load persisted objects."""
    by_storage = {resource.storage: resource for resource in context.registry}
    for storage, key, version, data in rows:
        try:
            document: Document = decode(data)
        except msgspec.DecodeError as error:
            raise DataFileError(f"{storage} {key} in the data file is damaged: {error}") from None
        resource = by_storage.get(storage)
        strategy = _NAMELESS if resource is None else resource.strategy
        labels = (document.get("metadata") or {}).get("labels") or EMPTY
        entry = Entry(key, version, data, labels, strategy.fields(document))
        context.store.load(storage, entry)
