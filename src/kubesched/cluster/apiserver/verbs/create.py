"""Create: stores a decoded document as a new object.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go,
staging/src/k8s.io/apiserver/pkg/registry/rest/create.go
"""

from __future__ import annotations

from typing import Final

from kubesched.cluster.apiserver.documents import Document, copy_of, metadata_of, name_of
from kubesched.cluster.apiserver.errors import ApiError, Problem, already_exists, invalid_object
from kubesched.cluster.apiserver.metadata import (
    create_problems,
    dedup_owner_references,
    fill_system_fields,
    kube_finalizer_problems,
    path_problems,
    resource_version_of,
    set_namespace,
)
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import Context, WriteOptions, admit, validate
from kubesched.cluster.apiserver.verbs.ownership import track_created

_NAME_ATTEMPTS: Final = 8


def create(
    context: Context,
    resource: Resource,
    document: Document,
    request: Request,
    options: WriteOptions,
) -> Document:
    """Create an object from a conformed document and return it as stored."""
    resource.strategy.default(document)
    set_namespace(document, request.namespace if resource.is_namespaced else "")
    dedup_owner_references(document, request.warnings, is_after=False)
    track_created(resource, document, request, options)
    admit(context, resource, document, None, request)
    dedup_owner_references(document, request.warnings, is_after=True)
    return store_new(context, resource, document, request, options)


def store_new(
    context: Context,
    resource: Resource,
    document: Document,
    request: Request,
    options: WriteOptions,
) -> Document:
    """Complete, validate and store an admitted document."""
    metadata = metadata_of(document)
    if metadata.get("name") or not metadata.get("generateName"):
        return _attempt(context, resource, document, request, options)
    for _ in range(_NAME_ATTEMPTS - 1):
        try:
            return _attempt(context, resource, copy_of(document), request, options)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    return _attempt(context, resource, document, request, options)


def _attempt(
    context: Context,
    resource: Resource,
    document: Document,
    request: Request,
    options: WriteOptions,
) -> Document:
    _prepare(context, resource, document, request)
    request.name = request.name or name_of(document)
    problems = resource.strategy.validate_create(document, request)
    metadata_problems = created_metadata_problems(resource, document)
    # Parity: kinds validate metadata first, then the rest; the generic name check comes last.
    if found := [*metadata_problems, *problems] or path_problems(document):
        raise invalid_object(resource.error_group, resource.kind, name_of(document), found)
    request.warnings += resource.strategy.warnings(document, None)
    validate(context, document, None, request)
    _reject_taken_name(context, resource, document)
    metadata_of(document).pop("resourceVersion", None)
    if options.is_dry_run:
        return document
    entry = context.new_entry(resource, document, context.store.next_version())
    context.store.put(resource.storage, entry)
    resource.strategy.after_create(document, request)
    return document


def _prepare(context: Context, resource: Resource, document: Document, request: Request) -> None:
    """Set server-side fields, and drop fields that clients must not set."""
    strategy, metadata = resource.strategy, metadata_of(document)
    fill_system_fields(document, uid=context.identities.uid(), now=request.now)
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = context.identities.name(metadata["generateName"])
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(field, None)
    if strategy.bumps_generation:
        metadata["generation"] = 1
    if strategy.has_status and not strategy.keeps_status_on_create:
        document.pop("status", None)
        show_empty_status(resource, document)
    strategy.prepare_for_create(document, request)


def created_metadata_problems(resource: Resource, document: Document) -> list[Problem]:
    """Validate the metadata of a new object; return the errors."""
    problems = create_problems(document, resource.strategy, is_namespaced=resource.is_namespaced)
    if not resource.is_custom:
        problems += kube_finalizer_problems(metadata_of(document).get("finalizers"))
    return problems


def show_empty_status(resource: Resource, document: Document) -> None:
    """Add the kind's empty status to a document without a status."""
    empty_status = resource.empty_status
    if empty_status is not None and "status" not in document:
        document["status"] = copy_of(empty_status)


def _reject_taken_name(context: Context, resource: Resource, document: Document) -> None:
    metadata = metadata_of(document)
    name = name_of(document)
    existing = context.entry(resource, metadata.get("namespace") or "", name)
    if resource_version_of(document):
        # Parity: etcd3/store.go Create, v1.36: an error without a reason.
        text = "resourceVersion should not be set on objects to be created"
        raise ApiError(500, "", text)
    if existing is None:
        return
    error = already_exists(resource.error_group, resource.resource, name)
    if metadata.get("generateName"):
        error.message += ", the server was not able to generate a unique name for the object"
        error.details["retryAfterSeconds"] = 1
    if metadata_of(context.document(resource, existing)).get("deletionTimestamp"):
        error.message = f"object is being deleted: {error.message}"
    raise error
