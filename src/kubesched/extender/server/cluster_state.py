"""The cluster state of an extender: nodes, pods, and the kinds that its plugins registered for.

Owns the watches, the application of their changes without a queue, assumed pods, and the nodes of a
call as rows. Never decides, and never writes to the API server.
Upstream: pkg/scheduler/eventhandlers.go, as far as it concerns the cache
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, cast

import msgspec
import numpy as np

from kubesched.api.decode import KubeObject, decode_as
from kubesched.api.meta import KubeResource
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.cache.cache import TERMINAL_PHASES, Cache, UnassignedPods
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.watch.changes import Change, version_number
from kubesched.extender.wire import ExtenderArgs
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks
from kubesched.run.reflectors import WatchError, Watching
from kubesched.run.settings import Environment
from kubesched.run.watched_kinds import registered_kind
from kubesched.scheduler.scheduler import Inbox
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable

_LEARN_S_MAX: Final = 60.0
# The beginning of every node that Go's encoder wrote; five times as fast as decoding the node.
_BEGINNING: Final = re.compile(
    rb'\{"metadata":\{"name":"([^"\\]+)","uid":"[^"\\]*","resourceVersion":"([0-9]+)"'
)


class ImmediateInbox(Inbox):
    """Applies every change on arrival, which is between two calls since calls do not await."""

    def __init__(self, apply: Callable[[Change], None], log: Log) -> None:
        super().__init__()
        self._apply = apply
        self._log = log

    def put(self, entry: Change | Callable[[], None]) -> None:
        """Apply a change, or run a callback."""
        try:
            if isinstance(entry, Change):
                self._apply(entry)
            else:
                entry()
        except Exception as problem:  # noqa: BLE001 - one bad object must not stop the reader
            name = entry.key if isinstance(entry, Change) else "the end of a list"
            self._log.error("Error applying a change", err=problem, object=name)


class ClusterState:
    """The cache of an extender and the watches that update it."""

    def __init__(
        self, cache: Cache, resources: Sequence[Resource], outside: Environment, *, seed: int = 0
    ) -> None:
        """Prepare to watch some kinds; nothing is requested before `start`."""
        self.cache = cache
        self.pods = UnassignedPods()
        self.versions: dict[str, str] = {}
        """The resourceVersion of each node, by its name."""
        self.others: dict[Resource, dict[str, Any]] = {}
        """Objects of kinds that only plugins read."""
        self.knows_pods = PODS in resources
        """Whether pods are watched; if not, `learn_pods` starts that."""
        self._log = outside.log
        self._tasks: Tasks | None = None
        inbox = ImmediateInbox(self.apply, outside.log)
        self.watching = Watching(resources, environment=outside, inbox=inbox, seed=seed)

    def start(self, tasks: Tasks) -> None:
        """Start the watches."""
        self._tasks = tasks
        self.watching.start(tasks)

    async def learn_pods(self) -> bool:
        """Start watching pods unless they are watched; return whether all have been listed."""
        assert self._tasks is not None, "it is started"
        if not self.knows_pods:
            try:
                await self.watching.add(
                    [PODS], self._tasks, timeout_s=_LEARN_S_MAX, forget=self._forget_pods
                )
            except WatchError as problem:
                self._log.error("Pods cannot be read", err=str(problem))
                return False
            self.knows_pods = True
            self._log.info("Started watching pods: required by a plugin")
        return True

    def _forget_pods(self, pods: Resource) -> None:
        for bound in list(self.cache.bound_pods()):
            self._pod_gone(bound.key, bound.uid)
        for waiting in list(self.pods):
            self._pod_gone(waiting.key, waiting.uid)

    @property
    def has_synced(self) -> bool:
        """Return whether all kinds have been listed."""
        return self.watching.has_synced

    @property
    def missing(self) -> list[str]:
        """Return the kinds that have not been listed yet."""
        return sorted(resource.plural for resource in self.watching.unsynced)

    def informer(self, resource: str) -> Any:
        """Return the objects of a kind: unassigned `pods`, or `<plural>.<version>.<group>`.

        Raises:
            LookupError: The kind is not watched.
        """
        if resource == "pods":
            if not self.knows_pods:
                raise LookupError(
                    "pods are not watched: every plugin declares that it reads nodes only"
                )
            return self.pods
        kind = registered_kind(resource, self.watching.resources, self.cache)
        return self.others.setdefault(kind, {})

    # -- changes ----------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.resource == PODS:
            self._apply_pod(change)
        elif change.resource == NODES:
            self._apply_node(change)
        else:
            self._apply_other(change)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count a bound pod until the watch shows it."""
        if not self.cache.is_bound(pod):
            self.cache.assume_pod(pod, node_name)

    def _apply_pod(self, change: Change) -> None:
        pod = change.object
        if change.type == "DELETED" or not isinstance(pod, Pod):
            self._pod_gone(change.key, change.uid)
            return
        new = self.cache.pod_info(pod, change.raw or None)
        if new.phase in TERMINAL_PHASES:  # An API server that ignores the field selector.
            self._pod_gone(new.key, new.uid)
            return
        old = self.pods.get(new.key)
        if old is not None and old.uid != new.uid:  # Recreated between two lists.
            self._pod_gone(old.key, old.uid)
            old = None
        if new.node_name:
            self.pods.pop(new.key, new.uid)
            self.cache.add_pod(new)
            return
        self.pods.put(new)
        nominated = old.nominated_node_name if old is not None else ""
        if new.nominated_node_name != nominated and not self.cache.is_bound(new):
            self.cache.nominate_pod(new, new.nominated_node_name)

    def _pod_gone(self, key: str, uid: str) -> None:
        bound = self.cache.bound_pod(uid)
        if bound is not None:
            self.cache.remove_pod(bound)
        waiting = self.pods.pop(key, uid)
        if waiting is not None:
            self.cache.remove_pod(waiting)  # It may have been nominated.

    def _apply_node(self, change: Change) -> None:
        if change.type == "DELETED":
            if self.versions.pop(change.key, None) is not None:
                self.cache.remove_node(change.key)
            return
        node = change.object
        assert isinstance(node, Node)
        self.versions[node.metadata.name] = node.metadata.resource_version
        self.cache.set_node_info(NodeInfo(node, change.raw or None))

    def _apply_other(self, change: Change) -> None:
        obj, is_gone = change.object, change.type == "DELETED"
        kind = self.cache.kind_of(change.resource.kind)
        if kind is None or (obj is not None and not isinstance(obj, KubeResource)):
            objects = self.others.setdefault(change.resource, {})
            if is_gone:
                objects.pop(change.key, None)
            else:
                objects[change.key] = obj
        elif not is_gone:
            self.cache.put(cast("KubeObject", obj))
        elif (stored := self.cache.stored(kind, change.key)) is not None:
            self.cache.drop(stored)


class _Metadata(msgspec.Struct, rename="camel"):
    """Name and resourceVersion of a node."""

    name: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct):
    """The only part of a node that most calls have to decode."""

    metadata: _Metadata


_HEAD: Final = msgspec.json.Decoder(_Head)


@dataclass(frozen=True, slots=True)
class RequestedNodes:
    """The nodes of a call, in its order."""

    names: Sequence[str]
    table: NodeTable
    """The nodes that have a row."""
    is_known: BoolColumn | None = None
    """A mask of the names that have a row; None if all have one."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def known_names(self) -> Sequence[str]:
        """Return the names of the table."""
        mask = self.is_known
        return self.names if mask is None else list(compress(self.names, mask.tolist()))

    @property
    def unknown_names(self) -> Sequence[str]:
        """Return the names without a row."""
        mask = self.is_known
        return () if mask is None else list(compress(self.names, (~mask).tolist()))

    def chosen(self, mask: BoolColumn) -> list[bool]:
        """Convert a mask of the table into one of the call; unknown nodes are False."""
        if self.is_known is None:
            return mask.tolist()
        chosen = np.zeros(len(self.names), dtype=np.bool_)
        chosen[self.is_known] = mask
        return chosen.tolist()


@contextmanager
def requested_nodes(cluster: ClusterState, args: ExtenderArgs) -> Iterator[RequestedNodes]:
    """Yield the nodes of a call as rows for the duration of the call.

    Raises:
        MalformedObject: A node that is newer than the watched one is malformed.
    """
    if args.nodes is None:
        yield _of_names(cluster.cache, args.node_names or [])
        return
    before: dict[str, NodeInfo | None] = {}
    try:
        names = [_in_place(cluster, raw, before) for raw in args.nodes.items or ()]
        yield _of_names(cluster.cache, names)
    finally:
        # Only watched nodes stay.
        for name, watched in before.items():
            if watched is None:
                cluster.cache.remove_node(name)
            else:
                cluster.cache.set_node_info(watched)


def _of_names(cache: Cache, names: Sequence[str]) -> RequestedNodes:
    view = cache.snapshot()
    rows = view.rows_of(names)
    is_known: BoolColumn = rows >= 0
    if is_known.all():
        return RequestedNodes(names, view.nodes_at(rows))
    return RequestedNodes(names, view.nodes_at(rows[is_known]), is_known)


def _in_place(cluster: ClusterState, raw: msgspec.Raw, before: dict[str, NodeInfo | None]) -> str:
    """Return the name of a node; replace the watched node if this one is newer."""
    name, version = _name_and_version(raw)
    watched = cluster.versions.get(name)
    if watched == version and version:
        return name
    if watched is not None and version and version_number(version) < version_number(watched):
        return name  # The watch has a newer version than the scheduler.
    info = NodeInfo(decode_as(Node, bytes(raw)), bytes(raw))
    before.setdefault(info.name, cluster.cache.node_info(info.name))
    cluster.cache.set_node_info(info)
    return info.name


def _name_and_version(raw: msgspec.Raw) -> tuple[str, str]:
    match = _BEGINNING.match(raw)
    if match is not None:
        return match[1].decode(), match[2].decode()
    try:
        metadata = _HEAD.decode(raw).metadata
    except (msgspec.MsgspecError, UnicodeError):
        return "", ""  # Decoding the whole node gives the error.
    return metadata.name, metadata.resource_version
