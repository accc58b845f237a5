"""Snapshots: copies of the objects of a cluster that matter to scheduling.

Owns which resources are read, and the file format: a List as `kubectl get -o json` prints it, which
`kubesched explain -f` reads as well. Writing a copy to a cluster is `copying`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubesched.client.errors import ApiError, ForbiddenError, TransportError
from kubesched.client.resources import (
    CONTROLLER_REVISIONS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)

if TYPE_CHECKING:
    from kubesched.client.rest import Client

Document = dict[str, Any]

KINDS: Final[tuple[Resource, ...]] = (
    NAMESPACES,
    PRIORITY_CLASSES,
    NODES,
    STORAGE_CLASSES,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTACHMENTS,
    SERVICES,
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CONTROLLER_REVISIONS,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
"""The copied resources, owners before dependents."""

_REQUIRED: Final = (NODES, PODS, NAMESPACES)
_PAGE: Final = 500


class SnapshotError(Exception):
    """A cluster or a file that cannot be read."""


async def read_cluster(client: Client) -> tuple[list[Document], list[str]]:
    """Return the objects of a cluster, and the resources that we may not read.

    SnapshotError if nodes, pods or namespaces cannot be read.
    """
    objects: list[Document] = []
    unreadable: list[str] = []
    for resource in KINDS:
        try:
            objects += await _list(client, resource)
        except (ApiError, TransportError) as error:
            is_optional = isinstance(error, ForbiddenError) and resource not in _REQUIRED
            if not is_optional:
                raise SnapshotError(f"cannot read {resource.plural}: {error}") from None
            unreadable.append(resource.plural)
    return objects, unreadable


async def _list(client: Client, resource: Resource) -> list[Document]:
    if not await client.serves(resource):
        return []
    objects: list[Document] = []
    token = ""
    while True:
        query: dict[str, str] = {"limit": str(_PAGE)}
        if token:
            query["continue"] = token
        page: Document = msgspec.json.decode(await client.get(resource, query=query))
        for item in page.get("items") or ():
            item["metadata"].pop("managedFields", None)
            objects.append({"apiVersion": resource.api_version, "kind": resource.kind, **item})
        token = page["metadata"].get("continue", "")
        if not token:
            return objects


def write_snapshot(path: Path, objects: Iterable[Mapping[str, Any]]) -> None:
    """Write a snapshot atomically."""
    document = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    text = msgspec.json.format(msgspec.json.encode(document), indent=1)
    temporary = path.with_name(f".{path.name}.new")
    temporary.touch(mode=0o600)
    temporary.write_bytes(text + b"\n")
    temporary.replace(path)


def read_snapshot(path: Path) -> list[Document]:
    """Return the objects of a snapshot; SnapshotError if the file is not one."""
    try:
        document = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise SnapshotError(f"{path} is not a snapshot: {error}") from None
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise SnapshotError(f"{path} is not a snapshot: it has no list of items")
    for number, item in enumerate(items):
        if not (isinstance(item, dict) and item.get("kind") and item.get("apiVersion")):
            raise SnapshotError(f"{path} is not a snapshot: item {number} has no kind")
    return items
