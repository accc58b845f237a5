"""A reader of a few documents, for rules that read other objects."""

from collections.abc import Iterable, Iterator

from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of


class Documents:
    """Documents by group and resource."""

    def __init__(self, documents: dict[tuple[str, str], Iterable[Document]] | None = None) -> None:
        self.documents = {key: list(value) for key, value in (documents or {}).items()}
        self.version = 0

    def add(self, group: str, resource: str, document: Document) -> None:
        self.documents.setdefault((group, resource), []).append(document)
        self.version += 1

    def get(self, group: str, resource: str, namespace: str, name: str) -> Document | None:
        for found in self.documents.get((group, resource), ()):
            if name_of(found) == name and namespace_of(found) == namespace:
                return found
        return None

    def list(self, group: str, resource: str, namespace: str = "") -> Iterator[Document]:
        for found in self.documents.get((group, resource), ()):
            if not namespace or namespace_of(found) == namespace:
                yield found
