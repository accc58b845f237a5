"""PUT and PATCH requests for an object, its status or its scale.

The update itself is in verbs.update.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{update,patch}.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document, metadata_of
from kubesched.cluster.apiserver.errors import ApiError, not_found
from kubesched.cluster.apiserver.http.bodies import read_body
from kubesched.cluster.apiserver.http.rendering import Whole
from kubesched.cluster.apiserver.http.request_types import (
    ResourceRequest,
    ResourceResponse,
    request_of,
)
from kubesched.cluster.apiserver.http.write_options import write_options
from kubesched.cluster.apiserver.metadata import set_namespace
from kubesched.cluster.apiserver.patch.scale_fields import (
    parent_managed_fields,
    scale_managed_fields,
)
from kubesched.cluster.apiserver.resources import Resource, ScaleSubresource, ViewSubresource
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import Context, WriteOptions
from kubesched.cluster.apiserver.verbs.ownership import track_updated
from kubesched.cluster.apiserver.verbs.patching import (
    APPLY_PATCH,
    CUSTOM_PATCH_TYPES,
    PATCH_TYPES,
    apply_document,
    check_name,
    patch_of,
    read_applied,
)
from kubesched.cluster.apiserver.verbs.scaling import scale_of, scale_resource, set_scale
from kubesched.cluster.apiserver.verbs.update import Change, Update


def change(
    context: Context, resource_request: ResourceRequest, resource: Resource, rendering: Whole
) -> ResourceResponse:
    """Run a PUT or PATCH."""
    info = resource_request.info
    is_patch = info.verb == "patch"
    allowed = CUSTOM_PATCH_TYPES if resource.is_custom else PATCH_TYPES
    if is_patch and resource_request.media_type not in allowed:
        error = ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        error.shows_details = True
        raise error
    is_apply = is_patch and resource_request.media_type == APPLY_PATCH
    kind = "PatchOptions" if is_patch else "UpdateOptions"
    options = write_options(
        resource_request.query, kind, resource_request.user_agent, is_apply=is_apply
    )
    request = request_of(context, resource_request, resource, is_dry_run=options.is_dry_run)
    # Strategies do not distinguish a patch from an update.
    request.verb = "update"
    if resource.scale is not None and info.subresource == resource.scale.name:
        update = _scale_update(
            context, resource_request, resource, resource.scale, request, options
        )
        scaled = scale_of(resource.scale, update.run()[0])
        return ResourceResponse(rendering.of(scale_resource(resource)).one(scaled))
    update = Update(
        context,
        resource,
        request,
        options,
        _change_of(resource_request, resource, request, options),
        view=resource.views.get(info.subresource),
        may_create=is_apply,
        checks_uid=not is_patch,
        has_noted_fields=is_apply,
    )
    document, is_created = update.run()
    code = 201 if is_created else 200
    return ResourceResponse(rendering.one(document), code)


def _change_of(
    resource_request: ResourceRequest, resource: Resource, request: Request, options: WriteOptions
) -> Change:
    if resource_request.info.verb == "update":
        return _put(resource_request, resource, request, options)
    if resource_request.media_type == APPLY_PATCH:
        applied = read_applied(resource_request.body, request, options)
        return apply_document(resource, resource.schema, applied, request, options)
    return patch_of(
        resource,
        resource.schema,
        resource_request.body,
        resource_request.media_type,
        request,
        options,
    )


def _put(
    resource_request: ResourceRequest, resource: Resource, request: Request, options: WriteOptions
) -> Change:
    document = _body(resource_request, resource, request, options)
    resource.strategy.default(document)

    def replaced(old: Document | None) -> Document:
        del old
        return document

    return replaced


def _body(
    resource_request: ResourceRequest, resource: Resource, request: Request, options: WriteOptions
) -> Document:
    document = read_body(
        resource,
        resource_request.body,
        resource_request.content_type,
        options.field_validation,
        request.warnings,
    )
    set_namespace(document, request.namespace if resource.is_namespaced else "")
    check_name(document, request)
    return document


def _scale_update(
    context: Context,
    resource_request: ResourceRequest,
    resource: Resource,
    scale: ScaleSubresource,
    request: Request,
    options: WriteOptions,
) -> Update:
    """Return the update of an object that a change of its Scale makes."""
    scale_kind = scale_resource(resource)

    def rescaled(old: Document | None) -> Document:
        if old is None:
            raise not_found(resource.group, resource.resource, request.name)
        current = scale_of(scale, old)
        managed = metadata_of(old).get("managedFields") or []
        metadata_of(current)["managedFields"] = scale_managed_fields(managed, scale.spec_path)
        changed = _changed_scale(resource_request, scale_kind, current, request, options)
        set_scale(resource, scale, old, changed)
        metadata_of(old)["managedFields"] = parent_managed_fields(
            managed,
            metadata_of(changed).get("managedFields") or [],
            scale.spec_path,
            resource.api_version,
        )
        return old

    view = ViewSubresource(scale.name, resource.strategy)
    return Update(context, resource, request, options, rescaled, view=view, has_noted_fields=True)


def _changed_scale(
    resource_request: ResourceRequest,
    scale_kind: Resource,
    current: Document,
    request: Request,
    options: WriteOptions,
) -> Document:
    """Return the requested Scale with its managed fields."""
    if resource_request.media_type == APPLY_PATCH and resource_request.info.verb == "patch":
        applied = read_applied(resource_request.body, request, options)
        return apply_document(scale_kind, scale_kind.schema, applied, request, options)(current)
    if resource_request.info.verb == "update":
        requested = _body(resource_request, scale_kind, request, options)
    else:
        patch = patch_of(
            scale_kind,
            scale_kind.schema,
            resource_request.body,
            resource_request.media_type,
            request,
            options,
        )
        requested = patch(current)
    track_updated(scale_kind, current, requested, request, options)
    return requested
