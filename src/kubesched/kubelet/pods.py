"""The pods of all nodes: each brought to what its kubelet says of it.

Owns the runs of pods, when a status is written, and the end of pods that are deleted. What happens
to a pod is pod_runs', what its status says pod_status'.
Upstream: pkg/kubelet/{kubelet,pod_workers}.go, pkg/kubelet/status/status_manager.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.cached.documents import Document, key_of, uid_of
from kubesched.client.errors import ConflictError, NotFoundError
from kubesched.client.resources import NODES, PODS
from kubesched.kubelet.addresses import Addresses
from kubesched.kubelet.node_status import is_alive
from kubesched.kubelet.pod_runs import Happening, PodRun
from kubesched.kubelet.pod_status import Place, inputs_of, status_patch
from kubesched.kubelet.settings import Parts

_NODE: Final = "kubelet-node"
_SOON_S: Final = 2.0


@dataclass(slots=True)
class _Kept:
    """A pod that runs, and what was written of it."""

    run: PodRun
    written: tuple[object, ...] | None = None
    """What the last written status followed from."""
    put_right_s: float | None = None
    """When a status that somebody else has changed is put right."""

    def is_moving(self, now_s: float) -> bool:
        """Return whether it starts or ends, and will soon have done so."""
        if self.run.phase != "Pending" and not self.run.is_stopping:
            return False
        next_s = self.run.next_s()
        return next_s is not None and next_s <= now_s + _SOON_S


class Pods:
    """The pods of every node whose kubelet is alive."""

    def __init__(self, parts: Parts, addresses: Addresses) -> None:
        self._parts = parts
        self._addresses = addresses
        self._pods = parts.informers.of(PODS)
        self._nodes = parts.informers.of(NODES)
        self._kept: dict[str, _Kept] = {}
        self._moving: dict[str, None] = {}
        self.workers = parts.workers("kubelet pods", self._sync)
        self._pods.add_index(_NODE, _node_names)

    def start(self) -> None:
        """Work from now on."""
        self._pods.on_change(self._changed)
        self.workers.start(self._parts.settings.workers)

    def run_of(self, namespace: str, name: str) -> PodRun | None:
        """Return a pod as it runs; None if it does not."""
        pod = self._pods.get(f"{namespace}/{name}")
        kept = None if pod is None else self._kept.get(uid_of(pod))
        return None if kept is None else kept.run

    def wake(self, node_name: str) -> None:
        """Have a look at every pod of a node: it has come, or its kubelet lives again."""
        for pod in self._pods.by(_NODE, node_name):
            self.workers.queue.add(key_of(pod))

    def _changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            if old is not None:
                self._gone(uid_of(old))
        elif new["spec"].get("nodeName"):
            self.workers.queue.add(key_of(new))

    def _gone(self, uid: str) -> None:
        kept = self._kept.pop(uid, None)
        self._moving.pop(uid, None)
        self._addresses.release(uid)
        if kept is not None:
            kept.run.vanish(self._parts.clock.now_s())

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None:
            return
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if node is None or not is_alive(node):
            self._moving.pop(uid_of(pod), None)
            return
        now_s = self._parts.clock.now_s()
        kept = self._keep(pod, now_s)
        kept.run.observe(pod, now_s)
        self._tell(pod, kept.run.advance(now_s))
        if kept.is_moving(now_s):
            self._moving[kept.run.uid] = None
        else:
            self._moving.pop(kept.run.uid, None)
        await self._write(kept, node, now_s)
        if kept.run.is_stopped:
            await self._remove(kept.run)
            return
        self._plan(key, kept)

    def _keep(self, pod: Document, now_s: float) -> _Kept:
        uid = uid_of(pod)
        kept = self._kept.get(uid)
        if kept is None:
            kept = self._kept[uid] = _Kept(PodRun(pod, now_s, self._parts.settings))
        return kept

    async def _write(self, kept: _Kept, node: Document, now_s: float) -> None:
        run = kept.run
        follows_from = (run.version, *inputs_of(run.pod))
        is_news = follows_from != kept.written
        if is_news and self._is_passing(run):
            kept.written = follows_from
            return
        patch = status_patch(run, self._place(node, run.pod), now_s)
        if not patch:
            kept.written, kept.put_right_s = follows_from, None
            return
        if not is_news and not self._is_to_be_put_right(kept, now_s):
            return
        body = {"metadata": {"uid": run.uid}, "status": patch}
        try:
            run.pod = await self._parts.api.patch_status(PODS, dict(run.pod), body)
        except (NotFoundError, ConflictError):
            # It is gone, or its name is somebody else's by now; the watch will tell.
            return
        kept.written, kept.put_right_s = follows_from, None

    def _is_to_be_put_right(self, kept: _Kept, now_s: float) -> bool:
        """Return whether what somebody else wrote into a status has stood for long enough."""
        if kept.put_right_s is None:
            settings = self._parts.settings
            kept.put_right_s = now_s + settings.reconcile_s / settings.speed
        return now_s >= kept.put_right_s

    def _is_passing(self, run: PodRun) -> bool:
        """Return whether what there is to say is soon over, and there are many who say such."""
        if len(self._moving) <= self._parts.settings.shown_max:
            return False
        if run.is_stopped:
            return not run.pod["metadata"].get("finalizers")
        return run.uid in self._moving

    def _place(self, node: Document, pod: Any) -> Place:
        host_ip = self._addresses.node_ip(node)
        if pod["spec"].get("hostNetwork"):
            return Place([host_ip], [host_ip])
        return Place([host_ip], [self._addresses.pod_ip(node, pod)])

    async def _remove(self, run: PodRun) -> None:
        """Delete a pod for good: its containers have ended."""
        metadata = run.pod["metadata"]
        if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds") != 0:
            await self._parts.api.delete(PODS, dict(run.pod), grace_s=0)

    def _plan(self, key: str, kept: _Kept) -> None:
        """Come back when there is something to do again."""
        times = [one for one in (kept.run.next_s(), kept.put_right_s) if one is not None]
        if times:
            now_s = self._parts.clock.now_s()
            self.workers.queue.add_after(key, max(min(times) - now_s, 0.0))

    def _tell(self, pod: Document, happenings: list[Happening]) -> None:
        if not happenings:
            return
        recorder = self._parts.recorder("kubelet", pod["spec"]["nodeName"])
        for one in happenings:
            recorder.event(
                pod, kind=one.type, reason=one.reason, note=one.note, field_path=one.field_path
            )


def _node_names(pod: Document) -> Iterable[str]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
