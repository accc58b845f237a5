"""Strategy of CustomResourceDefinitions: defaults, updates and deletion.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/
{strategy,etcd}.go, pkg/apis/apiextensions/v1/defaults.go
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from kubesched.cluster.apiserver.crd.formats import is_known_format
from kubesched.cluster.apiserver.crd.rules import definition_problems, status_problems
from kubesched.cluster.apiserver.documents import Document, dig, metadata_of
from kubesched.cluster.apiserver.errors import Problem
from kubesched.cluster.apiserver.strategy import Request, Strategy
from kubesched.golang.strconv import go_quote

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
# Number formats are not string formats.
_NUMBER_FORMATS: Final = {"int32", "int64", "float", "double"}


class Serves(Protocol):
    """Serves the instances of definitions."""

    def defined(self, document: Document, request: Request) -> None:
        """Handle a stored definition."""

    def undefine(self, document: Document, request: Request) -> None:
        """Delete the instances of a terminating definition, then the definition."""

    def gone(self, document: Document) -> None:
        """Stop serving the instances of a deleted definition."""


class DefinitionStrategy(Strategy):
    """Strategy of CustomResourceDefinitions."""

    allows_unconditional_update = False

    def __init__(self) -> None:
        self.kinds: Serves | None = None
        """Serves the instances; set during assembly."""

    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = names.get("kind") or ""
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
        if spec.get("conversion") is None:
            spec["conversion"] = {"strategy": "None"}
        service = dig(spec, "conversion", "webhook", "clientConfig", "service")
        if service is not None and service.get("port") is None:
            service["port"] = 443
        status = document.setdefault("status", {})
        if not status.get("storedVersions"):
            _track_stored(document)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        document["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        }
        _track_stored(document)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        _track_stored(new)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        return definition_problems(document)

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return definition_problems(new, old)

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        return status_problems(new)

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        known = set(_unknown_formats(old)) if old is not None else set()
        return [
            f"unrecognized format {go_quote(one)}"
            for one in _unknown_formats(document)
            if one not in known
        ]

    def after_create(self, document: Document, request: Request) -> None:
        if self.kinds is not None:
            self.kinds.defined(document, request)

    def after_update(self, new: Document, old: Document, request: Request) -> None:
        if self.kinds is not None:
            self.kinds.defined(new, request)

    def begin_deletion(self, document: Document, request: Request) -> bool:
        metadata = metadata_of(document)
        if metadata.get("deletionTimestamp"):
            return False
        metadata["deletionTimestamp"] = request.now
        finalizers = metadata.get("finalizers") or []
        if CLEANUP not in finalizers:
            metadata["finalizers"] = [*finalizers, CLEANUP]
        text = (
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        )
        set_condition(
            document, "Terminating", "True", "InstanceDeletionPending", text, now=request.now
        )
        return True

    def after_marked(self, document: Document, request: Request) -> None:
        if self.kinds is not None:
            self.kinds.undefine(document, request)

    def after_delete(self, document: Document, request: Request) -> None:
        if self.kinds is not None:
            self.kinds.gone(document)


def _track_stored(document: Document) -> None:
    status = document.setdefault("status", {})
    stored = status.get("storedVersions") or []
    for version in dig(document, "spec", "versions") or ():
        if version.get("storage"):
            if version.get("name") not in stored:
                status["storedVersions"] = [*stored, version.get("name") or ""]
            return


def set_condition(
    document: Document, kind: str, status: str, reason: str, message: str, *, now: str
) -> None:
    """Set a condition of a definition; lastTransitionTime changes only with the status."""
    holder = document.setdefault("status", {})
    conditions = holder.get("conditions") or []
    holder["conditions"] = conditions
    for one in conditions:
        if one["type"] == kind:
            if one["status"] != status or not one.get("lastTransitionTime"):
                one["lastTransitionTime"] = now
            one |= {"status": status, "reason": reason, "message": message}
            return
    conditions.append(
        {
            "type": kind,
            "status": status,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
    )


def _unknown_formats(document: Document) -> list[str]:
    found: list[str] = []

    def walk(schema: Any) -> None:
        if not isinstance(schema, dict):
            return
        form = schema.get("format")
        is_number = schema.get("type") in {"integer", "number"} and form in _NUMBER_FORMATS
        if form and not is_number and not is_known_format(form):
            found.append(form)
        for key in ("items", "not", "additionalProperties"):
            walk(schema.get(key))
        for key in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(key) or ():
                walk(part)
        for part in (schema.get("properties") or {}).values():
            walk(part)

    for version in dig(document, "spec", "versions") or ():
        walk(dig(version, "schema", "openAPIV3Schema"))
    return found
