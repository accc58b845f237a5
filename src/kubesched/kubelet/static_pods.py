"""Pods that a kubelet has without the API server's say, and their images there.

Owns the mirror pods: made when their node is there, made again when somebody deletes them. That
they run is pods'.
Upstream: pkg/kubelet/pod/mirror_client.go, pkg/kubelet/config/common.go
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.client.cached.documents import Document, is_terminating, key_of, name_of, uid_of
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import NODES, PODS
from kubesched.kubelet.logs import LogSource
from kubesched.kubelet.settings import Parts
from kubesched.objects.times import micro_time_text

_HASH: Final = "kubernetes.io/config.hash"
_MIRROR: Final = "kubernetes.io/config.mirror"
_SEEN: Final = "kubernetes.io/config.seen"
_SOURCE: Final = "kubernetes.io/config.source"
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class StaticPod:
    """A pod that belongs to one node for good."""

    node_name: str
    pod: Document
    log: LogSource | None

    @property
    def key(self) -> str:
        """Return `namespace/name` of its mirror."""
        return key_of(self.pod)


class StaticPods:
    """The static pods of all nodes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._pods = parts.informers.of(PODS)
        self._nodes = parts.informers.of(NODES)
        self._known: dict[str, StaticPod] = {}
        self.workers = parts.workers("kubelet static pods", self._sync)

    def start(self) -> None:
        """Work from now on."""
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)
        self.workers.start(1)
        for key in self._known:
            self.workers.queue.add(key)

    def add(self, node_name: str, pod: Mapping[str, Any], log: LogSource | None) -> str:
        """Have a pod on a node from now on; return `namespace/name` of its mirror."""
        static = StaticPod(node_name, self._mirror(node_name, pod), log)
        self._known[static.key] = static
        self.workers.queue.add(static.key)
        return static.key

    def log_of(self, namespace: str, name: str) -> LogSource | None:
        """Return the log of a static pod; None if it is none, or has none of its own."""
        static = self._known.get(f"{namespace}/{name}")
        return None if static is None else static.log

    def _mirror(self, node_name: str, pod: Mapping[str, Any]) -> Document:
        """Return the pod as the API server shows it.

        Parity: pkg/kubelet/config/common.go applyDefaults, v1.36: named after its node, and
        nothing evicts it.
        """
        made: Document = copy.deepcopy(dict(pod))
        made.update(apiVersion="v1", kind="Pod")
        metadata = made.setdefault("metadata", {})
        metadata["name"] = f"{metadata['name']}-{node_name}"
        metadata.setdefault("namespace", "default")
        spec = made["spec"]
        spec["nodeName"] = node_name
        spec["tolerations"] = [
            *(spec.get("tolerations") or ()),
            {"operator": "Exists", "effect": "NoExecute"},
        ]
        digest = hashlib.md5(msgspec.json.encode(made, order="sorted"), usedforsecurity=False)
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            _HASH: digest.hexdigest(),
            _MIRROR: digest.hexdigest(),
            _SEEN: micro_time_text(self._parts.clock.now_s()),
            _SOURCE: "file",
        }
        return made

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None and old is not None and key_of(old) in self._known:
            self.workers.queue.add(key_of(old))

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if old is None and new is not None:
            for static in self._known.values():
                if static.node_name == name_of(new):
                    self.workers.queue.add(static.key)

    async def _sync(self, key: str) -> None:
        static = self._known.get(key)
        node = None if static is None else self._nodes.get(static.node_name)
        if static is None or node is None:
            return
        there = self._pods.get(key)
        if there is not None:
            annotations = there["metadata"].get("annotations") or {}
            is_same = annotations.get(_HASH) == static.pod["metadata"]["annotations"][_HASH]
            if not is_same and not is_terminating(there):
                await self._parts.api.delete(PODS, there, grace_s=0)
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
            await self._parts.api.create(PODS, body)
        except NotFoundError:
            # Its namespace is still to come.
            self.workers.queue.add_after(key, _RETRY_S)
