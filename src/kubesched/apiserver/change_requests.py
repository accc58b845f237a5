"""PUT and PATCH: of an object, of a view of it, or of its scale.

Owns how the body of such a request becomes a change. What the change must pass is verbs.update's.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{update,patch}.go
"""

from __future__ import annotations

from kubesched.apiserver.asked import Answer, Asked, request_of
from kubesched.apiserver.bodies import read_body
from kubesched.apiserver.documents import Document, metadata_of
from kubesched.apiserver.errors import ApiError, not_found
from kubesched.apiserver.metadata import set_namespace
from kubesched.apiserver.patch.scale_fields import parent_managed_fields, scale_managed_fields
from kubesched.apiserver.rendering import Whole
from kubesched.apiserver.resources import Resource, ScaleSubresource, ViewSubresource
from kubesched.apiserver.strategy import Request
from kubesched.apiserver.verbs.context import Context, WriteOptions
from kubesched.apiserver.verbs.ownership import note_updated
from kubesched.apiserver.verbs.patching import (
    APPLY_PATCH,
    CUSTOM_PATCH_TYPES,
    PATCH_TYPES,
    apply_document,
    check_name,
    patch_of,
    read_applied,
)
from kubesched.apiserver.verbs.scaling import scale_of, scale_resource, set_scale
from kubesched.apiserver.verbs.update import Change, Update
from kubesched.apiserver.write_options import write_options


def change(context: Context, asked: Asked, resource: Resource, rendering: Whole) -> Answer:
    """Run a PUT or PATCH."""
    info = asked.info
    is_patch = info.verb == "patch"
    allowed = CUSTOM_PATCH_TYPES if resource.is_custom else PATCH_TYPES
    if is_patch and asked.media_type not in allowed:
        error = ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        error.shows_details = True
        raise error
    is_apply = is_patch and asked.media_type == APPLY_PATCH
    kind = "PatchOptions" if is_patch else "UpdateOptions"
    options = write_options(asked.query, kind, asked.user_agent, is_apply=is_apply)
    request = request_of(context, asked, resource, is_dry_run=options.is_dry_run)
    # Rules do not tell a patch from an update, which it becomes.
    request.verb = "update"
    if resource.scale is not None and info.subresource == resource.scale.name:
        update = _scale_update(context, asked, resource, resource.scale, request, options)
        scaled = scale_of(resource.scale, update.run()[0])
        return Answer(rendering.of(scale_resource(resource)).one(scaled))
    update = Update(
        context,
        resource,
        request,
        options,
        _change_of(asked, resource, request, options),
        view=resource.views.get(info.subresource),
        may_create=is_apply,
        checks_uid=not is_patch,
        has_noted_fields=is_apply,
    )
    document, is_created = update.run()
    code = 201 if is_created else 200
    return Answer(rendering.one(document), code)


def _change_of(asked: Asked, resource: Resource, request: Request, options: WriteOptions) -> Change:
    if asked.info.verb == "update":
        return _put(asked, resource, request, options)
    if asked.media_type == APPLY_PATCH:
        applied = read_applied(asked.body, request, options)
        return apply_document(resource, resource.schema, applied, request, options)
    return patch_of(resource, resource.schema, asked.body, asked.media_type, request, options)


def _put(asked: Asked, resource: Resource, request: Request, options: WriteOptions) -> Change:
    document = _body(asked, resource, request, options)
    resource.strategy.default(document)

    def replaced(old: Document | None) -> Document:
        del old
        return document

    return replaced


def _body(asked: Asked, resource: Resource, request: Request, options: WriteOptions) -> Document:
    document = read_body(
        resource, asked.body, asked.content_type, options.field_validation, request.warnings
    )
    set_namespace(document, request.namespace if resource.is_namespaced else "")
    check_name(document, request)
    return document


def _scale_update(
    context: Context,
    asked: Asked,
    resource: Resource,
    scale: ScaleSubresource,
    request: Request,
    options: WriteOptions,
) -> Update:
    """Return the update of an object that a change of its Scale makes."""
    shown = scale_resource(resource)

    def rescaled(old: Document | None) -> Document:
        if old is None:
            raise not_found(resource.group, resource.resource, request.name)
        current = scale_of(scale, old)
        managed = metadata_of(old).get("managedFields") or []
        metadata_of(current)["managedFields"] = scale_managed_fields(managed, scale.spec_path)
        wanted = _changed_scale(asked, shown, current, request, options)
        set_scale(resource, scale, old, wanted)
        metadata_of(old)["managedFields"] = parent_managed_fields(
            managed,
            metadata_of(wanted).get("managedFields") or [],
            scale.spec_path,
            resource.api_version,
        )
        return old

    view = ViewSubresource(scale.name, resource.strategy)
    return Update(context, resource, request, options, rescaled, view=view, has_noted_fields=True)


def _changed_scale(
    asked: Asked, shown: Resource, current: Document, request: Request, options: WriteOptions
) -> Document:
    """Return a Scale as a request wants it, with who owns its fields."""
    if asked.media_type == APPLY_PATCH and asked.info.verb == "patch":
        applied = read_applied(asked.body, request, options)
        return apply_document(shown, shown.schema, applied, request, options)(current)
    if asked.info.verb == "update":
        wanted = _body(asked, shown, request, options)
    else:
        patch = patch_of(shown, shown.schema, asked.body, asked.media_type, request, options)
        wanted = patch(current)
    note_updated(shown, current, wanted, request, options)
    return wanted
