"""Placeholders for the controllers that a bare cluster lacks: kubelet and PV controller.

Owns the few writes that a scheduler waits for. They are the same for both sides.
Upstream: pkg/controller/volume/persistentvolume/pv_controller.go (bind, provision).
"""

from __future__ import annotations

from conformance.side_by_side.steps import Obj, path_of
from conformance.side_by_side.store import Store
from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.testing import Api

START_TIME = "side-by-side/start-time"
"""The annotation with a pod's start time: preemption reads it, and it must not be random."""
DYNAMIC_PROVISIONER = "dynamic.example.com"
FAILS_FIRST = "side-by-side/fails-first"
"""The annotation of claims whose first provisioning fails."""

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Placeholders:
    """Does the controllers' work; tracks completed work, which the store may not show yet."""

    def __init__(self, api: Api, store: Store) -> None:
        self._api = api
        self._store = store
        self._done: set[tuple[str, str]] = set()

    def work(self) -> bool:
        """Do pending work; return whether there was any."""
        before = len(self._done)
        self._run_pods()
        self._make_volumes_available()
        self._bind_claims()
        self._provision()
        return len(self._done) > before

    def _is_new(self, obj: Obj, task: str) -> bool:
        mark = (obj["metadata"]["uid"], task)
        if mark in self._done:
            return False
        self._done.add(mark)
        return True

    def _run_pods(self) -> None:
        for pod in self._store.objects("Pod").values():
            if not pod["spec"].get("nodeName") or not self._is_new(pod, "run"):
                continue
            started = pod["metadata"].get("annotations", {}).get(START_TIME)
            status = {"phase": "Running"} | ({"startTime": started} if started else {})
            self._write("Pod", pod, {"status": status}, "status")

    def _make_volumes_available(self) -> None:
        for volume in self._store.objects("PersistentVolume").values():
            is_pending = volume.get("status", {}).get("phase") in {None, "", "Pending"}
            if is_pending and not volume["spec"].get("claimRef") and self._is_new(volume, "free"):
                self._set_phase("PersistentVolume", volume, "Available")

    def _bind_claims(self) -> None:
        """Complete the binding of claims that reference a volume, or that a volume references."""
        volumes = self._store.objects("PersistentVolume")
        claims = self._store.objects("PersistentVolumeClaim")
        for volume in volumes.values():
            claimed = volume["spec"].get("claimRef") or {}
            claim = claims.get(f"{claimed.get('namespace')}/{claimed.get('name')}")
            if (
                claim is None
                or claimed.get("uid", claim["metadata"]["uid"]) != (claim["metadata"]["uid"])
            ):
                continue
            if claim["spec"].get("volumeName", volume["metadata"]["name"]) == (
                volume["metadata"]["name"]
            ) and self._is_new(claim, "bind"):
                self._bind(volume, claim)

    def _bind(self, volume: Obj, claim: Obj) -> None:
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim["metadata"]["namespace"],
            "name": claim["metadata"]["name"],
            "uid": claim["metadata"]["uid"],
        }
        self._write("PersistentVolume", volume, {"spec": {"claimRef": reference}})
        self._set_phase("PersistentVolume", volume, "Bound")
        annotations = {_BIND_COMPLETED: "yes"}
        if not claim["spec"].get("volumeName"):
            annotations[_BOUND_BY_CONTROLLER] = "yes"
        change = {
            "metadata": {"annotations": annotations},
            "spec": {"volumeName": volume["metadata"]["name"]},
        }
        self._write("PersistentVolumeClaim", claim, change)
        self._set_phase("PersistentVolumeClaim", claim, "Bound")

    def _set_phase(self, kind: str, obj: Obj, phase: str) -> None:
        self._write(kind, obj, {"status": {"phase": phase}}, "status")

    def _write(self, kind: str, obj: Obj, change: Obj, subresource: str = "") -> None:
        """Change an object, and wait until the store has it: later work depends on it."""
        metadata = obj["metadata"]
        path = path_of(kind, metadata.get("namespace", ""), metadata["name"], subresource)
        # The pod may have been preempted.
        answer = self._api.patch(path, change, MERGE_PATCH).must(200, 404)
        if answer.code == 200:
            self._store.wait_seen(kind, int(answer.json["metadata"]["resourceVersion"]))

    def _provision(self) -> None:
        for claim in self._store.objects("PersistentVolumeClaim").values():
            annotations = claim["metadata"].get("annotations", {})
            node_name = annotations.get(_SELECTED_NODE)
            if not node_name or claim["spec"].get("volumeName"):
                continue
            if FAILS_FIRST in annotations and self._is_new(claim, "fail"):
                self._give_up(claim)
            elif self._is_new(claim, f"provision {node_name}"):
                self._make_volume(claim, node_name)

    def _give_up(self, claim: Obj) -> None:
        """Make the scheduler choose again, like a provisioner."""
        change = {"metadata": {"annotations": {_SELECTED_NODE: None, FAILS_FIRST: None}}}
        self._write("PersistentVolumeClaim", claim, change)

    def _make_volume(self, claim: Obj, node_name: str) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"for-{metadata['name']}"},
            "spec": {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"],
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": DYNAMIC_PROVISIONER, "volumeHandle": metadata["name"]},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            },
        }
        # 409: the volume of an earlier claim of this name.
        self._api.post(path_of("PersistentVolume"), volume).must(201, 409)
