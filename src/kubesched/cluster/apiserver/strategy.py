"""Strategies: the contract between verbs and kinds.

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
    """Who is asking."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Reader(Protocol):
    """Read access to other objects, for strategies. The documents must not be modified."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None:
        """Return one object; the namespace is empty for kinds without."""

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]:
        """Return objects in order of their keys; of all namespaces by default."""


@dataclass(slots=True)
class Request:
    """The request context of a strategy."""

    user: User
    reader: Reader
    now: str
    """The time, as documents have it (RFC 3339, whole seconds, Z)."""
    now_micro: str
    """The time with microseconds."""
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
    """Texts for `Warning` headers; rules add to them."""


class Admission(Protocol):
    """An admission plugin."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Mutate, or raise ApiError to reject; no new: a deletion, no old: a creation."""

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Validate; raise ApiError to reject."""


class Strategy:
    """The strategy of a kind without rules."""

    allows_create_on_update = False
    """Whether PUT of a missing object creates it."""
    allows_unconditional_update = True
    """Whether an update without resourceVersion is taken."""
    bumps_generation = True
    """Whether metadata.generation starts at 1 and counts changes outside metadata and status."""
    has_status = True
    """Whether main writes leave `status` alone (and the status subresource the rest)."""
    keeps_status_on_create = False
    """Whether a created object may bring its status along (nodes, events)."""
    default_grace_period_s: int | None = None
    """Not None for kinds that are deleted gracefully (pods)."""
    returns_deleted_object = False
    """Whether the response to a deletion is the object rather than a Status."""
    orphans_by_default = False
    """Whether dependents are orphaned by default."""
    checks_metadata_again = False
    """Whether an update has to pass the metadata rules of a creation, too."""
    unselectable: tuple[str, ...] = ()
    """How names begin that fields() has and that selectors may not use."""
    field_rejection = "field label not supported: {}"
    """The error for other field selectors."""
    collects_garbage = True
    """Whether deletions may orphan or wait for dependents (not so for events)."""

    def default(self, document: Document) -> None:
        """Apply defaults; idempotent, also called for updates and patches."""

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        """Validate a name, without path; a DNS subdomain unless overridden; return the errors."""
        from kubesched.cluster.apiserver.names import subdomain_problems  # noqa: PLC0415

        return subdomain_problems(name, is_prefix=is_prefix)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Drop or set fields that a client must not choose; with has_status, not status."""

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Carry over fields that an update must not change. Status already is."""

    def admit_create(self, document: Document, request: Request) -> None:
        """Mutate in the context of other objects; raise ApiError to reject."""

    def admit_update(self, new: Document, old: Document, request: Request) -> None:
        """As admit_create, for updates (the request's subresource may be set)."""

    def admit_delete(self, old: Document, request: Request) -> None:
        """Reject a deletion by raising ApiError."""

    def grace_period_s(self, document: Document, requested: int | None) -> int | None:
        """Return how long a deletion waits, None for kinds that are not deleted gracefully."""
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
        """Return texts a user should see though nothing is wrong."""
        return []

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        return {"metadata.name": name_of(document), "metadata.namespace": namespace_of(document)}

    def after_create(self, document: Document, request: Request) -> None:
        """Note that an object was stored (allocations, caches)."""

    def after_update(self, new: Document, old: Document, request: Request) -> None:
        """Note that a changed object was stored."""

    def begin_deletion(self, document: Document, request: Request) -> bool:
        """Mark a document as being deleted; False leaves that to the verb, as for most kinds."""
        return False

    def after_marked(self, document: Document, request: Request) -> None:
        """Note that a document which begin_deletion marked was stored."""

    def after_delete(self, document: Document, request: Request) -> None:
        """Note that an object is gone."""
