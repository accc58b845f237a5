"""Static pods and their mirror pods.

Owns the mirror pods: created when their node exists, recreated when deleted. Running them is
pod_workers'.
Upstream: pkg/kubelet/pod/mirror_client.go, pkg/kubelet/config/common.go
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.api.documents import Document, is_terminating, key_of, name_of, uid_of
from kubesched.api.times import micro_time_text
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import NODES, PODS
from kubesched.cluster.kubelet.logs import LogSource
from kubesched.cluster.kubelet.settings import Context

_HASH: Final = "kubernetes.io/config.hash"
_MIRROR: Final = "kubernetes.io/config.mirror"
_SEEN: Final = "kubernetes.io/config.seen"
_SOURCE: Final = "kubernetes.io/config.source"
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class StaticPod:
    """A pod that belongs to one node permanently."""

    node_name: str
    pod: Document
    log: LogSource | None

    @property
    def key(self) -> str:
        """Return the key of its mirror pod."""
        return key_of(self.pod)


class StaticPods:
    """The static pods of all nodes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pods = context.informers.of(PODS)
        self._nodes = context.informers.of(NODES)
        self._static_pods: dict[str, StaticPod] = {}
        self.workers = context.workers("kubelet static pods", self._sync)

    def start(self) -> None:
        """Start working."""
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)
        self.workers.start(1)
        for key in self._static_pods:
            self.workers.queue.add(key)

    def add(self, node_name: str, pod: Mapping[str, Any], log: LogSource | None) -> str:
        """Add a static pod to a node; return the key of its mirror pod."""
        static = StaticPod(node_name, self._mirror(node_name, pod), log)
        self._static_pods[static.key] = static
        self.workers.queue.add(static.key)
        return static.key

    def log_of(self, namespace: str, name: str) -> LogSource | None:
        """Return the log of a static pod; None if it has none of its own."""
        static = self._static_pods.get(f"{namespace}/{name}")
        return None if static is None else static.log

    def _mirror(self, node_name: str, pod: Mapping[str, Any]) -> Document:
        """Return the mirror pod.

        Parity: pkg/kubelet/config/common.go applyDefaults, v1.36: named after its node, and never
        evicted.
        """
        mirror: Document = copy.deepcopy(dict(pod))
        mirror.update(apiVersion="v1", kind="Pod")
        metadata = mirror.setdefault("metadata", {})
        metadata["name"] = f"{metadata['name']}-{node_name}"
        metadata.setdefault("namespace", "default")
        spec = mirror["spec"]
        spec["nodeName"] = node_name
        spec["tolerations"] = [
            *(spec.get("tolerations") or ()),
            {"operator": "Exists", "effect": "NoExecute"},
        ]
        digest = hashlib.md5(msgspec.json.encode(mirror, order="sorted"), usedforsecurity=False)
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            _HASH: digest.hexdigest(),
            _MIRROR: digest.hexdigest(),
            _SEEN: micro_time_text(self._context.clock.now_s()),
            _SOURCE: "file",
        }
        return mirror

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None and old is not None and key_of(old) in self._static_pods:
            self.workers.queue.add(key_of(old))

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if old is None and new is not None:
            for static in self._static_pods.values():
                if static.node_name == name_of(new):
                    self.workers.queue.add(static.key)

    async def _sync(self, key: str) -> None:
        static = self._static_pods.get(key)
        node = None if static is None else self._nodes.get(static.node_name)
        if static is None or node is None:
            return
        existing = self._pods.get(key)
        if existing is not None:
            annotations = existing["metadata"].get("annotations") or {}
            is_same = annotations.get(_HASH) == static.pod["metadata"]["annotations"][_HASH]
            if not is_same and not is_terminating(existing):
                await self._context.api.delete(PODS, existing, grace_s=0)
                self.workers.queue.add(key)
            return
        body = copy.deepcopy(static.pod)
        body["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": static.node_name,
                "uid": uid_of(node),
                "controller": True,
            }
        ]
        try:
            await self._context.api.create(PODS, body)
        except NotFoundError:
            # Its namespace does not exist yet.
            self.workers.queue.add_after(key, _RETRY_S)
