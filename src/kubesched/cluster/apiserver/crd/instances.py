"""Strategy of custom resources: defaults, validation, selectable fields and conversion.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/{strategy,
status_strategy,validator}.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubesched.cluster.apiserver.crd.definition import Definition, Version
from kubesched.cluster.apiserver.crd.embedded_resources import embedded_problems
from kubesched.cluster.apiserver.crd.structure import drop_nulls, fill_defaults, prune
from kubesched.cluster.apiserver.crd.values import NOT_THERE, list_problems, value_problems
from kubesched.cluster.apiserver.documents import (
    Document,
    copy_of,
    dig,
    metadata_of,
    name_of,
    namespace_of,
)
from kubesched.cluster.apiserver.errors import Problem, invalid
from kubesched.cluster.apiserver.kinds.checks import key_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy
from kubesched.golang.strconv import go_quote

_STANDARD_FINALIZERS: Final = {"orphan", "foregroundDeletion", "kubernetes"}
_INT32_MAX: Final = 2**31 - 1
_GO_TYPES: Final = {
    "str": "string",
    "bool": "bool",
    "float": "float64",
    "dict": "map[string]interface {}",
    "list": "[]interface {}",
}


class InstanceStrategy(Strategy):
    """Strategy of one version of a custom kind."""

    allows_unconditional_update = False
    field_rejection = "field label not supported: {}"

    def __init__(
        self,
        definition: Definition,
        version: Version,
        on_gone: Callable[[Document], None] = lambda document: None,
    ) -> None:
        self.definition = definition
        self.version = version
        self.has_status = version.has_status
        self._on_gone = on_gone
        self._is_stored = version.is_storage
        self._to_storage = to_storage(definition)
        self._from_storage = from_storage(definition, version)

    def default(self, document: Document) -> None:
        fill_defaults(document, self.version.schema)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        # Without a status subresource, a change of status increments the generation, too.
        metadata, was = metadata_of(new), metadata_of(old).get("generation") or 0
        if not self.has_status and new.get("status") != old.get("status"):
            metadata["generation"] = was + 1

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        return self._problems(document, NOT_THERE)

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self._problems(new, old)

    def _problems(self, document: Document, old: Any) -> list[Problem]:
        schema = self.version.schema
        problems = value_problems(document, schema, old=old)
        problems += self._scale_problems(document, is_status_only=False)
        problems += embedded_problems(document, schema)
        if old is NOT_THERE or not list_problems(old, schema):
            problems += list_problems(document, schema)
        return problems

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        schema = self.version.schema
        problems: list[Problem] = []
        status_schema = dig(schema, "properties", "status")
        if "status" in new and status_schema is not None:
            before = old.get("status", NOT_THERE)
            problems += value_problems(new["status"], status_schema, root="status", old=before)
        problems += self._scale_problems(new, is_status_only=True)
        if not list_problems(old, schema):
            problems += list_problems(new, schema)
        return problems

    def _scale_problems(self, document: Document, *, is_status_only: bool) -> list[Problem]:
        scale = self.version.scale
        if scale is None:
            return []
        problems = [] if is_status_only else _replica_problems(document, scale.spec_path)
        problems += _replica_problems(document, scale.status_path)
        if scale.selector_path:
            selector = dig(document, *scale.selector_path)
            if selector is not None and not isinstance(selector, str):
                problems.append(_wrong_type(scale.selector_path, "", selector, "string"))
        return problems

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        known = set(metadata_of(old).get("finalizers") or ()) if old is not None else set()
        added = set(metadata_of(document).get("finalizers") or ()) - known
        return [text for one in sorted(added) for text in _finalizer_warnings(one)]

    def fields(self, document: Document) -> dict[str, str]:
        found = {"metadata.name": name_of(document)}
        if self.definition.is_namespaced:
            found["metadata.namespace"] = namespace_of(document)
        for field in self.version.selectable_fields:
            path = field["jsonPath"].removeprefix(".")
            value = dig(document, *path.split("."))
            found[path] = _text(value)
        return found

    def after_create(self, document: Document, request: Request) -> None:
        self._show_as_stored(document)

    def after_update(self, new: Document, old: Document, request: Request) -> None:
        self._show_as_stored(new)

    def _show_as_stored(self, document: Document) -> None:
        """Convert a document to the stored version and back."""
        if not self._is_stored:
            converted = self._from_storage(self._to_storage(document))
            document.clear()
            document |= converted

    def after_delete(self, document: Document, request: Request) -> None:
        self._on_gone(document)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _replica_problems(document: Document, path: tuple[str, ...]) -> list[Problem]:
    place = "." + ".".join(path)
    value: Any = document
    for step in path:
        if not isinstance(value, dict):
            return [_wrong_type(path, 0, value, "map[string]interface{}")]
        if step not in value:
            return []
        value = value[step]
    if type(value) is not int:
        return [_wrong_type(path, 0, value, "int64")]
    if value < 0:
        return [invalid(place, value, "should be a non-negative integer")]
    if value > _INT32_MAX:
        return [invalid(place, value, f"should be less than or equal to {_INT32_MAX}")]
    return []


def _wrong_type(path: tuple[str, ...], container: Any, value: Any, expected: str) -> Problem:
    actual = _GO_TYPES.get(type(value).__name__, "int64")
    printed = str(value).lower() if isinstance(value, bool) else value
    place = "." + ".".join(path)
    text = f"{place} accessor error: {printed} is of the type {actual}, expected {expected}"
    return invalid(place, container, text)


def _finalizer_warnings(name: str) -> list[str]:
    place = f"metadata.finalizers: {go_quote(name)}"
    texts = [f"{place}: {text}" for text in key_problems(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        including = " including a path (/)" if "." in name else ""
        texts.append(
            f"{place}: prefer a domain-qualified finalizer name{including} to avoid accidental "
            "conflicts with other finalizer writers"
        )
    return texts


def to_storage(definition: Definition) -> Callable[[Document], Document]:
    """Return a function that converts an instance to the storage version."""
    stored = definition.storage_version
    api_version = f"{definition.group}/{stored.name}"

    def convert(document: Document) -> Document:
        if document.get("apiVersion") == api_version:
            return document
        return _converted(document, api_version, stored.schema)

    return convert


def from_storage(definition: Definition, version: Version) -> Callable[[Document], Document]:
    """Return a function that converts a stored instance, of any version, to a version."""
    api_version = f"{definition.group}/{version.name}"
    by_version = {f"{definition.group}/{version.name}": version for version in definition.versions}
    stored = definition.storage_version

    def convert(document: Document) -> Document:
        written = by_version.get(document.get("apiVersion") or "", stored)
        root = {**written.schema, "x-kubernetes-embedded-resource": True}
        prune(document, root)
        fill_defaults(document, written.schema)
        if document.get("apiVersion") == api_version:
            return document
        return _converted(document, api_version, version.schema)

    return convert


def _converted(document: Document, api_version: str, schema: dict[str, Any]) -> Document:
    made: Document = {**copy_of(document), "apiVersion": api_version}
    prune(made, {**schema, "x-kubernetes-embedded-resource": True})
    drop_nulls(made, schema)
    return made
