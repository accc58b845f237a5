"""Which pods are on a node.

Owns the index that finds them. Never knows how the node is.
Upstream: pkg/controller/controller_utils.go AddPodNodeNameIndexer
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubesched.client.cached.documents import Document
from kubesched.client.cached.informers import Informer

_INDEX: Final = "spec.nodeName"


def index_by_node(pods: Informer) -> None:
    """Have pods found by the names of their nodes."""
    pods.add_index(_INDEX, _node_name)


def pods_on(pods: Informer, node_name: str) -> list[Document]:
    """Return the pods of a node; `index_by_node` has been called."""
    return pods.by(_INDEX, node_name)


def node_of(pod: Document | None) -> str:
    """Return the name of a pod's node; empty if it has none."""
    return "" if pod is None else pod["spec"].get("nodeName") or ""


def _node_name(pod: Document) -> Iterable[str]:
    name = node_of(pod)
    return (name,) if name else ()
