"""Fills in and validates object metadata.

Upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/{meta,create,update}.go,
staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from kubesched.api.field_errors import label_key_errors, label_value_errors
from kubesched.api.schema.load import named_schema
from kubesched.cluster.apiserver.documents import Document, metadata_of
from kubesched.cluster.apiserver.errors import (
    ApiError,
    InOrder,
    Problem,
    bad_request,
    forbidden_field,
    invalid,
    required,
    too_long,
)
from kubesched.cluster.apiserver.names import label_problems, path_segment_problems
from kubesched.cluster.apiserver.patch.go_order import go_ordered
from kubesched.cluster.apiserver.strategy import Strategy
from kubesched.golang.strconv import go_quote

FINALIZER_ORPHAN: Final = "orphan"
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
FINALIZER_FOREGROUND: Final = "foregroundDeletion"
ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
IMMUTABLE: Final = "field is immutable"
_IMMUTABLE_FIELDS: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_BANNED_OWNER: Final = ("v1", "Event")

_OWNER: Final = named_schema("meta/v1.OwnerReference")

_key_problems = lru_cache(maxsize=4096)(label_key_errors)
_value_problems = lru_cache(maxsize=16384)(label_value_errors)


def set_namespace(document: Document, namespace: str) -> None:
    """Set the document's namespace to the request's; BadRequest if they differ."""
    metadata = metadata_of(document)
    current = metadata.get("namespace") or ""
    if current == namespace:
        return
    if current and namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def fill_system_fields(document: Document, *, uid: str, now: str) -> None:
    """Set the fields of a new object that only the server may set."""
    metadata = metadata_of(document)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now


def dedup_owner_references(document: Document, warnings: list[str], *, is_after: bool) -> None:
    """Drop duplicate owner references, with a warning."""
    # Parity: endpoints/handlers/create.go dedupOwnerReferencesAndAddWarning, v1.36
    references = metadata_of(document).get("ownerReferences")
    if not isinstance(references, list) or len(references) < 2:
        return
    kept: list[Any] = []
    uids: dict[str, None] = {}
    for reference in references:
        if reference not in kept:
            kept.append(reference)
        else:
            uids[str(reference.get("uid", ""))] = None
    if not uids:
        return
    metadata_of(document)["ownerReferences"] = kept
    after = " after mutating admission happens" if is_after else ""
    warnings.append(
        f".metadata.ownerReferences contains duplicate entries{after}; API server dedups owner "
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        f"requests; duplicate UID(s) observed: {', '.join(uids)}"
    )


def create_problems(
    document: Document, strategy: Strategy, *, is_namespaced: bool
) -> list[Problem]:
    """Validate a new object's metadata with its strategy; return the errors."""
    metadata = metadata_of(document)
    problems: list[Problem] = []
    generate_name, name = metadata.get("generateName") or "", metadata.get("name") or ""
    if generate_name:
        problems += [
            invalid("metadata.generateName", generate_name, text)
            for text in strategy.name_problems(generate_name, is_prefix=True)
        ]
    if not name:
        problems.append(required("metadata.name", "name or generateName is required"))
    else:
        problems += [
            invalid("metadata.name", name, text)
            for text in strategy.name_problems(name, is_prefix=False)
        ]
    problems += _namespace_problems(metadata.get("namespace") or "", is_namespaced=is_namespaced)
    generation = metadata.get("generation") or 0
    if generation < 0:
        problems.append(
            invalid("metadata.generation", generation, "must be greater than or equal to 0")
        )
    problems += label_map_problems(metadata.get("labels"), "metadata.labels")
    problems += annotation_problems(metadata.get("annotations"), "metadata.annotations")
    problems += owner_reference_problems(metadata.get("ownerReferences"))
    problems += finalizer_problems(metadata.get("finalizers"))
    return problems


def path_problems(document: Document) -> list[Problem]:
    """Return why a name is not a valid path segment."""
    metadata = metadata_of(document)
    return [
        invalid(f"metadata.{field}", value, text)
        for field, is_prefix in (("generateName", True), ("name", False))
        if (value := metadata.get(field))
        for text in path_segment_problems(value, is_prefix=is_prefix)
    ]


def _namespace_problems(namespace: str, *, is_namespaced: bool) -> list[Problem]:
    if not is_namespaced:
        if namespace:
            return [forbidden_field("metadata.namespace", "not allowed on this type")]
        return []
    if not namespace:
        return [required("metadata.namespace")]
    return [invalid("metadata.namespace", namespace, text) for text in label_problems(namespace)]


def label_map_problems(labels: Mapping[str, str] | None, path: str) -> list[Problem]:
    """Validate labels; return the errors."""
    problems: list[Problem] = []
    for key, value in (labels or {}).items():
        problems += [invalid(path, key, text) for text in _key_problems(key)]
        problems += [invalid(path, value, text) for text in _value_problems(value)]
    return problems


def annotation_problems(annotations: Mapping[str, str] | None, path: str) -> list[Problem]:
    """Validate annotations; return the errors."""
    problems: list[Problem] = []
    size = 0
    for key, value in (annotations or {}).items():
        problems += [invalid(path, key, text) for text in _key_problems(key.lower())]
        size += len(key) + len(value)
    # len() counts characters and the limit counts bytes: encode only near the limit.
    if size * 4 > ANNOTATIONS_BYTES_MAX and _byte_count(annotations or {}) > ANNOTATIONS_BYTES_MAX:
        problems.append(too_long(path, ANNOTATIONS_BYTES_MAX))
    return problems


def _byte_count(texts: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())


def owner_reference_problems(references: Iterable[Mapping[str, Any]] | None) -> list[Problem]:
    """Validate owner references; return the errors."""
    path = "metadata.ownerReferences"
    problems: list[Problem] = []
    controller = ""
    listed = list(references or ())
    for reference in listed:
        api_version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        if not api_version.rpartition("/")[2]:
            problems.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
        problems += [
            invalid(f"{path}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not reference.get(field)
        ]
        if (api_version, kind) == _BANNED_OWNER:
            text = "/v1, Kind=Event is disallowed from being an owner"
            problems.append(invalid(path, InOrder(go_ordered(_OWNER, dict(reference))), text))
        if reference.get("controller"):
            current = f"{kind}/{reference.get('name') or ''}"
            if controller:
                text = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {current}'
                )
                internal = [InOrder(go_ordered(_OWNER, one)) for one in listed]
                problems.append(invalid(path, internal, text))
            else:
                controller = current
    return problems


def finalizer_problems(finalizers: Iterable[str] | None) -> list[Problem]:
    """Validate finalizers; return the errors."""
    path = "metadata.finalizers"
    listed = list(finalizers or ())
    problems = [invalid(path, name, text) for name in listed for text in _key_problems(name)]
    if FINALIZER_ORPHAN in listed and FINALIZER_FOREGROUND in listed:
        text = f"finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set"
        problems.append(invalid(path, listed, text))
    return problems


def kube_finalizer_problems(finalizers: Iterable[str] | None) -> list[Problem]:
    """Return why a finalizer is not valid for a built-in kind, besides the common checks."""
    # Parity: pkg/apis/core/validation/validation.go validateKubeFinalizerName, v1.36
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{index}]", name, text)
        for index, name in enumerate(finalizers or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def carry_over(new: Document, old: Document) -> None:
    """Carry over immutable metadata, before the strategy runs."""
    metadata, was = metadata_of(new), metadata_of(old)
    _same(metadata, was, "generation")


def carry_over_system_fields(new: Document, old: Document) -> None:
    """Carry over immutable metadata, after the strategy has run."""
    # Parity: registry/rest/update.go BeforeUpdate, v1.36
    metadata, was = metadata_of(new), metadata_of(old)
    if not metadata.get("uid"):
        _same(metadata, was, "uid")
    if was.get("creationTimestamp"):
        metadata["creationTimestamp"] = was["creationTimestamp"]
    if was.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = was["deletionTimestamp"]
    if metadata.get("deletionGracePeriodSeconds") is None:
        _same(metadata, was, "deletionGracePeriodSeconds")
    metadata.pop("selfLink", None)


def _same(metadata: dict[str, Any], was: Mapping[str, Any], field: str) -> None:
    if field in was:
        metadata[field] = was[field]
    else:
        metadata.pop(field, None)


def update_problems(new: Document, old: Document) -> list[Problem]:
    """Validate an update of metadata."""
    # Parity: objectmeta.go ValidateObjectMetaAccessorUpdate, v1.36
    metadata, was = metadata_of(new), metadata_of(old)
    problems: list[Problem] = []
    if was.get("deletionTimestamp"):
        problems += _new_finalizer_problems(metadata.get("finalizers"), was.get("finalizers"))
    problems += [
        invalid(f"metadata.{field}", metadata.get(field) or _zero(field), IMMUTABLE)
        for field in _IMMUTABLE_FIELDS
        if (metadata.get(field) or None) != (was.get(field) or None)
    ]
    problems += label_map_problems(metadata.get("labels"), "metadata.labels")
    problems += annotation_problems(metadata.get("annotations"), "metadata.annotations")
    problems += owner_reference_problems(metadata.get("ownerReferences"))
    return problems


def _zero(field: str) -> Any:
    return None if field.startswith("deletion") or field == "creationTimestamp" else ""


def _new_finalizer_problems(
    finalizers: Iterable[str] | None, was: Iterable[str] | None
) -> list[Problem]:
    known = set(was or ())
    extra = sorted({finalizer for finalizer in finalizers or () if finalizer not in known})
    if not extra:
        return []
    listed = ", ".join(go_quote(one) for one in extra)
    text = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return [forbidden_field("metadata.finalizers", text)]


def resource_version_of(document: Document) -> int:
    """Return the resourceVersion of a document; 0 if it has none."""
    text = metadata_of(document).get("resourceVersion") or ""
    if not text or text == "0":
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ApiError(500, "", f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax")
    return int(text)
