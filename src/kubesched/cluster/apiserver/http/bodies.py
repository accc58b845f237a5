"""Decodes a request body as the expected kind.

Applies fieldValidation to unknown and duplicate fields.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go
"""

from __future__ import annotations

from kubesched.api.schema.conform import (
    Conformed,
    WrongTypeError,
    conform_or_raise,
    strict_decoding_error,
)
from kubesched.api.schema.types import Struct
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import bad_request
from kubesched.cluster.apiserver.http.decoding import (
    check_custom_kind,
    check_kind,
    decode_body,
    strict_problems,
)
from kubesched.cluster.apiserver.resources import Resource
from kubesched.golang.strconv import go_quote


def read_body(
    resource: Resource, data: bytes, content_type: str, field_validation: str, warnings: list[str]
) -> Document:
    """Return the object in a request body, in canonical form."""
    decoded = decode_body(data, content_type, kind=resource.kind)
    names = (resource.group, resource.version, resource.kind)
    if resource.is_custom:
        check_custom_kind(decoded.document, data, *names)
    else:
        check_kind(decoded.document, *names)
    return conformed(
        resource.schema,
        resource.kind,
        decoded.document,
        decoded.duplicates,
        field_validation,
        warnings,
    )


def conformed(
    schema: Struct | None,
    kind: str,
    raw: Document,
    duplicates: list[str],
    field_validation: str,
    warnings: list[str],
) -> Document:
    """Return a document in canonical form; reject, warn about or drop unknown fields."""
    document, problems = raw, list(duplicates)
    if schema is not None:
        found = conform(schema, raw)
        document = found.document
        problems = strict_problems(duplicates, found.problems, is_custom=found.is_custom)
    if problems and field_validation == "Strict":
        raise cannot_be_handled(kind, raw, strict_decoding_error(problems))
    if field_validation != "Ignore":
        warnings += problems
    return document


def conform(schema: Struct, raw: Document) -> Conformed:
    """Return a document in canonical form; BadRequest if a field has the wrong type."""
    try:
        return conform_or_raise(schema, raw)
    except WrongTypeError as wrong:
        raise cannot_be_handled(schema.name, raw, wrong.text) from wrong


def cannot_be_handled(kind: str, raw: Document, why: str) -> Exception:
    """Return the BadRequest for a body of the wrong type."""
    body_kind = raw.get("kind") or kind
    version = str(raw.get("apiVersion") or "v1").rpartition("/")[2]
    message = f"{body_kind} in version {go_quote(version)} cannot be handled as a {kind}: {why}"
    return bad_request(message)
