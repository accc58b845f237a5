"""What a playground begins with: nodes of a template, or a copy of another cluster.

Owns that a cluster which has nodes already is left as it is. It is done before controllers and
kubelets start, so that they find everything in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubesched.client.resources import NODES
from kubesched.playground.copying import Copy
from kubesched.playground.nodes import node_documents
from kubesched.playground.snapshots import Document

if TYPE_CHECKING:
    from kubesched.client.rest import Client

_AT_A_TIME: Final = 32


@dataclass(frozen=True, slots=True)
class Filling:
    """What to put into an empty cluster."""

    node_count: int = 4
    template: Mapping[str, Any] | None = None
    objects: Sequence[Document] | None = None
    """A copy of another cluster, in place of nodes of a template."""
    host: str = ""
    """Where all kubelets are, if nobody else says so."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of it."""

    is_new: bool
    """Whether the cluster was empty."""
    copied: str = ""
    """What was copied, in a few words."""
    refused: Sequence[str] = ()
    """What of a copy the server would not take."""


async def fill(client: Client, filling: Filling) -> Filled:
    """Fill a cluster, if it is empty."""
    listed = msgspec.json.decode(await client.get(NODES, query={"limit": "1"}))
    if listed.get("items"):
        return Filled(is_new=False)
    if filling.objects is not None:
        copy = Copy(client)
        await copy.write(filling.objects)
        counts = [f"{count} {kind}s" for kind, count in copy.written.items()]
        return Filled(is_new=False, copied=", ".join(counts), refused=tuple(copy.refused))
    nodes = node_documents(filling.node_count, filling.template)
    if filling.host:
        for number, node in enumerate(nodes, 1):
            node["status"]["addresses"] = _addresses(number, filling.host)
    for start in range(0, len(nodes), _AT_A_TIME):
        some = nodes[start : start + _AT_A_TIME]
        await asyncio.gather(*(client.create(NODES, node) for node in some))
    return Filled(is_new=True)


def _addresses(number: int, host: str) -> list[Document]:
    high, low = divmod(number, 256)
    return [
        {"type": "InternalIP", "address": f"10.200.{high}.{low}"},
        {"type": "Hostname", "address": host},
    ]
