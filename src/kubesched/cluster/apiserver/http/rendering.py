"""Renders objects: whole, as a Table, or as PartialObjectMetadata.

Responses and watch events. The columns are in `tables`.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.cluster.apiserver import tables
from kubesched.cluster.apiserver.documents import Document, metadata_of
from kubesched.cluster.apiserver.http.negotiation import Representation, Shape
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.storage.watch_cache import Entry
from kubesched.cluster.apiserver.verbs.context import Context, decode, encode
from kubesched.cluster.apiserver.verbs.reading import Page
from kubesched.cluster.apiserver.verbs.watching import INITIAL_EVENTS_END

_PARTIAL: Final = "PartialObjectMetadata"
_META: Final = "meta.k8s.io"


def rendering_of(context: Context, resource: Resource, representation: Representation) -> Whole:
    """Return the requested rendering."""
    if representation.shape is Shape.TABLE:
        return Rows(context, resource, representation)
    if representation.shape is Shape.PARTIAL:
        return MetadataOnly(context, resource, representation)
    return Whole(context, resource, representation)


class Whole:
    """Rendering of whole objects."""

    def __init__(
        self, context: Context, resource: Resource, representation: Representation
    ) -> None:
        self._context = context
        self._resource = resource
        self._representation = representation
        self.key = f"{resource.api_version}/{resource.kind}"

    def of(self, resource: Resource) -> Whole:
        """Return the same rendering for another resource."""
        return type(self)(self._context, resource, self._representation)

    def one(self, document: Document) -> bytes:
        """Return an object, encoded."""
        return encode(document)

    def stored(self, entry: Entry) -> bytes:
        """Return a stored object, encoded."""
        return self._context.data(self._resource, entry)

    def listed(self, page: Page) -> bytes:
        """Return a list, encoded."""
        resource = self._resource
        prefix = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
        # Parity: items of built-in kinds do not repeat the list's kind and apiVersion.
        cut = 0 if resource.is_custom else len(prefix)
        parts: list[bytes] = []
        for entry in page.entries:
            data = self._context.data(resource, entry)
            parts.append(b"{" + data[cut:] if cut and data.startswith(prefix) else data)
        head = encode(
            {
                "kind": resource.list_kind,
                "apiVersion": resource.api_version,
                # Parity: lists of custom kinds have an empty continue token on the last page.
                "metadata": ({"continue": ""} if resource.is_custom else {}) | list_metadata(page),
            }
        )
        return b"".join((head[:-1], b',"items":[', b",".join(parts), b"]}"))

    def frame(self, kind: str, entry: Entry) -> bytes:
        """Return a watch event, encoded."""
        return b"".join((b'{"type":"', kind.encode(), b'","object":', self.stored(entry), b"}\n"))

    def frame_as_of(self, kind: str, entry: Entry, version: int) -> bytes:
        """Return an event whose object gets another resourceVersion, encoded."""
        return self.frame(kind, self._moved(entry, version))

    def _moved(self, entry: Entry, version: int) -> Entry:
        document: Document = decode(entry.data)
        metadata_of(document)["resourceVersion"] = str(version)
        return Entry(entry.key, version, encode(document), entry.labels, entry.fields)

    def bookmark(self, version: int, *, ends_initial_events: bool) -> bytes:
        """Return a bookmark, encoded."""
        bookmark = self._bookmarked(_bookmark_metadata(version, ends=ends_initial_events))
        return encode({"type": "BOOKMARK", "object": bookmark}) + b"\n"

    def _bookmarked(self, metadata: Document) -> Document:
        resource = self._resource
        document: Document = {"kind": resource.kind, "apiVersion": resource.api_version}
        document["metadata"] = metadata
        return {**document, **resource.empty_object}


class MetadataOnly(Whole):
    """Rendering as PartialObjectMetadata."""

    def __init__(
        self, context: Context, resource: Resource, representation: Representation
    ) -> None:
        super().__init__(context, resource, representation)
        self.key = f"{self.key}/{_PARTIAL}"

    def one(self, document: Document) -> bytes:
        """Return an object, encoded."""
        return encode(tables.partial_metadata(document))

    def stored(self, entry: Entry) -> bytes:
        """Return a stored object, encoded."""
        return encode(tables.partial_metadata(self._context.document(self._resource, entry)))

    def listed(self, page: Page) -> bytes:
        """Return a list, encoded."""
        items = [
            tables.partial_metadata(self._context.document(self._resource, entry))
            for entry in page.entries
        ]
        return encode(
            {
                "kind": f"{_PARTIAL}List",
                "apiVersion": f"{_META}/v1",
                "metadata": list_metadata(page),
                # Parity: a converted list has null instead of an empty list of items.
                "items": items or None,
            }
        )

    def _bookmarked(self, metadata: Document) -> Document:
        return {"kind": _PARTIAL, "apiVersion": f"{_META}/v1", "metadata": metadata}


class Rows(Whole):
    """Rendering as a Table; one instance per watch, since only the first event has columns."""

    def __init__(
        self, context: Context, resource: Resource, representation: Representation
    ) -> None:
        super().__init__(context, resource, representation)
        self._has_columns = True
        self.key = f"{self.key}/Table/{id(self)}"

    def _table(self, documents: list[Document]) -> Document:
        table = tables.table_of(
            self._resource,
            documents,
            include_object=self._representation.include_object,
            now_s=self._context.clock.now_s(),
        )
        table["apiVersion"] = f"{_META}/{self._representation.meta_version}"
        return table

    def one(self, document: Document) -> bytes:
        """Return an object, encoded."""
        table = self._table([document])
        table["metadata"] = {"resourceVersion": metadata_of(document).get("resourceVersion", "")}
        return encode(table)

    def stored(self, entry: Entry) -> bytes:
        """Return a stored object, encoded."""
        return self.one(self._context.document(self._resource, entry))

    def listed(self, page: Page) -> bytes:
        """Return a list, encoded."""
        documents = [self._context.document(self._resource, entry) for entry in page.entries]
        table = self._table(documents)
        table["metadata"] = list_metadata(page)
        return encode(table)

    def frame(self, kind: str, entry: Entry) -> bytes:
        """Return a watch event, encoded."""
        document = self._context.document(self._resource, entry)
        table = self._table([document])
        table["metadata"] = {"resourceVersion": metadata_of(document).get("resourceVersion", "")}
        if self._has_columns:
            self._has_columns = False
        else:
            table["columnDefinitions"] = None
        return encode({"type": kind, "object": table}) + b"\n"

    def bookmark(self, version: int, *, ends_initial_events: bool) -> bytes:
        """Return a bookmark, encoded."""
        metadata = _bookmark_metadata(version, ends=ends_initial_events)
        document: Document = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        document["metadata"] = metadata
        table = self._table([{**document, **self._resource.empty_object}])
        table["metadata"] = {"resourceVersion": str(version)}
        if self._has_columns:
            self._has_columns = False
        else:
            table["columnDefinitions"] = None
        return encode({"type": "BOOKMARK", "object": table}) + b"\n"


def list_metadata(page: Page) -> dict[str, Any]:
    """Return the metadata of a list."""
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.token:
        metadata["continue"] = page.token
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def _bookmark_metadata(version: int, *, ends: bool) -> Document:
    metadata: Document = {"resourceVersion": str(version)}
    if ends:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata
