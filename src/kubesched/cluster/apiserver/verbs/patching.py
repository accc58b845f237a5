"""Patch: turns the bytes of a patch into an update.

The patch types are in `patch`.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubesched.api.schema.conform import WrongTypeError, conform_or_raise, strict_decoding_error
from kubesched.api.schema.types import Struct
from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import ApiError, bad_request, conflict, not_found
from kubesched.cluster.apiserver.http.decoding import (
    NotJsonError,
    check_kind,
    decode_json,
    names_problem,
)
from kubesched.cluster.apiserver.metadata import set_namespace
from kubesched.cluster.apiserver.patch.apply import apply, unconvertible
from kubesched.cluster.apiserver.patch.converting import conversion_problem
from kubesched.cluster.apiserver.patch.go_order import (
    go_ordered,
    opened_by_merge,
    opened_by_operations,
)
from kubesched.cluster.apiserver.patch.json_patch import (
    apply_json_patch,
    apply_merge_patch,
    unknown_fields,
)
from kubesched.cluster.apiserver.patch.json_patch import invalid_result as invalid_json_result
from kubesched.cluster.apiserver.patch.strategic_merge import apply_strategic_merge
from kubesched.cluster.apiserver.patch.strategic_merge import (
    invalid_result as invalid_strategic_result,
)
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import WriteOptions
from kubesched.cluster.apiserver.verbs.ownership import manager_of
from kubesched.golang.json import json_type
from kubesched.golang.yaml import YamlError, decode_yaml

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM_PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)

Change = Callable[[Document | None], Document]


def patch_of(
    resource: Resource,
    schema: Struct | None,
    data: bytes,
    media_type: str,
    request: Request,
    options: WriteOptions,
) -> Change:
    """Return the change of a patch; `apply_document` handles apply."""
    patch, duplicates = _decoded(data, media_type)

    def change(old: Document | None) -> Document:
        if old is None:
            raise not_found(resource.error_group, resource.resource, request.name)
        problems = list(duplicates)
        if media_type == JSON_PATCH:
            new = apply_json_patch(old, patch)
            problems = [f"json patch {problem}" for problem in problems] + unknown_fields(patch)
        elif media_type == MERGE_PATCH:
            new = apply_merge_patch(old, patch)
        else:
            new = apply_strategic_merge(schema, old, patch)

        def rejection(detail: str) -> ApiError:
            if media_type == STRATEGIC_PATCH:
                problem = None if schema is None else conversion_problem(schema, new)
                return invalid_strategic_result(patch, problem or detail)
            by_operations = media_type == JSON_PATCH
            opened = opened_by_operations(patch) if by_operations else opened_by_merge(patch)
            return invalid_json_result(go_ordered(schema, new, opened), detail)

        _settle_kind(resource, new, media_type, rejection)
        new = _conformed(schema, new, problems, options, request, rejection)
        _check_identity(resource, new, request)
        resource.strategy.default(new)
        return new

    return change


def _settle_kind(
    resource: Resource, new: Document, media_type: str, rejection: Callable[[str], ApiError]
) -> None:
    """Reject a patch that changes the kind; strategic merge ignores it."""
    if media_type != STRATEGIC_PATCH:
        if problem := names_problem(new):
            raise rejection(problem)
        try:
            check_kind(new, resource.group, resource.version, resource.kind)
        except ApiError as error:
            raise rejection(error.message.partition(f"as a {resource.kind}: ")[2]) from None
    new["kind"], new["apiVersion"] = resource.kind, resource.api_version


def _conformed(
    schema: Struct | None,
    new: Document,
    problems: list[str],
    options: WriteOptions,
    request: Request,
    rejection: Callable[[str], ApiError],
) -> Document:
    if schema is not None:
        try:
            found = conform_or_raise(schema, new)
        except WrongTypeError as error:
            raise rejection(error.text) from None
        new = found.document
        problems = [*problems, *found.problems]
    if problems and options.field_validation == "Strict":
        raise rejection(strict_decoding_error(problems))
    if options.field_validation != "Ignore":
        request.warnings += problems
    return new


def _decoded(data: bytes, media_type: str) -> tuple[Any, list[str]]:
    try:
        return decode_json(data)
    except NotJsonError as error:
        prefix = "" if media_type == STRATEGIC_PATCH else "error decoding patch: "
        raise bad_request(f"{prefix}{error.text}") from None


def read_applied(data: bytes, request: Request, options: WriteOptions) -> Document:
    """Return the configuration in the body of an apply request."""
    try:
        applied, duplicates = decode_yaml(data)
    except YamlError as error:
        text = f"error converting YAML to JSON: {error}"
        raise bad_request(f"error decoding YAML: {text}") from None
    if applied is None:
        applied = {}
    if not isinstance(applied, dict):
        text = (
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{json_type(applied)} into Go value of type map[string]interface {{}}"
        )
        raise bad_request(f"error decoding YAML: {text}")
    if duplicates and options.field_validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {', '.join(duplicates)}")
    if options.field_validation != "Ignore":
        request.warnings += duplicates
    return applied


def apply_document(
    resource: Resource,
    schema: Struct | None,
    applied: Document,
    request: Request,
    options: WriteOptions,
) -> Change:
    """Return the change of applying a configuration."""

    def change(old: Document | None) -> Document:
        if old is None:
            _reject_uid(resource, applied, request)
        by = manager_of(resource, request, options, "Apply")
        new = apply(schema, old, applied, by, force=bool(options.force))
        if schema is not None:
            try:
                new = conform_or_raise(schema, new).document
            except WrongTypeError as error:
                raise unconvertible(schema, new, applied, error.text) from None
        _check_identity(resource, new, request)
        resource.strategy.default(new)
        return new

    return change


def _reject_uid(resource: Resource, applied: Document, request: Request) -> None:
    uid = (applied.get("metadata") or {}).get("uid")
    if uid:
        why = (
            f"uid mismatch: the provided object specified uid {uid}, "
            "and no existing object was found"
        )
        raise conflict(resource.error_group, resource.resource, request.name, why)


def _check_identity(resource: Resource, new: Document, request: Request) -> None:
    """Reject a patch that changes the object's identity."""
    is_namespace = (resource.group, resource.resource) == ("", "namespaces")
    set_namespace(new, "" if is_namespace or not resource.is_namespaced else request.namespace)
    check_name(new, request)


def check_name(document: Document, request: Request) -> None:
    """Reject a document whose name differs from the path."""
    # Parity: handlers/rest.go checkName, v1.36
    name, namespace = name_of(document), namespace_of(document)
    if not name:
        raise bad_request(
            f"the name of the object ({request.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != request.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )
    if request.namespace and namespace and namespace != request.namespace:
        raise bad_request(
            f"the namespace of the object ({namespace}) does not match the namespace on the "
            f"request ({request.namespace})"
        )
