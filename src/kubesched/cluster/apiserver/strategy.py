"""Strategies: the interface between verbs and kinds.

The base class is the strategy of a kind without rules.
Upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update,delete}.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import Problem


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Reader(Protocol):
    """Read access to other objects, for strategies. The documents must not be modified."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None:
        """Return one object; the namespace is empty for cluster-scoped kinds."""

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]:
        """Return objects ordered by key; those of all namespaces by default."""


@dataclass(slots=True)
class Request:
    """The request context of a strategy."""

    user: User
    reader: Reader
    now: str
    """Current time in RFC 3339, in whole seconds with Z."""
    now_micro: str
    """Current time in RFC 3339, with microseconds."""
    group: str = ""
    version: str = "v1"
    resource: str = ""
    kind: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    verb: str = ""
    """`create`, `update`, `patch`, `delete`, `deletecollection`."""
    is_dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    """Texts of the `Warning` headers; strategies append to them."""


class Admission(Protocol):
    """An admission plugin."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Mutate, or raise ApiError to reject; `new` is None on delete, `old` on create."""

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Validate; raise ApiError to reject."""


class Strategy:
    """Strategy of a kind without rules."""

    allows_create_on_update = False
    """Whether PUT of a missing object creates it."""
    allows_unconditional_update = True
    """Whether an update may omit resourceVersion."""
    bumps_generation = True
    """Whether metadata.generation starts at 1 and counts changes outside metadata and status."""
    has_status = True
    """Whether only the status subresource writes `status`, and nothing else."""
    keeps_status_on_create = False
    """Whether a new object may have a status (nodes, events)."""
    default_grace_period_s: int | None = None
    """Default grace period; None for kinds that are not deleted gracefully (all but pods)."""
    returns_deleted_object = False
    """Whether the response to a deletion is the object rather than a Status."""
    orphans_by_default = False
    """Whether dependents are orphaned by default."""
    checks_metadata_again = False
    """Whether an update must also pass the metadata validation of a creation."""
    unselectable: tuple[str, ...] = ()
    """Prefix of names in `fields` that selectors may not use."""
    field_rejection = "field label not supported: {}"
    """Error message for other field selectors."""
    collects_garbage = True
    """Whether deletions may orphan or wait for dependents (events: no)."""

    def default(self, document: Document) -> None:
        """Apply defaults; idempotent, also called for updates and patches."""

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        """Return why a name is not valid; DNS subdomains are valid unless overridden."""
        from kubesched.cluster.apiserver.names import subdomain_problems  # noqa: PLC0415

        return subdomain_problems(name, is_prefix=is_prefix)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Drop or set fields that clients must not set; the verb handles status if has_status."""

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Carry over fields that an update must not change; status is carried over already."""

    def admit_create(self, document: Document, request: Request) -> None:
        """Mutate a new object by the state of others; raise ApiError to reject it."""

    def admit_update(self, new: Document, old: Document, request: Request) -> None:
        """Do the same for an update; the request may be for a subresource."""

    def admit_delete(self, old: Document, request: Request) -> None:
        """Reject a deletion by raising ApiError."""

    def grace_period_s(self, document: Document, requested: int | None) -> int | None:
        """Return the grace period of a deletion; None for kinds without graceful deletion."""
        if self.default_grace_period_s is None:
            return None
        return self.default_grace_period_s if requested is None else requested

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a new object, except metadata."""
        return []

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update, except metadata."""
        return []

    def prepare_for_status_update(self, new: Document, old: Document, request: Request) -> None:
        """Carry over fields that a status update must not change; metadata and spec already are."""

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Validate an update of status."""
        return []

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings for the user about a valid object."""
        return []

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        return {"metadata.name": name_of(document), "metadata.namespace": namespace_of(document)}

    def after_create(self, document: Document, request: Request) -> None:
        """Handle a stored new object (allocations, caches)."""

    def after_update(self, new: Document, old: Document, request: Request) -> None:
        """Handle a stored update."""

    def begin_deletion(self, document: Document, request: Request) -> bool:
        """Mark a document as terminating; return False, as most kinds do, if the verb must."""
        return False

    def after_marked(self, document: Document, request: Request) -> None:
        """Handle a stored object that begin_deletion marked."""

    def after_delete(self, document: Document, request: Request) -> None:
        """Handle a removed object."""
