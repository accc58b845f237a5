"""What every verb works on.

Owns the way from documents to stored entries and back, and the reading of other objects. Never
decides what is allowed: the verbs do, with the rules of the kind.
Upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubesched.apiserver.documents import Document, metadata_of, name_of, namespace_of
from kubesched.apiserver.identity import Identities
from kubesched.apiserver.resources import Registry, Resource
from kubesched.apiserver.store import EMPTY, Bucket, Store
from kubesched.apiserver.strategy import Admission, Request, User
from kubesched.apiserver.watch_cache import Entry
from kubesched.kit.clock import Clock
from kubesched.objects.times import micro_time_text, time_text

encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode
decode: Final = msgspec.json.Decoder().decode
_SYSTEM: Final = User("system:apiserver", groups=("system:masters",))


def is_same(one: Document, other: Document) -> bool:
    """Tell whether two documents say the same, in whatever order."""
    # Most differ, and the quick comparison says so; it takes 1 for true, which the other does not.
    return one == other and _encode_sorted(one) == _encode_sorted(other)


def in_order(document: Document) -> Document:
    """Return a document whose kind and apiVersion come first, so that lists can cut them off."""
    keys = list(document)
    if keys[:3] == ["kind", "apiVersion", "metadata"]:
        return document
    names = ("kind", "apiVersion", "metadata")
    first: Document = {key: document[key] for key in names if key in document}
    return {**first, **document}


@dataclass(slots=True)
class WriteOptions:
    """How a client wants a write done."""

    is_dry_run: bool = False
    field_manager: str = "unknown"
    field_validation: str = "Warn"
    """`Strict`, `Warn` or `Ignore`."""
    force: bool | None = None


@dataclass(slots=True)
class Context:
    """The server's state, as verbs see it. It is a Reader for the rules of kinds."""

    registry: Registry
    store: Store
    clock: Clock
    identities: Identities
    admission: Sequence[Admission] = ()
    check_create: Callable[[Request], None] | None = None
    """Refuses a change that turns out to be a creation; posting was allowed or refused before."""
    by_storage: dict[tuple[str, str], Resource] = field(default_factory=dict)
    """The resource through which rules read a group's objects, filled as they ask."""

    def request(self, user: User, resource: Resource, **details: Any) -> Request:
        """Return what rules may know about a request."""
        now_s = self.clock.now_s()
        return Request(
            user=user,
            reader=self,
            now=time_text(now_s),
            now_micro=micro_time_text(now_s),
            group=resource.group,
            version=resource.version,
            resource=resource.resource,
            kind=resource.kind,
            **details,
        )

    def system_request(self, resource: Resource, verb: str) -> Request:
        """Return a request of the server itself."""
        return self.request(_SYSTEM, resource, verb=verb)

    def bucket(self, resource: Resource) -> Bucket:
        """Return where a resource's objects are."""
        return self.store.bucket(resource.storage)

    def key(self, resource: Resource, namespace: str, name: str) -> str:
        """Return under which key an object is kept."""
        return f"{namespace}/{name}" if resource.is_namespaced else name

    def entry(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        """Return an object as it is kept."""
        bucket = self.store.buckets.get(resource.storage)
        return None if bucket is None else bucket.entries.get(self.key(resource, namespace, name))

    def document(self, resource: Resource, entry: Entry) -> Document:
        """Return an object as the resource's version shows it; the caller may change it."""
        document: Document = decode(entry.data)
        if resource.from_storage is not None:
            document = resource.from_storage(document)
        return document

    def data(self, resource: Resource, entry: Entry) -> bytes:
        """Return an object's bytes as the resource's version shows it."""
        if resource.from_storage is None:
            return entry.data
        return encode(resource.from_storage(decode(entry.data)))

    def new_entry(self, resource: Resource, document: Document, version: int) -> Entry:
        """Return what is kept of a document under a version; the document gets the version."""
        metadata = metadata_of(document)
        metadata["resourceVersion"] = str(version)
        if resource.to_storage is not None:
            document = resource.to_storage(document)
            metadata = metadata_of(document)
        key = self.key(resource, namespace_of(document), name_of(document))
        labels = metadata.get("labels") or EMPTY
        fields = resource.strategy.fields(document)
        return Entry(key, version, encode(in_order(document)), labels, fields)

    def find(self, group: str, resource: str) -> Resource | None:
        """Return a resource in any of its versions, the first that was registered."""
        known = self.by_storage.get((group, resource))
        if known is not None and self.registry.find(group, known.version, resource) is known:
            return known
        for one in self.registry:
            if one.group == group and one.resource == resource:
                self.by_storage[group, resource] = one
                return one
        return None

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None:
        """Return one object, None if there is none."""
        found = self.find(group, resource)
        entry = None if found is None else self.entry(found, namespace, name)
        return None if found is None or entry is None else self.document(found, entry)

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]:
        """Yield objects in order of their keys."""
        found = self.find(group, resource)
        bucket = None if found is None else self.store.buckets.get(found.storage)
        if found is None or bucket is None or not bucket.entries:
            return iter(())
        entries = list(bucket.range(f"{namespace}/" if namespace else ""))
        return (self.document(found, entry) for entry in entries)
