"""Update: stores a changed document, for PUT and PATCH.

Upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Update,
staging/src/k8s.io/apiserver/pkg/registry/rest/update.go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kubesched.cluster.apiserver.documents import Document, metadata_of, name_of
from kubesched.cluster.apiserver.errors import (
    ApiError,
    conflict,
    invalid,
    invalid_object,
    not_found,
)
from kubesched.cluster.apiserver.metadata import (
    carry_over,
    carry_over_system_fields,
    dedup_owner_references,
    kube_finalizer_problems,
    resource_version_of,
    set_namespace,
    update_problems,
)
from kubesched.cluster.apiserver.patch.managed_fields import keep_times
from kubesched.cluster.apiserver.resources import Resource, ViewSubresource
from kubesched.cluster.apiserver.storage.watch_cache import Entry
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import (
    Context,
    WriteOptions,
    admit,
    is_same,
    validate,
)
from kubesched.cluster.apiserver.verbs.create import (
    created_metadata_problems,
    show_empty_status,
    store_new,
)
from kubesched.cluster.apiserver.verbs.deletion import is_to_be_deleted, remove
from kubesched.cluster.apiserver.verbs.ownership import put_back, track_created, track_updated

Change = Callable[[Document | None], Document]
"""Returns the new document, given a copy of the stored one; None if there is none."""


@dataclass(slots=True)
class Update:
    """One update, which runs once."""

    context: Context
    resource: Resource
    request: Request
    options: WriteOptions
    change: Change
    view: ViewSubresource | None = None
    may_create: bool = False
    """Whether a missing object is created regardless of its strategy (apply)."""
    checks_uid: bool = False
    """Whether a UID in the document is a precondition (PUT)."""
    has_noted_fields: bool = False
    """Whether the change sets managedFields itself (apply)."""

    def run(self) -> tuple[Document, bool]:
        """Run the update; return the stored object and whether it was created."""
        context, resource, request = self.context, self.resource, self.request
        entry = context.entry(resource, request.namespace, request.name)
        if entry is None:
            return self._create(), True
        old = context.document(resource, entry)
        new = self.change(context.document(resource, entry))
        self._check_uid(new, old)
        if not self.has_noted_fields:
            track_updated(resource, old, new, request, self.options)
        dedup_owner_references(new, request.warnings, is_after=False)
        admit(context, resource, new, old, request)
        dedup_owner_references(new, request.warnings, is_after=True)
        self._check_version(new, entry)
        self._prepare(new, old)
        self._check(new, old)
        keep_times(old, new)
        validate(context, new, old, request)
        return self._store(new, old, entry), False

    def _create(self) -> Document:
        resource, request = self.resource, self.request
        allowed = resource.strategy.allows_create_on_update or self.may_create
        if not allowed or self.view is not None:
            raise not_found(resource.error_group, resource.resource, request.name)
        document = self.change(None)
        self._check_uid(document, {})
        request.verb = "create"
        if self.context.check_create is not None:
            self.context.check_create(request)
        resource.strategy.default(document)
        set_namespace(document, request.namespace if resource.is_namespaced else "")
        metadata_of(document).setdefault("name", request.name)
        if not self.has_noted_fields:
            track_created(resource, document, request, self.options)
        admit(self.context, resource, document, None, request)
        return store_new(self.context, resource, document, request, self.options)

    def _check_uid(self, new: Document, old: Document) -> None:
        """Reject a document with another UID."""
        expected, actual = metadata_of(new).get("uid") or "", metadata_of(old).get("uid") or ""
        if self.checks_uid and expected and expected != actual:
            request = self.request
            raise wrong_uid(
                self.resource, request.namespace, request.name, expected=expected, actual=actual
            )

    def _check_version(self, new: Document, entry: Entry) -> None:
        resource, name = self.resource, self.request.name
        version = resource_version_of(new)
        if version == 0 and resource.strategy.allows_unconditional_update:
            metadata_of(new)["resourceVersion"] = str(entry.version)
        elif version == 0:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid_object(resource.error_group, resource.resource, name, [problem])
        elif version != entry.version:
            raise conflict(resource.error_group, resource.resource, name)

    def _prepare(self, new: Document, old: Document) -> None:
        resource, request = self.resource, self.request
        set_namespace(new, request.namespace if resource.is_namespaced else "")
        carry_over(new, old)
        put_back(resource, new, old, request.subresource)
        show_empty_status(resource, new)
        if request.subresource == "status":
            resource.strategy.prepare_for_status_update(new, old, request)
        else:
            strategy = resource.strategy if self.view is None else self.view.strategy
            strategy.prepare_for_update(new, old, request)
        carry_over_system_fields(new, old)
        self._move_generation(new, old)

    def _move_generation(self, new: Document, old: Document) -> None:
        metadata, was = metadata_of(new), metadata_of(old).get("generation") or 0
        if not self.resource.strategy.bumps_generation or metadata.get("generation") != was:
            return
        if _content(new) != _content(old):
            metadata["generation"] = was + 1

    def _check(self, new: Document, old: Document) -> None:
        resource, request = self.resource, self.request
        # Parity: upstream validates metadata generically, and again in each kind.
        problems = update_problems(new, old) * 2
        if resource.strategy.checks_metadata_again:
            problems += created_metadata_problems(resource, new)
        if not resource.is_custom:
            problems += kube_finalizer_problems(metadata_of(new).get("finalizers"))
        if request.subresource == "status":
            problems += resource.strategy.validate_status_update(new, old, request)
        else:
            strategy = resource.strategy if self.view is None else self.view.strategy
            problems += strategy.validate_update(new, old, request)
            if not problems:
                request.warnings += strategy.warnings(new, old)
        if problems:
            raise invalid_object(resource.error_group, resource.kind, name_of(new), problems)

    def _store(self, new: Document, old: Document, entry: Entry) -> Document:
        context, resource = self.context, self.resource
        if is_to_be_deleted(resource, new, old):
            if not self.options.is_dry_run:
                remove(context, resource, old, self.request)
            return new
        metadata_of(new)["resourceVersion"] = str(entry.version)
        if self.options.is_dry_run or is_same(new, old):
            return new
        context.store.put(
            resource.storage, context.new_entry(resource, new, context.store.next_version())
        )
        resource.strategy.after_update(new, old, self.request)
        return new


def _content(document: Document) -> dict[str, Any]:
    """Return the fields that increment the generation: all but type, metadata and status."""
    hidden = {"metadata", "status", "kind", "apiVersion"}
    return {key: value for key, value in document.items() if key not in hidden}


_SPECIAL: Final = {
    ("", "replicationcontrollers"): "controllers",
    ("", "endpoints"): "services/endpoints",
    ("", "services"): "services/specs",
    ("", "nodes"): "minions",
    ("networking.k8s.io", "ingresses"): "ingress",
}
_GROUPED: Final = {"apiextensions.k8s.io", "apiregistration.k8s.io"}


def storage_key(resource: Resource, namespace: str, name: str) -> str:
    """Return the key of an object in etcd."""
    prefix = _SPECIAL.get((resource.group, resource.resource), resource.resource)
    if resource.is_custom or resource.group in _GROUPED:
        prefix = f"{resource.group}/{resource.resource}"
    within = f"{namespace}/{name}" if resource.is_namespaced else name
    return f"/registry/{prefix}/{within}"


def wrong_uid(
    resource: Resource, namespace: str, name: str, *, expected: str, actual: str | None
) -> ApiError:
    """Return the error for a write with another UID."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: {storage_key(resource, namespace, name)}, "
        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
        f"{expected}, UID in object meta: {actual or ''}"
    )
    return conflict(resource.error_group, resource.resource, name, why)
