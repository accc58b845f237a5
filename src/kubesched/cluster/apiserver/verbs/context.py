"""The context of all verbs: encodes and decodes stored objects, and reads other objects.

Upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubesched.api.times import micro_time_text, time_text
from kubesched.cluster.apiserver.documents import Document, metadata_of, name_of, namespace_of
from kubesched.cluster.apiserver.identity import Identities
from kubesched.cluster.apiserver.resources import Registry, Resource
from kubesched.cluster.apiserver.storage.store import EMPTY, Bucket, Store
from kubesched.cluster.apiserver.storage.watch_cache import Entry
from kubesched.cluster.apiserver.strategy import Admission, Request, User
from kubesched.kit.clock import Clock

encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode
decode: Final = msgspec.json.Decoder().decode
_SYSTEM: Final = User("system:apiserver", groups=("system:masters",))


def is_same(one: Document, other: Document) -> bool:
    """Return whether two documents are equal, in any order of keys."""
    # The fast comparison finds most differences; it takes 1 for true, unlike the exact one.
    return one == other and _encode_sorted(one) == _encode_sorted(other)


def in_order(document: Document) -> Document:
    """Return a document with kind and apiVersion first, so that lists can strip them."""
    keys = list(document)
    if keys[:3] == ["kind", "apiVersion", "metadata"]:
        return document
    names = ("kind", "apiVersion", "metadata")
    first: Document = {key: document[key] for key in names if key in document}
    return {**first, **document}


@dataclass(slots=True)
class WriteOptions:
    """Options of a write."""

    is_dry_run: bool = False
    field_manager: str = "unknown"
    field_validation: str = "Warn"
    """`Strict`, `Warn` or `Ignore`."""
    force: bool | None = None


@dataclass(slots=True)
class Context:
    """The state of the server for verbs. It is the Reader of strategies."""

    registry: Registry
    store: Store
    clock: Clock
    identities: Identities
    admission: Sequence[Admission] = ()
    check_create: Callable[[Request], None] | None = None
    """Checks the permission to create if an update creates an object."""
    by_storage: dict[tuple[str, str], Resource] = field(default_factory=dict)
    """Resource by group and plural for `get` and `list`, cached on first use."""

    def request(self, user: User, resource: Resource, **details: Any) -> Request:
        """Return the request as strategies and admission plugins see it."""
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
        """Return the bucket of a resource."""
        return self.store.bucket(resource.storage)

    def key(self, resource: Resource, namespace: str, name: str) -> str:
        """Return the storage key of an object."""
        return f"{namespace}/{name}" if resource.is_namespaced else name

    def entry(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        """Return the stored entry of an object."""
        bucket = self.store.buckets.get(resource.storage)
        return None if bucket is None else bucket.entries.get(self.key(resource, namespace, name))

    def document(self, resource: Resource, entry: Entry) -> Document:
        """Return an object in the version of the resource; the caller may modify it."""
        document: Document = decode(entry.data)
        if resource.from_storage is not None:
            document = resource.from_storage(document)
        return document

    def data(self, resource: Resource, entry: Entry) -> bytes:
        """Return an object in the version of the resource, encoded."""
        if resource.from_storage is None:
            return entry.data
        return encode(resource.from_storage(decode(entry.data)))

    def new_entry(self, resource: Resource, document: Document, version: int) -> Entry:
        """Set the resourceVersion of a document; return its stored entry."""
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
        """Return the first registered version of a resource."""
        known = self.by_storage.get((group, resource))
        if known is not None and self.registry.find(group, known.version, resource) is known:
            return known
        for one in self.registry:
            if one.group == group and one.resource == resource:
                self.by_storage[group, resource] = one
                return one
        return None

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None:
        """Return an object, or None."""
        found = self.find(group, resource)
        entry = None if found is None else self.entry(found, namespace, name)
        return None if found is None or entry is None else self.document(found, entry)

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]:
        """Yield objects ordered by key."""
        found = self.find(group, resource)
        bucket = None if found is None else self.store.buckets.get(found.storage)
        if found is None or bucket is None or not bucket.entries:
            return iter(())
        entries = list(bucket.range(f"{namespace}/" if namespace else ""))
        return (self.document(found, entry) for entry in entries)


def admit(
    context: Context,
    resource: Resource,
    new: Document | None,
    old: Document | None,
    request: Request,
) -> None:
    """Run mutating admission and the strategy; `new` is None on delete."""
    for plugin in context.admission:
        plugin.admit(new, old, request)
    if new is None:
        if old is not None:
            resource.strategy.admit_delete(old, request)
    elif old is None:
        resource.strategy.admit_create(new, request)
    else:
        resource.strategy.admit_update(new, old, request)


def validate(
    context: Context, new: Document | None, old: Document | None, request: Request
) -> None:
    """Run validating admission."""
    for plugin in context.admission:
        plugin.validate(new, old, request)
