"""VolumeBinding, DefaultBinder and evictions against an API server: embedded, or real.

The test calls the plugin directly, as user system:kube-scheduler, and acts as volume controller and
watch once for every second the plugin waits. The expected objects were read from kube-scheduler
v1.36.4 on the real server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from kubesched.api.decode import decode_as, decode_object
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.cache.cache import Cache
from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.config.types import VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import ApiCallError
from kubesched.framework.interface import Victims
from kubesched.framework.runtime.waiting_pods import PodsInPreBind, WaitingPodsMap
from kubesched.framework.status import SKIP, Status, error
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.tasks import Tasks
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.plugins.default_binder import DefaultBinder
from kubesched.plugins.volume_binding.plugin import VolumeBinding
from kubesched.scheduler.live_handle import LiveApiClient
from kubesched.scheduler.preemption import PreemptionExecutor
from kubesched.snapshot.pod_info import PodInfo
from kubesched.testing import Api, ApiServer, a_node, a_pod
from tests.unit.plugins.builders import statuses_of

Document = dict[str, Any]
_numbers = count(1)

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
MERGE = "application/merge-patch+json"
SELECTED = "volume.kubernetes.io/selected-node"


class World:
    """A cluster with one node on the server, and a plugin over a snapshot of it."""

    def __init__(self, api: Api, client: Client, tag: str) -> None:
        self.api = api
        self.tag = tag
        self.node, self.claim, self.volume = f"node-{tag}", f"claim-{tag}", f"pv-{tag}"
        self.client = LiveApiClient(client)
        self.cache = Cache()
        self.log = NullLog()
        self.clock = self
        self.metrics = None
        self.pods: dict[str, PodInfo] = {}
        self.each_second: Callable[[], None] = lambda: None
        self._seconds = 0.0

    # -- the handle of the plugin

    @property
    def snapshot(self) -> Any:
        return self.cache.snapshot()

    def informer(self, resource: str) -> Mapping[str, PodInfo]:
        assert resource == "pods"
        return self.pods

    def now_s(self) -> float:
        return self._seconds

    monotonic_s = now_s

    async def sleep(self, delay_s: float) -> None:
        self._seconds += delay_s
        self.each_second()
        self.read()

    # -- the objects

    def make(self, provisioner: str) -> None:
        """Create a node, a class, a claim and a pod that uses it."""
        self.api.post("/api/v1/nodes", a_node(self.node)).must()
        mode = "WaitForFirstConsumer"
        storage_class = {"provisioner": provisioner, "volumeBindingMode": mode}
        self.api.post(CLASSES, {"metadata": {"name": self.tag}, **storage_class}).must()
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.tag,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        named = {"name": self.claim, "annotations": {"kept": "yes"}, "labels": {"kept": "yes"}}
        self.api.post(CLAIMS, {"metadata": named, "spec": spec}).must()
        self.make_pod("user", [{"name": "v", "persistentVolumeClaim": {"claimName": self.claim}}])

    def make_volume(self) -> None:
        """Create a volume on the node, with fields that schedulers do not read."""
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self.node]}
        volume = {
            "metadata": {"name": self.volume, "annotations": {"kept": "yes"}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.tag,
                "persistentVolumeReclaimPolicy": "Delete",
                "mountOptions": ["noatime"],
                "local": {"path": "/disk", "fsType": "xfs"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
            },
        }
        created = self.api.post(VOLUMES, volume).must().json
        created["status"] = {"phase": "Available", "message": "kept", "reason": "kept"}
        self.api.put(f"{VOLUMES}/{self.volume}/status", created).must()

    def make_pod(self, name: str, volumes: list[Document]) -> PodInfo:
        self.api.post(PODS, a_pod(f"{name}-{self.tag}", volumes=volumes)).must()
        return self.pod(name)

    def pod(self, name: str = "user") -> PodInfo:
        document = self.fetch(f"{PODS}/{name}-{self.tag}")
        return self.cache.pod_info(decode_as(Pod, document))

    def fetch(self, path: str) -> Document:
        document: Document = self.api.get(path).must(200).json
        return document

    def change(self, path: str, patch: Document) -> None:
        self.api.patch(path, patch, content_type=MERGE).must(200)

    def read(self) -> None:
        """Load the objects of the API server, as watches would."""
        self.cache.add_node(decode_as(Node, self.fetch(f"/api/v1/nodes/{self.node}")))
        for path in (VOLUMES, CLAIMS, CLASSES):
            for item in self.fetch(path)["items"]:
                kind = {VOLUMES: "PersistentVolume", CLAIMS: "PersistentVolumeClaim"}
                version = "storage.k8s.io/v1" if path == CLASSES else "v1"
                named = {"apiVersion": version, "kind": kind.get(path, "StorageClass")}
                self.cache.put(decode_object({**item, **named}))

    def control(self) -> None:
        """Bind the claim to the volume that names it, as the volume controller does."""
        reference = self.fetch(f"{VOLUMES}/{self.volume}")["spec"].get("claimRef", {})
        if reference.get("name") == self.claim:
            annotations = {"pv.kubernetes.io/bind-completed": "yes"}
            bound = {"metadata": {"annotations": annotations}, "spec": {"volumeName": self.volume}}
            self.change(f"{CLAIMS}/{self.claim}", bound)

    # -- the attempt

    def reserved(self) -> tuple[VolumeBinding, CycleState, PodInfo]:
        self.read()
        plugin = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=5), self)  # type: ignore[arg-type]  # The used parts of a handle.
        state, pod, nodes = CycleState(), self.pod(), self.snapshot.all_nodes()
        self.pods[pod.key] = pod
        assert plugin.pre_filter(state, pod, nodes) is None
        assert statuses_of(plugin.filter_nodes(state, pod, nodes), nodes.names) == {}
        assert plugin.reserve(state, pod, self.node) is None
        return plugin, state, pod

    async def bind_volumes(self) -> Status | None:
        plugin, state, pod = self.reserved()
        assert plugin.pre_bind_pre_flight(state, pod, self.node)[1] is None
        status = await plugin.pre_bind(state, pod, self.node)
        if status is not None:
            plugin.unreserve(state, pod, self.node)
        return status


@asynccontextmanager
async def a_world(server: ApiServer, api: Api) -> AsyncIterator[World]:
    access = load_access(kubeconfig=str(server.kubeconfigs["system:kube-scheduler"]))
    client = Client(access, user_agent="kube-scheduler", clock=SystemClock(), log=NullLog())
    try:
        yield World(api, client, f"live{next(_numbers)}")
    finally:
        await client.close()


@pytest.fixture(autouse=True)
def emptied(api: Api) -> Iterator[None]:
    yield
    for path in (PODS, CLAIMS, VOLUMES, CLASSES, "/api/v1/nodes"):
        for item in api.get(path).must(200).json["items"]:
            name = item["metadata"]["name"]
            if "live" in name:
                api.patch(f"{path}/{name}", {"metadata": {"finalizers": None}}, content_type=MERGE)
                api.delete(f"{path}/{name}", query={"gracePeriodSeconds": 0})


def without_bookkeeping(document: Document) -> Document:
    """Return an object without managed fields and version."""
    noted = ("managedFields", "resourceVersion")
    kept = {key: value for key, value in document["metadata"].items() if key not in noted}
    return {**document, "metadata": kept}


def fields_of(document: Document, manager: str) -> list[tuple[str, Document]]:
    """Return the fields that a manager owns."""
    entries = document["metadata"]["managedFields"]
    return [(e["operation"], e["fieldsV1"]) for e in entries if e["manager"] == manager]


def test_a_volume_is_bound_to_its_claim_and_keeps_its_fields(
    api_server: ApiServer, api: Api
) -> None:
    async def main() -> None:
        async with a_world(api_server, api) as world:
            world.make("kubernetes.io/no-provisioner")
            world.make_volume()
            world.each_second = world.control
            before, claim = world.fetch(f"{VOLUMES}/{world.volume}"), f"{CLAIMS}/{world.claim}"
            version = world.fetch(claim)["metadata"]["resourceVersion"]
            assert await world.bind_volumes() is None
            after = world.fetch(f"{VOLUMES}/{world.volume}")
            reference = {
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": world.claim,
                "uid": world.fetch(claim)["metadata"]["uid"],
                "apiVersion": "v1",
                "resourceVersion": version,
            }
            expected = without_bookkeeping(before)
            mark = {"pv.kubernetes.io/bound-by-controller": "yes"}
            expected["metadata"]["annotations"] = {"kept": "yes", **mark}
            expected["spec"]["claimRef"] = reference
            assert without_bookkeeping(after) == expected
            [(operation, fields)] = fields_of(after, "kube-scheduler")
            assert operation == "Update"
            assert fields["f:metadata"] == {"f:annotations": {f"f:{key}": {} for key in mark}}
            assert list(fields["f:spec"]) == ["f:claimRef"]
            plugin, state, pod = world.reserved()
            assert plugin.pre_bind_pre_flight(state, pod, world.node)[1] == SKIP

    asyncio.run(main())


def test_a_claim_gets_its_node_and_keeps_its_fields(api_server: ApiServer, api: Api) -> None:
    async def main() -> None:
        async with a_world(api_server, api) as world:
            world.make("csi.example.com")
            claim = f"{CLAIMS}/{world.claim}"
            before = world.fetch(claim)
            # No provisioner creates the volume.
            status = await world.bind_volumes()
            assert status == error("binding volumes: context deadline exceeded")
            after, expected = world.fetch(claim), without_bookkeeping(before)
            expected["metadata"]["annotations"] = {"kept": "yes", SELECTED: world.node}
            assert without_bookkeeping(after) == expected
            assert fields_of(after, "kube-scheduler") == [
                ("Update", {"f:metadata": {"f:annotations": {f"f:{SELECTED}": {}}}})
            ]

    asyncio.run(main())


def test_a_failed_provisioner_removes_the_selected_node(api_server: ApiServer, api: Api) -> None:
    async def main() -> None:
        async with a_world(api_server, api) as world:
            world.make("csi.example.com")
            removal = {"metadata": {"annotations": {SELECTED: None}}}
            world.each_second = lambda: world.change(f"{CLAIMS}/{world.claim}", removal)
            text = f'binding volumes: provisioning failed for PVC "{world.claim}"'
            assert await world.bind_volumes() == error(text)

    asyncio.run(main())


def test_a_volume_changed_by_another_client_is_not_overwritten(
    api_server: ApiServer, api: Api
) -> None:
    async def main() -> None:
        async with a_world(api_server, api) as world:
            world.make("kubernetes.io/no-provisioner")
            world.make_volume()
            plugin, state, pod = world.reserved()
            path = f"{VOLUMES}/{world.volume}"
            world.change(path, {"metadata": {"labels": {"changed": "yes"}}})
            text = (
                f'Operation cannot be fulfilled on persistentvolumes "{world.volume}": the object '
                "has been modified; please apply your changes to the latest version and try again"
            )
            assert await plugin.pre_bind(state, pod, world.node) == error(text)
            assert "claimRef" not in world.fetch(path)["spec"]

    asyncio.run(main())


def test_a_missing_volume_is_reported(api_server: ApiServer, api: Api) -> None:
    async def main() -> None:
        async with a_world(api_server, api) as world:
            world.make("kubernetes.io/no-provisioner")
            world.make_volume()
            plugin, state, pod = world.reserved()
            path = f"{VOLUMES}/{world.volume}"
            world.change(path, {"metadata": {"finalizers": None}})
            api.delete(path).must(200)
            text = f'persistentvolumes "{world.volume}" not found'
            assert await plugin.pre_bind(state, pod, world.node) == error(text)

    asyncio.run(main())


def test_a_pod_is_bound_once(api_server: ApiServer, api: Api) -> None:
    async def main() -> None:
        async with a_world(api_server, api) as world:
            world.make("kubernetes.io/no-provisioner")
            binder = DefaultBinder(None, world)  # type: ignore[arg-type]  # Only the client is used.
            pod = world.pod()
            assert await binder.bind(CycleState(), pod, world.node) is None
            assert world.pod().node_name == world.node
            text = (
                f'Operation cannot be fulfilled on pods/binding "{pod.name}": pod {pod.name} is '
                f'already assigned to node "{world.node}"'
            )
            assert await binder.bind(CycleState(), pod, "elsewhere") == error(text)

    asyncio.run(main())


def test_get_update_and_missing_objects_of_any_kind(api_server: ApiServer, api: Api) -> None:
    async def main() -> None:
        async with a_world(api_server, api) as world:
            world.make("csi.example.com")
            classes = "storageclasses.v1.storage.k8s.io"
            assert (await world.client.get_object(classes, "", world.tag))["provisioner"] == (
                "csi.example.com"
            )
            claim = await world.client.get_object("persistentvolumeclaims", "default", world.claim)
            claim["metadata"]["labels"]["kept"] = "no"
            updated = await world.client.update_object("persistentvolumeclaims", claim)
            assert updated["metadata"]["labels"] == {"kept": "no"}
            with pytest.raises(ApiCallError) as rejected:
                await world.client.update_object("persistentvolumeclaims", claim)
            assert (rejected.value.code, rejected.value.reason) == (409, "Conflict")
            with pytest.raises(ApiCallError) as missing:
                await world.client.get_object(classes, "", "none")
            assert missing.value.is_not_found

    asyncio.run(main())


def test_a_victim_gets_a_condition_and_is_deleted(api_server: ApiServer, api: Api) -> None:
    async def main() -> None:
        async with a_world(api_server, api) as world:
            world.make("kubernetes.io/no-provisioner")
            victim, preemptor = world.pod(), world.make_pod("preemptor", [])
            await world.client.bind_pod(
                namespace="default", name=victim.name, uid=victim.uid, node_name=world.node
            )
            world.cache.add_node(decode_as(Node, world.fetch(f"/api/v1/nodes/{world.node}")))
            world.cache.add_pod(world.pod())
            bound = world.cache.bound_pod(victim.uid)
            assert bound is not None
            executor, events = an_executor(world)
            victims = Victims(world.node, (bound,))
            status = await executor.evict(
                "default-scheduler", "DefaultPreemption", preemptor, victims
            )
            assert status is None
            document = world.fetch(f"{PODS}/{victim.name}")
            assert "deletionTimestamp" in document["metadata"]
            conditions = {
                condition["type"]: condition for condition in document["status"]["conditions"]
            }
            assert set(conditions) == {"PodScheduled", "DisruptionTarget"}
            condition = conditions["DisruptionTarget"]
            assert condition.pop("lastTransitionTime")
            assert condition == {
                "type": "DisruptionTarget",
                "status": "True",
                "observedGeneration": 1,
                "lastProbeTime": None,
                "reason": "PreemptionByScheduler",
                "message": "default-scheduler: preempting to accommodate a higher priority pod",
            }
            assert events == [f"Preempted by pod {preemptor.uid} on node {world.node}"]
            api.delete(f"{PODS}/{victim.name}", query={"gracePeriodSeconds": 0}).must(200)
            assert await executor.evict("x", "DefaultPreemption", preemptor, victims) is None
            assert len(events) == 1

    asyncio.run(main())


def an_executor(world: World) -> tuple[PreemptionExecutor, list[str]]:
    notes: list[str] = []

    class Recorder:
        def event(self, regarding: Any, *, note: str, **fields: Any) -> None:
            notes.append(note)

    executor = PreemptionExecutor(
        client=world.client,
        recorder_of=lambda profile: Recorder(),
        activate=lambda pods: None,
        nominated_pods=lambda node_name: [],
        waiting_pods=WaitingPodsMap(),
        pods_in_pre_bind=PodsInPreBind(),
        bound_pod=world.cache.bound_pod,
        tasks=Tasks(),
        clock=SystemClock(),
        log=NullLog(),
        metrics=SchedulerMetrics(),
    )
    return executor, notes
