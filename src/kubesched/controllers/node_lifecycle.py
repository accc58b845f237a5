"""Nodes that are silent, unwell or cordoned: their conditions, their taints, their pods.

Owns what becomes of one node. When it was last heard of is node_health's, what its zone allows
node_zones', and which taints it gets node_taints'. Never ends a pod: taint_eviction does.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go

Differs: upstream looks at every node every five seconds. Here a node is looked at when it changes
and when it has been silent for too long, so that a thousand idle nodes cost next to nothing.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final

from kubesched.client.cached.api import MERGE_PATCH
from kubesched.client.cached.documents import (
    Document,
    condition_of,
    key_of,
    name_of,
    namespace_of,
    time_text,
    uid_of,
    version_of,
)
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import LEASES, NODES, PODS
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.node_health import NodeHealth, silent_conditions
from kubesched.controllers.node_pods import index_by_node, node_of, pods_on
from kubesched.controllers.node_taints import (
    NOT_READY,
    UNREACHABLE,
    changed_taints,
    ends_pods,
    missing_labels,
    no_execute_key,
    ready_status_of,
)
from kubesched.controllers.node_zones import NodeZones, Outcome

_LEASE_NAMESPACE: Final = "kube-node-lease"
# No object has this name.
_ZONES: Final = ""
# How long zones may take to show whether a node is alone with its trouble; upstream's
# NodeEvictionPeriod is 100 ms.
_SETTLE_S: Final = 0.2
_MONITOR_PERIOD_S: Final = 5.0


class NodeLifecycleController(Controller):
    """Keeps conditions and taints of nodes; keys with a slash are pods, others nodes."""

    name: ClassVar[str] = "node-lifecycle-controller"
    component: ClassVar[str] = "node-controller"
    workers: ClassVar[int] = 8

    def __init__(self, parts: Parts) -> None:
        """Watch nodes, their leases and their pods."""
        super().__init__(parts)
        grace_s = parts.settings.node_grace_s
        self._period_s = min(_MONITOR_PERIOD_S, grace_s / 10)
        self._health = NodeHealth(
            grace_s=grace_s, startup_grace_s=grace_s * 1.2, period_s=self._period_s
        )
        self._zones = NodeZones(speed=parts.settings.speed)
        self._zones_changed = False
        self._is_all_lost = False
        self._known: dict[str, str] = {}
        self._unready_since_s: dict[str, float] = {}
        self._may_end_pods: dict[str, None] = {}
        self._with_pods_to_mark: dict[str, None] = {}
        self._nodes = parts.informers.of(NODES)
        self._pods = parts.informers.of(PODS)
        index_by_node(self._pods)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        parts.informers.of(LEASES).on_change(self._lease_changed)

    # -- what is heard ----------------------------------------------------------------------------

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            assert old is not None
            self._forget(old)
            return
        name, status = name_of(new), ready_status_of(new)
        now_s = self.clock.monotonic_s()
        self._health.see_node(new, now_s, self.clock.now_s())
        if self._zones.see(new):
            self._zones_changed = True
            self.queue.add(_ZONES)
        if status == "True":
            self._unready_since_s.pop(name, None)
            self._may_end_pods.pop(name, None)
        elif old is None or ready_status_of(old) != status:
            self._unready_since_s[name] = now_s
        self.queue.add(name)

    def _forget(self, node: Document) -> None:
        name = name_of(node)
        self._health.forget(name)
        if self._zones.forget(name):
            self._zones_changed = True
            self.queue.add(_ZONES)
        for by_name in (self._unready_since_s, self._may_end_pods, self._with_pods_to_mark):
            by_name.pop(name, None)
        if self._known.pop(name, None) is not None:
            note = f"Node {name} event: Removing Node {name} from Controller"
            self.event(node, "Normal", "RemovingNode", note)

    def _lease_changed(self, _old: Document | None, new: Document | None) -> None:
        if new is not None and namespace_of(new) == _LEASE_NAMESPACE:
            renewed = (new.get("spec") or {}).get("renewTime") or ""
            self._health.see_lease(name_of(new), renewed, self.clock.monotonic_s())

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is not None and node_of(new) and node_of(new) != node_of(old):
            node = self._nodes.get(node_of(new))
            if node is not None and ready_status_of(node) in ("False", "Unknown"):
                self.queue.add(key_of(new))

    # -- what follows -----------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Bring a node, or a pod on an unready one, to where it should be."""
        self._look_at_zones()
        if key == _ZONES:
            return
        if "/" in key:
            await self._sync_pod(key)
            return
        node = self._nodes.get(key)
        if node is None:
            return
        self._register(node)
        node = await self._with_silence(node)
        await self._write_taints(node)
        if key in self._with_pods_to_mark:
            await self._mark_pods(node)

    def _register(self, node: Document) -> None:
        name, uid = name_of(node), uid_of(node)
        if self._known.get(name) != uid:
            self._known[name] = uid
            note = f"Node {name} event: Registered Node {name} in Controller"
            self.event(node, "Normal", "RegisteredNode", note)

    async def run_beside(self) -> None:
        """Listen, so that it shows when we did not come to."""
        while True:
            self._health.listen(self.clock.monotonic_s())
            await self.clock.sleep(self._period_s)

    async def _with_silence(self, node: Document) -> Document:
        """Return a node as it is; if it is silent for too long, say so in its conditions first."""
        name, now_s = name_of(node), self.clock.monotonic_s()
        self._health.listen(now_s)
        left_s = self._health.left_s(node, now_s)
        if left_s > 0:
            # Nodes that fall silent together are found together, so that it shows how many.
            soon_s = now_s + min(left_s, self.parts.settings.node_grace_s)
            due_s = math.ceil(soon_s / self._period_s) * self._period_s
            self.queue.add_after(name, due_s - now_s)
            return node
        conditions = silent_conditions(node, time_text(self.clock.now_s()))
        if conditions is None:
            return node
        was_ready = ready_status_of(node) == "True"
        status = {**node["status"], "conditions": conditions}
        node = await self.api.update_status(NODES, {**node, "status": status})
        if was_ready:
            self._with_pods_to_mark[name] = None
            note = f"Node {name} status is now: NodeNotReady"
            self.event(node, "Normal", "NodeNotReady", note)
        return node

    async def _write_taints(self, node: Document) -> None:
        now = time_text(self.clock.now_s())
        taints = changed_taints(node, self._no_execute_of(node), now)
        labels = missing_labels(node)
        patch: Document = {"metadata": {"resourceVersion": version_of(node)}}
        if taints is not None:
            patch["spec"] = {"taints": taints}
        if labels:
            patch["metadata"]["labels"] = labels
        if taints is not None or labels:
            await self.api.patch(NODES, node, patch, content_type=MERGE_PATCH)

    def _no_execute_of(self, node: Document) -> str | None:
        """Return the taint that ends the pods of a node, if they may be ended now."""
        # Parity: processTaintBaseEviction, doNoExecuteTaintingPass, v1.36.
        status = ready_status_of(node)
        if status is None:
            return next((key for key in (NOT_READY, UNREACHABLE) if ends_pods(node, key)), None)
        wanted = no_execute_key(status)
        if wanted is None or self._is_all_lost:
            return None
        if ends_pods(node, NOT_READY, UNREACHABLE) or name_of(node) in self._may_end_pods:
            return wanted
        wait_s = self._wait_s(node)
        if wait_s is None:
            return None
        if wait_s > 0:
            self.queue.add_after(name_of(node), wait_s)
            return None
        self._may_end_pods[name_of(node)] = None
        return wanted

    def _wait_s(self, node: Document) -> float | None:
        now_s = self.clock.monotonic_s()
        settled_s = self._unready_since_s.get(name_of(node), now_s) + _SETTLE_S
        return settled_s - now_s if now_s < settled_s else self._zones.wait_s(node, now_s)

    def _look_at_zones(self) -> None:
        if not self._zones_changed:
            return
        self._zones_changed = False
        outcome = self._zones.look()
        if outcome is Outcome.SAME:
            return
        if outcome is Outcome.ALL_LOST:
            self.log.info(
                "Controller detected that all Nodes are not-Ready. Entering master disruption mode"
            )
            self._is_all_lost = True
            self._may_end_pods.clear()
        elif outcome is Outcome.SOME_BACK:
            self.log.info(
                "Controller detected that some Nodes are Ready. Exiting master disruption mode"
            )
            self._is_all_lost = False
            self._health.see_all(self.clock.monotonic_s())
        for node in self._nodes:
            if outcome is not Outcome.CHANGED or ready_status_of(node) != "True":
                self.queue.add(name_of(node))

    # -- pods -------------------------------------------------------------------------------------

    async def _sync_pod(self, key: str) -> None:
        """Have a pod that came to an unready node be not ready either."""
        pod = self._pods.get(key)
        node = self._nodes.get(node_of(pod))
        if pod is not None and node is not None and ready_status_of(node) in ("False", "Unknown"):
            await self._mark_pod(pod)

    async def _mark_pods(self, node: Document) -> None:
        if ready_status_of(node) != "True":
            for pod in pods_on(self._pods, name_of(node)):
                await self._mark_pod(pod)
        self._with_pods_to_mark.pop(name_of(node), None)

    async def _mark_pod(self, pod: Document) -> None:
        # Parity: pkg/controller/util/node/controller_utils.go MarkPodsNotReady, v1.36.
        ready = condition_of(pod, "Ready")
        if ready is None or ready.get("status") == "False":
            return
        condition = {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": time_text(self.clock.now_s()),
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
        try:
            pod = await self.api.patch_status(PODS, pod, patch)
        except NotFoundError:
            return
        self.event(pod, "Warning", "NodeNotReady", "Node is not ready")
