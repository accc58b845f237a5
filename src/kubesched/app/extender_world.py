"""What an extender knows of the cluster: nodes, pods, and what its plugins ask for beside.

Owns the taking over of what watches tell, at once and without a queue: somebody else schedules. A
pod that we bound counts before the API server shows it. Never decides, and never writes to the API
server.
Upstream: pkg/scheduler/eventhandlers.go, as far as it concerns the cache
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from kubesched.app.live_settings import Outside
from kubesched.app.watching import WatchError, Watching
from kubesched.cache.cache import TERMINAL_PHASES, Cache
from kubesched.client.change import Change
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import KubeObject
from kubesched.objects.meta import KubeResource
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod
from kubesched.scheduler.pods import UnassignedPods
from kubesched.scheduler.scheduler import Inbox

_LEARN_S_MAX: Final = 60.0


class AtOnce(Inbox):
    """Has every change applied when it comes: between two calls, since a call never waits."""

    def __init__(self, apply: Callable[[Change], None], log: Log) -> None:
        super().__init__()
        self._apply = apply
        self._log = log

    def put(self, entry: Change | Callable[[], None]) -> None:
        """Apply a change, or do something."""
        try:
            if isinstance(entry, Change):
                self._apply(entry)
            else:
                entry()
        except Exception as problem:  # noqa: BLE001 - one bad object must not stop the reader
            what = entry.key if isinstance(entry, Change) else "the end of a list"
            self._log.error("Error applying a change", err=problem, object=what)


class ExtenderWorld:
    """The cluster as it is known, and the readers that keep it so."""

    def __init__(
        self, cache: Cache, resources: Sequence[Resource], outside: Outside, *, seed: int = 0
    ) -> None:
        """Be ready to read some kinds into a cache; nothing is asked before `start`."""
        self.cache = cache
        self.pods = UnassignedPods()
        self.versions: dict[str, str] = {}
        """The resourceVersion of each node, by its name."""
        self.others: dict[Resource, dict[str, Any]] = {}
        """Objects of kinds that only plugins know."""
        self.knows_pods = PODS in resources
        """Whether pods are read; if not, `learn_pods` begins it."""
        self._log = outside.log
        self._tasks: Tasks | None = None
        inbox = AtOnce(self.apply, outside.log)
        self.watching = Watching(resources, outside=outside, inbox=inbox, seed=seed)

    def start(self, tasks: Tasks) -> None:
        """Begin to read."""
        self._tasks = tasks
        self.watching.start(tasks)

    async def learn_pods(self) -> bool:
        """Read pods from now on; return whether all that there are were read."""
        assert self._tasks is not None, "nobody asks before the start"
        if not self.knows_pods:
            try:
                await self.watching.add(
                    [PODS], self._tasks, timeout_s=_LEARN_S_MAX, forget=self._forget_pods
                )
            except WatchError as problem:
                self._log.error("Pods cannot be read", err=str(problem))
                return False
            self.knows_pods = True
            self._log.info("Pods are watched from now on: a plugin looks at them")
        return True

    def _forget_pods(self, pods: Resource) -> None:
        for bound in list(self.cache.bound_pods()):
            self._pod_gone(bound.key, bound.uid)
        for waiting in list(self.pods):
            self._pod_gone(waiting.key, waiting.uid)

    @property
    def has_synced(self) -> bool:
        """Return whether everything was read once."""
        return self.watching.has_synced

    @property
    def missing(self) -> list[str]:
        """Return the kinds that are not known yet."""
        return sorted(resource.plural for resource in self.watching.unsynced)

    def informer(self, resource: str) -> Any:
        """Return what is known of a kind: `pods` without a node, or `<plural>.<version>.<group>`.

        Raises:
            LookupError: Nobody reads it.
        """
        if resource == "pods":
            if not self.knows_pods:
                raise LookupError(
                    "pods are not watched: every plugin has said that it reads nodes alone"
                )
            return self.pods
        for kind in self.watching.resources:
            name = f"{kind.plural}.{kind.version}.{kind.group}"
            if resource == name and self.cache.kind_of(kind.kind) is None:
                return self.others.setdefault(kind, {})
        raise LookupError(
            f"objects of {resource} are not kept: a plugin gets pods, and the kinds "
            "<plural>.<version>.<group> that it registers for in events_to_register()"
        )

    # -- what changes -----------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        """Take over one change."""
        if change.resource == PODS:
            self._apply_pod(change)
        elif change.resource == NODES:
            self._apply_node(change)
        else:
            self._apply_other(change)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod that was bound, until the API server shows it."""
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
        promised = old.nominated_node_name if old is not None else ""
        if new.nominated_node_name != promised and not self.cache.is_bound(new):
            self.cache.nominate_pod(new, new.nominated_node_name)

    def _pod_gone(self, key: str, uid: str) -> None:
        bound = self.cache.bound_pod(uid)
        if bound is not None:
            self.cache.remove_pod(bound)
        waiting = self.pods.pop(key, uid)
        if waiting is not None:
            self.cache.remove_pod(waiting)  # It may have been promised a node.

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
            known = self.others.setdefault(change.resource, {})
            if is_gone:
                known.pop(change.key, None)
            else:
                known[change.key] = obj
        elif not is_gone:
            self.cache.put(cast("KubeObject", obj))
        elif (stored := self.cache.stored(kind, change.key)) is not None:
            self.cache.drop(stored)
