"""What a body holds, as the kind it must be.

Owns what becomes of fields that are unknown or given twice. Decoding is decoding.py's, types are
schema.conform's.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go
"""

from __future__ import annotations

from kubesched.apiserver.decoding import (
    check_custom_kind,
    check_kind,
    decode_body,
    strict_problems,
)
from kubesched.apiserver.documents import Document
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.schema.conform import cannot_be_handled, conform, strict_decoding_error
from kubesched.apiserver.schema.types import Struct


def read_body(
    resource: Resource, data: bytes, content_type: str, field_validation: str, warnings: list[str]
) -> Document:
    """Return the object in a body, in canonical form."""
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
    """Return a document in canonical form; refuse, warn of or drop what it should not have."""
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
