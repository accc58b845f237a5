"""Initial objects of a playground: nodes from a template, or a copy of another cluster.

A cluster that has nodes is left as it is. Runs before controllers and kubelets start, so that they
find a consistent state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubesched.client.resources import NODES
from kubesched.cluster.playground.copying import ClusterCopy

if TYPE_CHECKING:
    from kubesched.client.rest import Client
import copy

from kubesched.api.builders import ROOM, Document

_BATCH: Final = 32
ZONES: Final = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class InitialObjects:
    """What an empty cluster starts with."""

    node_count: int = 4
    template: Mapping[str, Any] | None = None
    objects: Sequence[Document] | None = None
    """Copy of another cluster, instead of template nodes."""
    host: str = ""
    """Hostname of all kubelets, if no kubelet reports it."""


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """The result of `bootstrap`."""

    has_new_nodes: bool
    """Whether nodes were created from the template."""
    copied: str = ""
    """Summary of the copied objects."""
    rejected: Sequence[str] = ()
    """Copied objects that the server rejected."""


async def bootstrap(client: Client, initial: InitialObjects) -> BootstrapResult:
    """Create the initial objects of a cluster, unless it has nodes."""
    listed = msgspec.json.decode(await client.get(NODES, query={"limit": "1"}))
    if listed.get("items"):
        return BootstrapResult(has_new_nodes=False)
    if initial.objects is not None:
        copy = ClusterCopy(client)
        await copy.write(initial.objects)
        counts = [f"{count} {_plural(kind)}" for kind, count in copy.written.items()]
        return BootstrapResult(
            has_new_nodes=False, copied=", ".join(counts), rejected=tuple(copy.rejected)
        )
    nodes = node_documents(initial.node_count, initial.template)
    if initial.host:
        for number, node in enumerate(nodes, 1):
            node["status"]["addresses"] = _addresses(number, initial.host)
    for start in range(0, len(nodes), _BATCH):
        batch = nodes[start : start + _BATCH]
        await asyncio.gather(*(client.create(NODES, node) for node in batch))
    return BootstrapResult(has_new_nodes=True)


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def _addresses(number: int, host: str) -> list[Document]:
    high, low = divmod(number, 256)
    return [
        {"type": "InternalIP", "address": f"10.200.{high}.{low}"},
        {"type": "Hostname", "address": host},
    ]


class TemplateError(ValueError):
    """An invalid node template."""


def node_documents(count: int, template: Mapping[str, Any] | None = None) -> list[Document]:
    """Return a number of nodes, optionally from a template.

    A template is a Node whose labels, taints, capacity and other fields are copied. `%d` in its
    name is replaced by the node's number; without it the number is appended.
    """
    return [node_document(number, template) for number in range(1, count + 1)]


def node_document(number: int, template: Mapping[str, Any] | None = None) -> Document:
    """Return one node."""
    node: Document = copy.deepcopy(dict(template or {}))
    node.update(apiVersion="v1", kind="Node")
    metadata = node.setdefault("metadata", {})
    metadata["name"] = name = _name(str(metadata.get("name", "node")), number)
    zone = ZONES[(number - 1) % len(ZONES)]
    metadata["labels"] = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "playground",
        "topology.kubernetes.io/zone": f"zone-{zone}",
        **(metadata.get("labels") or {}),
        "kubernetes.io/hostname": name,
    }
    status = node.setdefault("status", {})
    status["capacity"] = {**ROOM, **(status.get("capacity") or {})}
    status["allocatable"] = {**status["capacity"], **(status.get("allocatable") or {})}
    return node


def template_of(document: object) -> Document:
    """Return a node template; TemplateError unless it is a Node."""
    if not isinstance(document, Mapping):
        raise TemplateError("it contains no Node")
    kind = document.get("kind", "Node")
    if kind != "Node":
        raise TemplateError(f"it contains a {kind}, not a Node")
    metadata = document.get("metadata") or {}
    kept_metadata = {
        key: metadata[key] for key in ("name", "labels", "annotations") if metadata.get(key)
    }
    spec = document.get("spec") or {}
    status = document.get("status") or {}
    return {
        "metadata": kept_metadata,
        "spec": {key: spec[key] for key in ("taints", "unschedulable") if spec.get(key)},
        "status": {
            key: status[key] for key in ("capacity", "allocatable", "images") if status.get(key)
        },
    }


def _name(pattern: str, number: int) -> str:
    return pattern.replace("%d", str(number)) if "%d" in pattern else f"{pattern}-{number}"
