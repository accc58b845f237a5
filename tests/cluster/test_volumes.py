"""Binding, provisioning, protection and reclaiming of volumes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from tests.cluster.conftest import World

Document = dict[str, Any]

_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
# kube-controller-manager resyncs every 15 seconds.
_RESYNC_S = 40.0


def _claim(
    name: str, request: str = "1Gi", storage_class: str | None = "", **spec: Any
) -> Document:
    named = {} if storage_class is None else {"storageClassName": storage_class}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": request}},
            **named,
            **spec,
        },
    }


def _pod(name: str, claim: str = "", **spec: Any) -> Document:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.9"}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": volumes,
            **spec,
        },
    }


class _Storage:
    """Creates volumes and classes whose names contain the test's namespace."""

    def __init__(self, world: World) -> None:
        self._world = world

    def name(self, name: str) -> str:
        return f"{self._world.namespace}-{name}"

    def add_volume(self, name: str, capacity: str = "1Gi", **spec: Any) -> str:
        """Create a volume of a class without a provisioner."""
        full = self.name(name)
        source = {} if {"csi", "local", "nfs"} & spec.keys() else {"hostPath": {"path": "/tmp/x"}}
        self._world.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": full, "labels": {"test": self._world.namespace}},
                "spec": {
                    "capacity": {"storage": capacity},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": self.name("class"),
                    **source,
                    **spec,
                },
            }
        )
        return full

    def add_claim(self, name: str, request: str = "1Gi", **spec: Any) -> None:
        """Create a claim of the test's own class."""
        self._world.create(_claim(name, request, self.name("class"), **spec))

    @contextmanager
    def add_class(self, provisioner: str, **fields: Any) -> Iterator[str]:
        name = self.name("class")
        document = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, **fields.pop("metadata", {})},
            "provisioner": provisioner,
            **fields,
        }
        self._world.api.post(_CLASSES, document).must(201)
        try:
            yield name
        finally:
            self._world.api.delete(f"{_CLASSES}/{name}").must(200)

    def claim(self, name: str) -> Document:
        return self._world.get(self._world.path("persistentvolumeclaims", name))

    def volume(self, name: str) -> Document:
        return self._world.get(f"/api/v1/persistentvolumes/{name}")

    def claim_phase(self, name: str) -> str:
        return str(self.claim(name).get("status", {}).get("phase"))

    def volume_phase(self, name: str) -> str:
        return str(self.volume(name).get("status", {}).get("phase"))

    def until_claim(self, name: str, phase: str, timeout_s: float = 30.0) -> Document:
        condition = f"claim {name} is {phase}"
        self._world.until(lambda: self.claim_phase(name) == phase, condition, timeout_s)
        return self.claim(name)

    def until_volume(self, name: str, phase: str, timeout_s: float = 30.0) -> Document:
        condition = f"volume {name} is {phase}"
        self._world.until(lambda: self.volume_phase(name) == phase, condition, timeout_s)
        return self.volume(name)

    def delete_claim(self, name: str) -> None:
        self._world.api.delete(self._world.path("persistentvolumeclaims", name)).must(200)

    def delete_volume(self, name: str) -> None:
        self._world.api.delete(f"/api/v1/persistentvolumes/{name}").must(200)

    def until_event(self, name: str, reason: str, timeout_s: float = 30.0) -> str:
        """Wait for an event about an object of the namespace; return its message."""

        def notes() -> list[str]:
            return [
                str(one["message"])
                for one in self._world.items(self._world.path("events"))
                if one["involvedObject"]["name"] == name and one["reason"] == reason
            ]

        self._world.until(notes, f"an event {reason} about {name}", timeout_s)
        return notes()[0]


@pytest.fixture
def storage(world: World) -> Iterator[_Storage]:
    yield _Storage(world)
    query = {"labelSelector": f"test={world.namespace}"}
    world.api.delete("/api/v1/persistentvolumes", query=query).must(200)


# -- matching of claims and volumes ---------------------------------------------------------------


def test_a_claim_gets_the_smallest_matching_volume(world: World, storage: _Storage) -> None:
    names = [storage.add_volume(f"v{size}", f"{size}Gi") for size in (9, 2, 5)]
    for name in names:
        storage.until_volume(name, "Available")
    storage.add_claim("data", "1500Mi")
    claim = storage.until_claim("data", "Bound")
    small = names[1]
    assert claim["spec"]["volumeName"] == small
    assert claim["status"]["capacity"] == {"storage": "2Gi"}
    assert claim["status"]["accessModes"] == ["ReadWriteOnce"]
    assert {_BIND_COMPLETED, _BOUND_BY_CONTROLLER} <= claim["metadata"]["annotations"].keys()
    volume = storage.until_volume(small, "Bound")
    reference = volume["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == (world.namespace, "data")
    assert reference["uid"] == claim["metadata"]["uid"]
    assert volume["metadata"]["annotations"][_BOUND_BY_CONTROLLER] == "yes"
    assert storage.volume_phase(names[0]) == "Available"


def test_a_claim_waits_for_a_matching_volume(storage: _Storage) -> None:
    with storage.add_class("kubernetes.io/no-provisioner"):
        storage.until_volume(storage.add_volume("small", "1Gi"), "Available")
        storage.add_claim("data", "2Gi")
        storage.until_claim("data", "Pending")
        note = storage.until_event("data", "ProvisioningFailed")
        assert note == "no volume plugin matched name: kubernetes.io/no-provisioner"
        large = storage.add_volume("large", "2Gi")
        assert storage.until_claim("data", "Bound", _RESYNC_S)["spec"]["volumeName"] == large


def test_an_event_reports_a_claim_without_class_and_volume(world: World, storage: _Storage) -> None:
    world.create(_claim("data"))
    assert storage.until_event("data", "FailedBinding") == (
        "no persistent volumes available for this claim and no storage class is set"
    )


def test_an_event_reports_an_unknown_class(storage: _Storage) -> None:
    storage.add_claim("data")
    name = storage.name("class")
    assert storage.until_event("data", "ProvisioningFailed") == (
        f'storageclass.storage.k8s.io "{name}" not found'
    )


def test_a_volume_can_be_reserved_for_a_claim(world: World, storage: _Storage) -> None:
    storage.until_volume(storage.add_volume("better", "1Gi"), "Available")
    reference = {"namespace": world.namespace, "name": "data"}
    reserved = storage.add_volume("reserved", "7Gi", claimRef=reference)
    storage.until_volume(reserved, "Available")
    storage.add_claim("data")
    claim = storage.until_claim("data", "Bound")
    assert claim["spec"]["volumeName"] == reserved
    volume = storage.until_volume(reserved, "Bound")
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert _BOUND_BY_CONTROLLER not in volume["metadata"].get("annotations", {})


def test_a_claim_can_name_its_volume(storage: _Storage) -> None:
    storage.until_volume(storage.add_volume("better", "1Gi"), "Available")
    named = storage.add_volume("named", "7Gi")
    storage.until_volume(named, "Available")
    storage.add_claim("data", volumeName=named)
    claim = storage.until_claim("data", "Bound")
    assert claim["spec"]["volumeName"] == named
    assert _BOUND_BY_CONTROLLER not in claim["metadata"]["annotations"]


def test_an_event_reports_a_mismatched_volume(storage: _Storage) -> None:
    small = storage.add_volume("small", "1Gi")
    storage.until_volume(small, "Available")
    storage.add_claim("data", "2Gi", volumeName=small)
    assert storage.until_event("data", "VolumeMismatch") == (
        f'Cannot bind to requested volume "{small}": requested PV is too small'
    )
    assert storage.claim_phase("data") == "Pending"
    assert storage.volume_phase(small) == "Available"


def test_an_event_reports_a_volume_bound_to_another_claim(storage: _Storage) -> None:
    volume = storage.add_volume("one")
    storage.add_claim("first", volumeName=volume)
    storage.until_claim("first", "Bound", _RESYNC_S)
    storage.add_claim("second", volumeName=volume)
    assert storage.until_event("second", "FailedBinding") == (
        f'volume "{volume}" already bound to a different claim.'
    )
    assert storage.claim_phase("second") == "Pending"


def test_two_claims_never_get_the_same_volume(storage: _Storage) -> None:
    for number in range(3):
        storage.until_volume(storage.add_volume(f"v{number}"), "Available")
    for number in range(3):
        storage.add_claim(f"c{number}")
    claims = [storage.until_claim(f"c{number}", "Bound", _RESYNC_S) for number in range(3)]
    assert len({claim["spec"]["volumeName"] for claim in claims}) == 3


def test_a_claim_without_class_gets_the_default_class_when_there_is_one(
    world: World, storage: _Storage
) -> None:
    world.create(_claim("data", storage_class=None))
    storage.until_event("data", "FailedBinding")
    marked = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    with storage.add_class("kubernetes.io/no-provisioner", metadata=marked) as name:
        world.until(
            lambda: storage.claim("data")["spec"].get("storageClassName") == name,
            "the claim has the class",
            _RESYNC_S,
        )


# -- claims and volumes end -----------------------------------------------------------------------


def test_a_retained_volume_outlives_its_claim(storage: _Storage) -> None:
    volume = storage.add_volume("kept", persistentVolumeReclaimPolicy="Retain")
    storage.until_volume(volume, "Available")
    storage.add_claim("data")
    storage.until_claim("data", "Bound")
    storage.delete_claim("data")
    reference = storage.until_volume(volume, "Released")["spec"]["claimRef"]
    assert reference["name"] == "data", "it remembers whose it was"
    storage.add_claim("data")
    storage.until_event("data", "ProvisioningFailed")
    assert storage.claim_phase("data") == "Pending", "a new claim of that name does not get it"


def test_a_volume_is_deleted_with_its_claim_by_policy(storage: _Storage, world: World) -> None:
    volume = storage.add_volume("scratch", persistentVolumeReclaimPolicy="Delete")
    storage.until_volume(volume, "Available")
    storage.add_claim("data")
    storage.until_claim("data", "Bound")
    storage.delete_claim("data")
    world.until(lambda: not storage.volume(volume), "the volume is gone")


def test_a_volume_without_deleter_fails(storage: _Storage) -> None:
    source = {"path": "/data"}
    volume = storage.add_volume("data", persistentVolumeReclaimPolicy="Delete", hostPath=source)
    storage.until_volume(volume, "Available")
    storage.add_claim("data")
    storage.until_claim("data", "Bound")
    storage.delete_claim("data")
    status = storage.until_volume(volume, "Failed")["status"]
    assert status["message"] == (
        "host_path deleter only supports /tmp/.+ but received provided /data"
    )


def test_a_claim_whose_volume_is_deleted_is_lost(world: World, storage: _Storage) -> None:
    volume = storage.add_volume("lost")
    storage.until_volume(volume, "Available")
    storage.add_claim("data")
    storage.until_claim("data", "Bound")
    storage.delete_volume(volume)
    path = f"/api/v1/persistentvolumes/{volume}"
    assert "deletionTimestamp" in storage.volume(volume)["metadata"], "a bound volume is protected"
    world.api.patch(path, {"metadata": {"finalizers": None}}, MERGE_PATCH).must(200)
    claim = storage.until_claim("data", "Lost")
    assert "capacity" not in claim["status"]
    assert storage.until_event("data", "ClaimLost") == (
        "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    )


def test_a_deleted_volume_stays_until_its_claim_is_gone(world: World, storage: _Storage) -> None:
    volume = storage.add_volume("busy")
    storage.until_volume(volume, "Available")
    storage.add_claim("data")
    storage.until_claim("data", "Bound")
    storage.delete_volume(volume)
    assert storage.volume(volume)["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    storage.delete_claim("data")
    world.until(lambda: not storage.claim("data"), "the claim is gone")
    world.until(lambda: not storage.volume(volume), "the volume is gone")


@pytest.mark.programs
def test_a_deleted_claim_stays_until_no_pod_uses_it(world: World, storage: _Storage) -> None:
    storage.until_volume(storage.add_volume("busy"), "Available")
    storage.add_claim("data")
    storage.until_claim("data", "Bound")
    world.create(_pod("user", "data"))
    world.cluster.until_running(f"{world.namespace}/user")
    storage.delete_claim("data")
    metadata = storage.claim("data")["metadata"]
    assert metadata["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert "Terminating" in world.kubectl("get", "pvc", "data")
    world.api.delete(world.path("pods", "user")).must(200)
    world.until(lambda: not storage.claim("data"), "the claim is gone")


# -- claims that wait for pods --------------------------------------------------------------------


def _local(node: str) -> Document:
    """Return the source and affinity of a local volume."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    terms = [{"matchExpressions": [expression]}]
    return {
        "local": {"path": "/mnt/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }


def test_a_pod_is_scheduled_where_its_volume_is(world: World, storage: _Storage) -> None:
    home = world.nodes[-1]
    with storage.add_class(
        "kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
    ):
        # The class is known now: a claim of an unknown class would not wait.
        disk = storage.add_volume("disk", **_local(home))
        storage.until_volume(disk, "Available")
        storage.add_claim("data")
        assert storage.until_event("data", "WaitForFirstConsumer") == (
            "waiting for first consumer to be created before binding"
        )
        assert storage.claim_phase("data") == "Pending"
        world.create(_pod("user", "data"))
        assert world.cluster.until_bound(f"{world.namespace}/user") == home
        assert storage.until_claim("data", "Bound")["spec"]["volumeName"] == disk
        world.cluster.until_running(f"{world.namespace}/user")


def test_a_volume_is_provisioned_for_the_first_consumer(world: World, storage: _Storage) -> None:
    with storage.add_class(
        "kubernetes.io/host-path", volumeBindingMode="WaitForFirstConsumer"
    ) as name:
        storage.add_claim("data", "3Gi")
        storage.until_event("data", "WaitForFirstConsumer")
        world.create(_pod("user", "data"))
        world.cluster.until_running(f"{world.namespace}/user")
        claim = storage.until_claim("data", "Bound")
        uid, annotations = claim["metadata"]["uid"], claim["metadata"]["annotations"]
        assert claim["spec"]["volumeName"] == f"pvc-{uid}"
        assert annotations["volume.kubernetes.io/selected-node"] in world.nodes
        assert annotations["volume.kubernetes.io/storage-provisioner"] == "kubernetes.io/host-path"
        volume = storage.until_volume(f"pvc-{uid}", "Bound")
        assert volume["spec"]["storageClassName"] == name
        assert volume["spec"]["capacity"] == {"storage": "3Gi"}
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        assert storage.until_event("data", "ProvisioningSucceeded") == (
            f"Successfully provisioned volume pvc-{uid} using kubernetes.io/host-path"
        )
        world.api.delete(world.path("pods", "user")).must(200)
        storage.delete_claim("data")
        world.until(lambda: not storage.volume(f"pvc-{uid}"), "the volume is gone", _RESYNC_S)


def test_a_volume_is_provisioned_immediately(world: World, storage: _Storage) -> None:
    with storage.add_class("kubernetes.io/host-path", reclaimPolicy="Retain"):
        storage.add_claim("data")
        claim = storage.until_claim("data", "Bound")
        name = claim["spec"]["volumeName"]
        storage.delete_claim("data")
        storage.until_volume(name, "Released")
        storage.delete_volume(name)
        world.until(lambda: not storage.volume(name), "the volume is gone")


def test_external_provisioners_are_simulated(world: World, storage: _Storage) -> None:
    with storage.add_class("disks.example.com", volumeBindingMode="WaitForFirstConsumer"):
        storage.add_claim("data")
        world.create(_pod("user", "data"))
        assert storage.until_event("data", "ExternalProvisioning") == (
            "Waiting for a volume to be created either by the external provisioner "
            "'disks.example.com' or manually by the system administrator. If volume creation is "
            "delayed, please verify that the provisioner is running and correctly registered."
        )
        if world.controllers == "real":
            # No provisioner has this name.
            return
        world.cluster.until_running(f"{world.namespace}/user")
        node = world.cluster.node_of(f"{world.namespace}/user")
        volume = storage.volume(storage.claim("data")["spec"]["volumeName"])
        made_by = volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"]
        assert made_by == "disks.example.com"
        terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
                ]
            }
        ]


def test_an_ephemeral_volume_gets_a_claim(world: World, storage: _Storage) -> None:
    with storage.add_class(
        "kubernetes.io/host-path", volumeBindingMode="WaitForFirstConsumer"
    ) as name:
        template = {
            "metadata": {"labels": {"for": "scratch"}},
            "spec": _claim("", "1Gi", name)["spec"],
        }
        volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
        [pod] = world.create(_pod("user", volumes=[volume]))
        world.cluster.until_running(f"{world.namespace}/user")
        claim = storage.until_claim("user-scratch", "Bound")
        assert claim["metadata"]["labels"] == {"for": "scratch"}
        [owner] = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", pod["metadata"]["uid"])
        assert owner["controller"]
        world.api.delete(world.path("pods", "user")).must(200)
        world.until(lambda: not storage.claim("user-scratch"), "the claim went with the pod")
