"""Node lifecycle: conditions, taints and pods of unhealthy and unschedulable nodes.

Owns the sync of one node. Heartbeats are `health`'s, zone disruption `zones`', taints `taints`'.
Never deletes pods: taint eviction does.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go

Differs: upstream checks every node every five seconds. Here a node is checked when it changes and
when its grace period expires, so that a thousand idle nodes cost next to nothing.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final

from kubesched.api.documents import (
    Document,
    condition_of,
    key_of,
    name_of,
    namespace_of,
    uid_of,
    version_of,
)
from kubesched.api.times import time_text
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import LEASES, NODES, PODS
from kubesched.client.rest import MERGE_PATCH
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.node_lifecycle.health import NodeHealth, unknown_conditions
from kubesched.cluster.controllers.node_lifecycle.taints import (
    NOT_READY,
    UNREACHABLE,
    has_no_execute,
    missing_beta_labels,
    no_execute_key,
    ready_status_of,
    updated_taints,
)
from kubesched.cluster.controllers.node_lifecycle.zones import NodeZones, ZoneChange
from kubesched.cluster.controllers.pod_control import (
    condition_patch,
    index_by_node,
    node_of,
    pods_on,
)

_LEASE_NAMESPACE: Final = "kube-node-lease"
# Queue key for zone updates; no object has this name.
_ZONES_KEY: Final = ""
# Lets the zone state settle, which depends on how many other nodes fail as well; upstream's
# NodeEvictionPeriod is 100 ms.
_ZONE_SETTLE_S: Final = 0.2
_MONITOR_PERIOD_S: Final = 5.0


class NodeLifecycleController(Controller):
    """Updates conditions and taints of nodes. Keys with a slash are pods, others nodes."""

    name: ClassVar[str] = "node-lifecycle-controller"
    component: ClassVar[str] = "node-controller"
    workers: ClassVar[int] = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        grace_s = context.settings.node_grace_s
        self._period_s = min(_MONITOR_PERIOD_S, grace_s / 10)
        self._health = NodeHealth(
            grace_s=grace_s, startup_grace_s=grace_s * 1.2, period_s=self._period_s
        )
        self._zones = NodeZones(speed=context.settings.speed)
        self._zones_changed = False
        self._is_fully_disrupted = False
        self._registered: dict[str, str] = {}
        self._unready_since_s: dict[str, float] = {}
        self._evictable: dict[str, None] = {}
        self._pods_to_mark_on: dict[str, None] = {}
        self._nodes = context.informers.of(NODES)
        self._pods = context.informers.of(PODS)
        index_by_node(self._pods)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        context.informers.of(LEASES).on_change(self._lease_changed)

    # -- events -----------------------------------------------------------------------------------

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            assert old is not None
            self._forget(old)
            return
        name, status = name_of(new), ready_status_of(new)
        now_s = self.clock.monotonic_s()
        self._health.observe_node(new, now_s, self.clock.now_s())
        if self._zones.observe(new):
            self._zones_changed = True
            self.queue.add(_ZONES_KEY)
        if status == "True":
            self._unready_since_s.pop(name, None)
            self._evictable.pop(name, None)
        elif old is None or ready_status_of(old) != status:
            self._unready_since_s[name] = now_s
        self.queue.add(name)

    def _forget(self, node: Document) -> None:
        name = name_of(node)
        self._health.forget(name)
        if self._zones.forget(name):
            self._zones_changed = True
            self.queue.add(_ZONES_KEY)
        for by_name in (self._unready_since_s, self._evictable, self._pods_to_mark_on):
            by_name.pop(name, None)
        if self._registered.pop(name, None) is not None:
            note = f"Node {name} event: Removing Node {name} from Controller"
            self.event(node, "Normal", "RemovingNode", note)

    def _lease_changed(self, _old: Document | None, new: Document | None) -> None:
        if new is not None and namespace_of(new) == _LEASE_NAMESPACE:
            renewed = (new.get("spec") or {}).get("renewTime") or ""
            self._health.observe_lease(name_of(new), renewed, self.clock.monotonic_s())

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is not None and node_of(new) and node_of(new) != node_of(old):
            node = self._nodes.get(node_of(new))
            if node is not None and ready_status_of(node) in ("False", "Unknown"):
                self.queue.add(key_of(new))

    # -- sync -------------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Reconcile a node, or a pod on an unready node."""
        self._update_zones()
        if key == _ZONES_KEY:
            return
        if "/" in key:
            await self._sync_pod(key)
            return
        node = self._nodes.get(key)
        if node is None:
            return
        self._register(node)
        node = await self._check_heartbeat(node)
        await self._write_taints(node)
        if key in self._pods_to_mark_on:
            await self._mark_pods_not_ready(node)

    def _register(self, node: Document) -> None:
        name, uid = name_of(node), uid_of(node)
        if self._registered.get(name) != uid:
            self._registered[name] = uid
            note = f"Node {name} event: Registered Node {name} in Controller"
            self.event(node, "Normal", "RegisteredNode", note)

    async def run_background(self) -> None:
        """Tick the health monitor, so that it notices when this process was stalled."""
        while True:
            self._health.tick(self.clock.monotonic_s())
            await self.clock.sleep(self._period_s)

    async def _check_heartbeat(self, node: Document) -> Document:
        """Set a node's conditions to Unknown if its grace period expired; return the node."""
        name, now_s = name_of(node), self.clock.monotonic_s()
        self._health.tick(now_s)
        remaining_s = self._health.remaining_s(node, now_s)
        if remaining_s > 0:
            # Nodes that fail together are checked together, so that the zone state counts them.
            expected_s = now_s + min(remaining_s, self.context.settings.node_grace_s)
            due_s = math.ceil(expected_s / self._period_s) * self._period_s
            self.queue.add_after(name, due_s - now_s)
            return node
        conditions = unknown_conditions(node, time_text(self.clock.now_s()))
        if conditions is None:
            return node
        was_ready = ready_status_of(node) == "True"
        status = {**node["status"], "conditions": conditions}
        node = await self.api.update_status(NODES, {**node, "status": status})
        if was_ready:
            self._pods_to_mark_on[name] = None
            note = f"Node {name} status is now: NodeNotReady"
            self.event(node, "Normal", "NodeNotReady", note)
        return node

    async def _write_taints(self, node: Document) -> None:
        now = time_text(self.clock.now_s())
        taints = updated_taints(node, self._no_execute_taint(node), now)
        labels = missing_beta_labels(node)
        patch: Document = {"metadata": {"resourceVersion": version_of(node)}}
        if taints is not None:
            patch["spec"] = {"taints": taints}
        if labels:
            patch["metadata"]["labels"] = labels
        if taints is not None or labels:
            await self.api.patch(NODES, node, patch, content_type=MERGE_PATCH)

    def _no_execute_taint(self, node: Document) -> str | None:
        """Return the NoExecute taint key of an unhealthy node if eviction is allowed now."""
        # Parity: processTaintBaseEviction, doNoExecuteTaintingPass, v1.36.
        status = ready_status_of(node)
        if status is None:
            return next(
                (key for key in (NOT_READY, UNREACHABLE) if has_no_execute(node, key)), None
            )
        taint_key = no_execute_key(status)
        if taint_key is None or self._is_fully_disrupted:
            return None
        if has_no_execute(node, NOT_READY, UNREACHABLE) or name_of(node) in self._evictable:
            return taint_key
        wait_s = self._wait_s(node)
        if wait_s is None:
            return None
        if wait_s > 0:
            self.queue.add_after(name_of(node), wait_s)
            return None
        self._evictable[name_of(node)] = None
        return taint_key

    def _wait_s(self, node: Document) -> float | None:
        now_s = self.clock.monotonic_s()
        settled_s = self._unready_since_s.get(name_of(node), now_s) + _ZONE_SETTLE_S
        return settled_s - now_s if now_s < settled_s else self._zones.wait_s(node, now_s)

    def _update_zones(self) -> None:
        if not self._zones_changed:
            return
        self._zones_changed = False
        change = self._zones.update()
        if change is ZoneChange.UNCHANGED:
            return
        if change is ZoneChange.FULL_DISRUPTION:
            self.log.info(
                "Controller detected that all Nodes are not-Ready. Entering master disruption mode"
            )
            self._is_fully_disrupted = True
            self._evictable.clear()
        elif change is ZoneChange.RECOVERED:
            self.log.info(
                "Controller detected that some Nodes are Ready. Exiting master disruption mode"
            )
            self._is_fully_disrupted = False
            self._health.reset_all(self.clock.monotonic_s())
        for node in self._nodes:
            if change is not ZoneChange.CHANGED or ready_status_of(node) != "True":
                self.queue.add(name_of(node))

    # -- pods -------------------------------------------------------------------------------------

    async def _sync_pod(self, key: str) -> None:
        """Mark a pod as not ready if its node is unready."""
        pod = self._pods.get(key)
        node = self._nodes.get(node_of(pod))
        if pod is not None and node is not None and ready_status_of(node) in ("False", "Unknown"):
            await self._mark_pod_not_ready(pod)

    async def _mark_pods_not_ready(self, node: Document) -> None:
        if ready_status_of(node) != "True":
            for pod in pods_on(self._pods, name_of(node)):
                await self._mark_pod_not_ready(pod)
        self._pods_to_mark_on.pop(name_of(node), None)

    async def _mark_pod_not_ready(self, pod: Document) -> None:
        # Parity: pkg/controller/util/node/controller_utils.go MarkPodsNotReady, v1.36.
        ready = condition_of(pod, "Ready")
        if ready is None or ready.get("status") == "False":
            return
        condition = {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": time_text(self.clock.now_s()),
        }
        patch = condition_patch(pod, condition)
        try:
            pod = await self.api.patch_status(PODS, pod, patch)
        except NotFoundError:
            return
        self.event(pod, "Warning", "NodeNotReady", "Node is not ready")
