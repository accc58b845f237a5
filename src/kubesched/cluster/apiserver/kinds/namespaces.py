"""Strategy of Namespaces.

Upstream: pkg/registry/core/namespace/strategy.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document, copy_of, name_of
from kubesched.cluster.apiserver.errors import Problem, invalid
from kubesched.cluster.apiserver.kinds.checks import key_problems
from kubesched.cluster.apiserver.names import label_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"
_STANDARD_FINALIZERS = frozenset({FINALIZER, "orphan", "foregroundDeletion"})


class NamespaceStrategy(Strategy):
    """Strategy of namespaces."""

    bumps_generation = False
    returns_deleted_object = True

    def default(self, document: Document) -> None:
        """Set the label kubernetes.io/metadata.name and the phase Active."""
        _label(document)
        status = document.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Active"

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        """Validate a name; return the errors."""
        return label_problems(name, is_prefix=is_prefix)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Set phase Active and the finalizer `kubernetes`."""
        _label(document)
        document["status"] = {"phase": "Active"}
        finalizers = document.setdefault("spec", {}).setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Keep the finalizers, which have their own subresource."""
        _label(new)
        new["spec"] = copy_of(old.get("spec") or {})
        new["status"] = copy_of(old.get("status") or {})

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a namespace; return the errors."""
        return _finalizer_problems(document, has_index=False)

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a namespace."""
        return _finalizer_problems(new, has_index=False)

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Validate a status update."""
        phase = (new.get("status") or {}).get("phase") or ""
        is_leaving = bool(new["metadata"].get("deletionTimestamp"))
        if is_leaving and phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [invalid("status.Phase", phase, text)]
        if not is_leaving and phase != "Active":
            text = "may only be 'Active' if `deletionTimestamp` is empty"
            return [invalid("status.Phase", phase, text)]
        return []

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        name = name_of(document)
        phase = (document.get("status") or {}).get("phase") or ""
        return {"metadata.name": name, "name": name, "status.phase": phase}


class FinalizeStrategy(NamespaceStrategy):
    """Strategy of the subresource finalize, which changes the finalizers of a namespace."""

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Replace the spec and keep the status."""
        _label(new)
        new["status"] = copy_of(old.get("status") or {})

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate the finalizers; return the errors."""
        return _finalizer_problems(new, has_index=True)


def _label(document: Document) -> None:
    name = name_of(document)
    if name:
        metadata = document["metadata"]
        if (metadata.get("labels") or {}).get(_NAME_LABEL) != name:
            metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: name}


def _finalizer_problems(namespace: Document, *, has_index: bool) -> list[Problem]:
    found = []
    for index, name in enumerate((namespace.get("spec") or {}).get("finalizers") or ()):
        path = f"spec.finalizers[{index}]" if has_index else "spec.finalizers"
        found += [invalid(path, name, text) for text in key_problems(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(invalid(path, name, text))
    return found
