"""Serves the instances of CustomResourceDefinitions.

Accepts names, sets conditions, registers the resources of every served version, and deletes
instances with their definition. Does synchronously what upstream's controllers do asynchronously.
Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/{status,establish,finalizer},
pkg/apiserver/customresource_handler.go
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.api.field_errors import aggregate_text
from kubesched.cluster.apiserver.crd.definition import (
    GROUP,
    RESOURCE,
    Definition,
    Version,
    definition_of,
    version_order,
)
from kubesched.cluster.apiserver.crd.definition_strategy import (
    CLEANUP,
    DefinitionStrategy,
    set_condition,
)
from kubesched.cluster.apiserver.crd.instance_types import struct_of
from kubesched.cluster.apiserver.crd.instances import InstanceStrategy, from_storage, to_storage
from kubesched.cluster.apiserver.crd.publishing import published
from kubesched.cluster.apiserver.documents import (
    Document,
    copy_of,
    dig,
    metadata_of,
    name_of,
    namespace_of,
)
from kubesched.cluster.apiserver.http.openapi import OpenApi
from kubesched.cluster.apiserver.patch.managed_fields import Manager, track_update
from kubesched.cluster.apiserver.resources import Resource, ViewSubresource
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import Context
from kubesched.cluster.apiserver.verbs.deletion import delete, remove
from kubesched.golang.strconv import go_quote

# In the order of upstream's discovery.
_VERBS: Final = (
    "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
)  # fmt: skip
_NAMES: Final = (
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
)


class CustomKinds:
    """The custom kinds of one server."""

    def __init__(self, context: Context, openapi: OpenApi) -> None:
        self._context = context
        self._openapi = openapi
        self._definitions: dict[str, Definition] = {}
        resource = context.find(GROUP, RESOURCE)
        assert resource is not None, "the server serves no CustomResourceDefinitions"
        self._resource = resource
        if isinstance(resource.strategy, DefinitionStrategy):
            resource.strategy.kinds = self

    def load(self) -> None:
        """Serve the persisted definitions."""
        for document in list(self._context.list(GROUP, RESOURCE)):
            if _is_established(document):
                self._serve(document)

    def defined(self, document: Document, request: Request) -> None:
        """Handle a stored definition: accept its names and serve its instances."""
        if metadata_of(document).get("deletionTimestamp"):
            return
        new = copy_of(document)
        self._accept_names(new, request)
        if new != document:
            self._store_status(new, document, request)
        if _is_established(new):
            self._serve(new)

    def _store_status(self, new: Document, old: Document, request: Request) -> None:
        by = Manager(
            "kube-apiserver",
            "Update",
            api_version=self._resource.api_version,
            time=request.now,
            subresource="status",
        )
        track_update(self._resource.schema, old, new, by)
        self._store(new)

    def _store(self, document: Document) -> None:
        context = self._context
        entry = context.new_entry(self._resource, document, context.store.next_version())
        context.store.put(self._resource.storage, entry)

    def _accept_names(self, document: Document, request: Request) -> None:
        # Parity: naming_controller.go calculateNamesAndConditions, v1.36
        requested = dig(document, "spec", "names")
        status = document.setdefault("status", {})
        accepted = status.get("acceptedNames") or {}
        if requested == accepted and _is_established(document):
            return
        taken = self._taken_names(document)
        names = dict(accepted)
        conflict: tuple[str, str] | None = None
        for key, reason in _NAMES:
            problem = _name_conflict(key, requested, accepted, taken)
            if problem:
                conflict = (reason, problem)
            elif requested.get(key):
                names[key] = requested[key]
            else:
                names.pop(key, None)
        names["categories"] = requested.get("categories")
        status["acceptedNames"] = {key: value for key, value in names.items() if value is not None}
        now = request.now
        if conflict is not None:
            set_condition(document, "NamesAccepted", "False", *conflict, now=now)
            if not any(condition["type"] == "Established" for condition in status["conditions"]):
                text = "not all names are accepted"
                set_condition(document, "Established", "False", "NotAccepted", text, now=now)
            return
        text = "no conflicts found"
        set_condition(document, "NamesAccepted", "True", "NoConflicts", text, now=now)
        if not _is_established(document):
            text = "the initial names have been accepted"
            set_condition(document, "Established", "True", "InitialNamesAccepted", text, now=now)

    def _taken_names(self, document: Document) -> set[str]:
        """Return the names accepted for other definitions of the group."""
        group, mine = dig(document, "spec", "group"), name_of(document)
        taken: set[str] = set()
        for other in self._context.list(GROUP, RESOURCE):
            if dig(other, "spec", "group") != group or name_of(other) == mine:
                continue
            names = dig(other, "status", "acceptedNames") or {}
            taken |= {names.get(key) or "" for key in ("plural", "singular")}
            taken |= {f"kind:{names.get(key) or ''}" for key in ("kind", "listKind")}
            taken |= set(names.get("shortNames") or ())
        return taken

    def _serve(self, document: Document) -> None:
        definition = definition_of(document)
        old = self._definitions.get(definition.name)
        if old == definition:
            return
        if old is not None:
            self._cease(old)
        self._definitions[definition.name] = definition
        for version in sorted(definition.versions, key=lambda one: version_order(one.name)):
            if version.is_served:
                self._context.registry.add(self._resource_of(definition, version))
                part = published(definition, version)
                self._openapi.publish(definition.group, version.name, definition.plural, part)

    def _resource_of(self, definition: Definition, version: Version) -> Resource:
        strategy = InstanceStrategy(definition, version, self._instance_gone)
        is_plain = len(definition.versions) == 1 and not _has_default(version.schema)
        views = {}
        if version.has_status:
            views["status"] = ViewSubresource("status", strategy)
        return Resource(
            group=definition.group,
            version=version.name,
            resource=definition.plural,
            kind=definition.kind,
            singular=definition.singular,
            is_namespaced=definition.is_namespaced,
            verbs=_VERBS,
            strategy=strategy,
            schema=struct_of(definition.group, definition.kind, version.schema),
            short_names=definition.short_names,
            categories=definition.categories,
            views=views,
            scale=version.scale,
            is_custom=True,
            storage_version=definition.storage_version.name,
            printer_columns=version.columns,
            deprecation=version.warning,
            to_storage=None if is_plain else to_storage(definition),
            from_storage=None if is_plain else from_storage(definition, version),
            list_kind=definition.list_kind,
        )

    def _cease(self, definition: Definition) -> None:
        for version in definition.versions:
            self._context.registry.remove(definition.group, version.name, definition.plural)
            self._openapi.withdraw(definition.group, version.name, definition.plural)

    def undefine(self, document: Document, request: Request) -> None:
        """Delete the instances of a terminating definition, then the definition."""
        new = copy_of(document)
        text = "CustomResource deletion is in progress"
        now = request.now
        set_condition(new, "Terminating", "True", "InstanceDeletionInProgress", text, now=now)
        self._store(new)
        definition = self._definitions.get(name_of(document))
        if definition is not None:
            self._delete_instances(definition)
        self._finish(name_of(document), request)

    def _delete_instances(self, definition: Definition) -> None:
        context = self._context
        resource = context.find(definition.group, definition.plural)
        if resource is None:
            return
        for one in list(context.list(definition.group, definition.plural)):
            request = context.system_request(resource, "delete")
            request.namespace, request.name = namespace_of(one), name_of(one)
            delete(context, resource, {}, request)

    def _finish(self, name: str, request: Request) -> None:
        """Remove the finalizer of a definition once it has no instances."""
        context = self._context
        document = context.get(GROUP, RESOURCE, "", name)
        definition = self._definitions.get(name)
        if document is None or not metadata_of(document).get("deletionTimestamp"):
            return
        if definition is not None and any(context.list(definition.group, definition.plural)):
            return
        metadata = metadata_of(document)
        rest = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != CLEANUP]
        if rest:
            metadata["finalizers"] = rest
            self._store(document)
            return
        remove(context, self._resource, document, request)

    def _instance_gone(self, document: Document) -> None:
        """Finish the deletion of a definition if its last instance is gone."""
        group = str(document.get("apiVersion") or "").rpartition("/")[0]
        for name, definition in list(self._definitions.items()):
            if (definition.group, definition.kind) == (group, document.get("kind")):
                self._finish(name, self._context.system_request(self._resource, "delete"))

    def gone(self, document: Document) -> None:
        """Stop serving the instances of a deleted definition."""
        definition = self._definitions.pop(name_of(document), None)
        if definition is not None:
            self._cease(definition)


def _name_conflict(key: str, requested: Document, accepted: Document, taken: set[str]) -> str:
    if key == "shortNames":
        known = set(accepted.get(key) or ())
        used = [one for one in requested.get(key) or () if one not in known and one in taken]
        return aggregate_text(f"{go_quote(one)} is already in use" for one in used) if used else ""
    name = requested.get(key) or ""
    as_taken = f"kind:{name}" if key in {"kind", "listKind"} else name
    if name == (accepted.get(key) or "") or as_taken not in taken:
        return ""
    return f"{go_quote(name)} is already in use"


def _is_established(document: Document) -> bool:
    conditions = dig(document, "status", "conditions") or ()
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in conditions
    )


def _has_default(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    if schema.get("default") is not None:
        return True
    parts = list((schema.get("properties") or {}).values())
    parts += [schema.get("items"), schema.get("additionalProperties")]
    return any(_has_default(part) for part in parts)
