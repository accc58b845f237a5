"""DELETE requests for one object or a collection.

Deletion itself is in verbs.deletion.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.api.label_selectors import parse_int64
from kubesched.api.schema.load import named_schema
from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import ApiError, bad_request, unsupported_media_type
from kubesched.cluster.apiserver.http import protobuf
from kubesched.cluster.apiserver.http.bodies import conformed
from kubesched.cluster.apiserver.http.decoding import (
    MEDIA_TYPES,
    NotJsonError,
    decode_body,
    decode_json,
    names_problem,
    not_an_object,
)
from kubesched.cluster.apiserver.http.rendering import Whole
from kubesched.cluster.apiserver.http.request_info import is_true
from kubesched.cluster.apiserver.http.request_types import (
    ResourceRequest,
    ResourceResponse,
    request_of,
)
from kubesched.cluster.apiserver.http.write_options import Query
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.verbs.context import Context, encode
from kubesched.cluster.apiserver.verbs.deletion import delete
from kubesched.cluster.apiserver.verbs.list_options import list_options
from kubesched.cluster.apiserver.verbs.reading import list_page
from kubesched.golang.strconv import go_quote
from kubesched.golang.yaml import YamlError, decode_yaml


def delete_one(
    context: Context, resource_request: ResourceRequest, resource: Resource, rendering: Whole
) -> ResourceResponse:
    """Delete the object of the path."""
    options = _delete_options(resource_request)
    request = request_of(
        context, resource_request, resource, is_dry_run=bool(options.get("dryRun"))
    )
    result, is_gone = delete(context, resource, options, request)
    # Parity: handlers/delete.go DeleteResource, v1.36: only the deprecated option gets this code.
    is_accepted = not is_gone and options.get("orphanDependents") is False
    data = encode(result) if result.get("kind") == "Status" else rendering.one(result)
    return ResourceResponse(data, 202 if is_accepted else 200)


def delete_collection(
    context: Context, resource_request: ResourceRequest, resource: Resource, rendering: Whole
) -> ResourceResponse:
    """Delete a collection."""
    options = _delete_options(resource_request)
    listing = list_options(resource_request.query, resource)
    page = list_page(context, resource, resource_request.namespace_for(resource), listing)
    for entry in page.entries:
        document = context.document(resource, entry)
        request = request_of(
            context, resource_request, resource, is_dry_run=bool(options.get("dryRun"))
        )
        request.name, request.namespace = name_of(document), namespace_of(document)
        try:
            delete(context, resource, dict(options), request)
        except ApiError as error:
            # A deletion may delete further objects of the collection.
            if error.reason != "NotFound":
                raise
    return ResourceResponse(rendering.listed(page))


def _delete_options(resource_request: ResourceRequest) -> Document:
    """Return the DeleteOptions in the body, or else those of the query."""
    if not resource_request.body:
        return _from_query(resource_request.query)
    try:
        value, _ = _decoders(resource_request.media_type)(resource_request.body)
    except NotJsonError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error.text}") from None
    except YamlError as error:
        raise bad_request(str(error)) from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise bad_request(not_an_object(value))
    if problem := names_problem(value):
        raise bad_request(problem)
    kind = value.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        raise bad_request(
            f"no kind {go_quote(kind)} is registered for version "
            f'{go_quote(value.get("apiVersion") or "")} in scheme "pkg/runtime/scheme.go:111"'
        )
    schema = named_schema("meta/v1.DeleteOptions")
    return conformed(schema, "DeleteOptions", value, [], "Ignore", [])


def _decoders(media_type: str) -> Callable[[bytes], tuple[Any, list[str]]]:
    if media_type in {"", "application/json"}:
        return decode_json
    if media_type == "application/yaml":
        return decode_yaml
    if media_type == protobuf.MEDIA_TYPE:
        return _from_protobuf
    raise unsupported_media_type(MEDIA_TYPES)


def _from_protobuf(data: bytes) -> tuple[Any, list[str]]:
    return decode_body(data, protobuf.MEDIA_TYPE, kind="DeleteOptions").document, []


def _from_query(query: Query) -> Document:
    options: Document = {}
    grace = query.get("gracePeriodSeconds", "")
    if grace:
        options["gracePeriodSeconds"] = parse_int64(grace)
        if options["gracePeriodSeconds"] is None:
            raise bad_request(f"strconv.ParseInt: parsing {go_quote(grace)}: invalid syntax")
    policy = query.get("propagationPolicy", "")
    if policy:
        options["propagationPolicy"] = policy
    orphans = query.get("orphanDependents", "")
    if orphans:
        options["orphanDependents"] = is_true(orphans)
    dry_run = query.getall("dryRun", [])
    if dry_run:
        options["dryRun"] = dry_run
    return options
