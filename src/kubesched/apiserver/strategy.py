"""What is particular to a kind, as the verbs ask for it.

Owns the contract between the verbs, which are alike for every kind, and the rules of a kind. The
base class is what a kind without rules of its own gets.
Upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update,delete}.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubesched.apiserver.documents import Document, name_of, namespace_of
from kubesched.apiserver.errors import Problem


@dataclass(frozen=True, slots=True)
class User:
    """Who is asking."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Reader(Protocol):
    """Other objects, as rules may need them. Documents it hands out are never to be written."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None:
        """Return one object; the namespace is empty for kinds without."""

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]:
        """Return objects in order of their keys; all namespaces if none is given."""


@dataclass(slots=True)
class Request:
    """What rules may know about the request they are asked in."""

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
    """One admission plugin, asked about every kind."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Fill in or refuse by raising ApiError; no new: a deletion, no old: a creation."""

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Refuse, once everything is filled in and valid."""


class Strategy:
    """The rules of a kind that has none of its own."""

    allows_create_on_update = False
    """Whether PUT of an object that is not there creates it."""
    allows_unconditional_update = True
    """Whether an update without resourceVersion is taken."""
    bumps_generation = True
    """Whether metadata.generation starts at 1 and moves with what is not metadata or status."""
    has_status = True
    """Whether main writes leave `status` alone (and the status subresource the rest)."""
    keeps_status_on_create = False
    """Whether a created object may bring its status along (nodes, events)."""
    default_grace_period_s: int | None = None
    """Not None for kinds that are deleted gracefully (pods)."""
    returns_deleted_object = False
    """Whether deleting answers with the object, not with a Status."""
    orphans_by_default = False
    """Whether dependents stay where the client does not say what becomes of them."""
    checks_metadata_again = False
    """Whether an update has to pass the metadata rules of a creation, too."""
    unselectable: tuple[str, ...] = ()
    """How names begin that fields() has and that selectors may not use."""
    field_refusal = "field label not supported: {}"
    """What a selector by another field is told."""
    collects_garbage = True
    """Whether deletions may orphan or wait for dependents (not so for events)."""

    def default(self, document: Document) -> None:
        """Fill in what the user left out; idempotent, called on updates and patched results too."""

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        """Return what is wrong with a name, without path; a DNS subdomain unless overridden."""
        from kubesched.apiserver.names import subdomain_problems  # noqa: PLC0415

        return subdomain_problems(name, is_prefix=is_prefix)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Drop or set what a client may not choose. Status is dropped already if has_status."""

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Carry over what an update may not change. Status is carried over already."""

    def admit_create(self, document: Document, request: Request) -> None:
        """Fill in or refuse because of other objects; raise ApiError to refuse."""

    def admit_update(self, new: Document, old: Document, request: Request) -> None:
        """As admit_create, for updates (the request's subresource may be set)."""

    def admit_delete(self, old: Document, request: Request) -> None:
        """Refuse a deletion by raising ApiError."""

    def grace_period_s(self, document: Document, asked: int | None) -> int | None:
        """Return how long a deletion waits, None for kinds that are not deleted gracefully."""
        if self.default_grace_period_s is None:
            return None
        return self.default_grace_period_s if asked is None else asked

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Return what is wrong, metadata aside."""
        return []

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Return what is wrong with a change, metadata aside."""
        return []

    def prepare_for_status_update(self, new: Document, old: Document, request: Request) -> None:
        """Carry over what a status update may not change; metadata and spec are old's already."""

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Return what is wrong with a change of status."""
        return []

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return texts a user should see though nothing is wrong."""
        return []

    def fields(self, document: Document) -> dict[str, str]:
        """Return the values a field selector may ask for."""
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
