"""Volumes that are made for claims: who makes them, where they are, who removes them."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.controllers.volume_provisioning import (
    Provisioner,
    ProvisioningError,
    RescheduleError,
    Site,
    is_deleted_by_others,
    provisioned_volume,
    provisioner_of,
    why_not_deleted,
    with_deletion_finalizer,
)
from tests.unit.controllers.volume_documents import Document, a_claim, a_volume

EXTERNAL = Provisioner("disks.example.com", is_external=True)
IN_TREE = Provisioner("kubernetes.io/host-path", is_external=False)
ZONE = "topology.kubernetes.io/zone"


def a_class(**fields: Any) -> Document:
    return {"metadata": {"name": "fast"}, "provisioner": "disks.example.com", **fields}


def a_node(**labels: str) -> Document:
    known = {"kubernetes.io/hostname": "host-1", ZONE: "z1"}
    return {"metadata": {"name": "n1", "labels": {**known, **labels}}}


def allowed(*zones: str) -> list[Document]:
    return [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]


def made(storage_class: Document, site: Site, by: Provisioner = EXTERNAL) -> Document:
    claim = a_claim(storageClassName="fast", request="3Gi")
    return provisioned_volume(claim, storage_class, by, site)


def reachable(volume: Document) -> list[tuple[str, list[str]]]:
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return []
    terms = affinity["required"]["nodeSelectorTerms"]
    return [(one["key"], one["values"]) for term in terms for one in term["matchExpressions"]]


def test_a_made_volume_is_its_claims_from_the_start() -> None:
    volume = made(a_class(mountOptions=["ro"]), Site())
    assert volume["metadata"] == {
        "name": "pvc-uid-data",
        "annotations": {"pv.kubernetes.io/provisioned-by": "disks.example.com"},
    }
    spec = volume["spec"]
    assert spec["claimRef"]["uid"] == "uid-data"
    assert spec["capacity"] == {"storage": "3Gi"}
    assert spec["storageClassName"] == "fast"
    assert spec["persistentVolumeReclaimPolicy"] == "Delete"
    assert spec["mountOptions"] == ["ro"]
    assert "hostPath" in spec


def test_the_class_says_what_becomes_of_its_volumes() -> None:
    volume = made(a_class(reclaimPolicy="Retain"), Site())
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_a_directory_is_on_the_node_that_was_selected() -> None:
    assert reachable(made(a_class(), Site(a_node()))) == [("kubernetes.io/hostname", ["host-1"])]


def test_without_a_node_the_class_says_where() -> None:
    assert reachable(made(a_class(), Site())) == []
    assert reachable(made(a_class(allowedTopologies=allowed("z1", "z2")), Site())) == [
        (ZONE, ["z1", "z2"])
    ]


def test_of_what_the_class_allows_the_selected_node_decides() -> None:
    storage_class = a_class(allowedTopologies=[*allowed("z0"), *allowed("z1", "z2")])
    assert reachable(made(storage_class, Site(a_node()))) == [(ZONE, ["z1"])]


def test_a_node_the_class_does_not_allow_is_given_back() -> None:
    with pytest.raises(RescheduleError):
        made(a_class(allowedTopologies=allowed("z2")), Site(a_node()))


def test_a_driver_says_by_which_labels_its_volumes_are_found() -> None:
    volume = made(a_class(), Site(a_node(), is_csi=True, topology_keys=(ZONE, "unknown")))
    assert reachable(volume) == [(ZONE, ["z1"])]
    assert volume["spec"]["csi"] == {"driver": "disks.example.com", "volumeHandle": "pvc-uid-data"}
    assert reachable(made(a_class(), Site(a_node(), is_csi=True))) == []


def test_upstreams_own_provisioner_protects_what_it_made() -> None:
    volume = made(a_class(), Site(a_node()), IN_TREE)
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-controller"]
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert reachable(volume) == []
    assert why_not_deleted(volume) is None


def test_upstreams_own_provisioner_makes_no_block_devices() -> None:
    claim = a_claim(volumeMode="Block")
    with pytest.raises(ProvisioningError, match="does not support block volume provisioning"):
        provisioned_volume(claim, a_class(), IN_TREE, Site())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("disks.example.com", Provisioner("disks.example.com", is_external=True)),
        ("kubernetes.io/gce-pd", Provisioner("pd.csi.storage.gke.io", is_external=True)),
        ("kubernetes.io/host-path", Provisioner("kubernetes.io/host-path", is_external=False)),
    ],
)
def test_who_makes_volumes_of_a_class(name: str, expected: Provisioner) -> None:
    assert provisioner_of(a_class(provisioner=name)) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "kubernetes.io/no-provisioner",
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        ("kubernetes.io/nfs", "no provisionable volume plugin matched"),
    ],
)
def test_classes_whose_volumes_nobody_makes(name: str, text: str) -> None:
    with pytest.raises(ProvisioningError) as caught:
        provisioner_of(a_class(provisioner=name))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        pytest.param(
            a_volume(annotations={"pv.kubernetes.io/provisioned-by": "disks.example.com"}),
            None,
            id="who made it is there",
        ),
        pytest.param(a_volume(hostPath={"path": "/tmp/x"}), None, id="a scratch directory"),
        pytest.param(
            a_volume(hostPath={"path": "/data"}),
            "host_path deleter only supports /tmp/.+ but received provided /data",
            id="a directory that may matter",
        ),
        pytest.param(
            a_volume(nfs={"server": "s", "path": "/"}),
            'error getting deleter volume plugin for volume "disk": '
            "no deletable volume plugin matched",
            id="nobody deletes shares",
        ),
        pytest.param(
            a_volume(local={"path": "/mnt"}),
            'error getting deleter volume plugin for volume "disk": no volume plugin matched',
            id="nobody knows local disks",
        ),
    ],
)
def test_which_volumes_can_be_deleted(volume: Document, problem: str | None) -> None:
    assert why_not_deleted(volume) == problem


def test_a_csi_volume_that_was_written_down_waits_for_its_driver() -> None:
    source = {"driver": "d", "volumeHandle": "h"}
    assert is_deleted_by_others(a_volume(csi=source))
    made_by = {"pv.kubernetes.io/provisioned-by": "d"}
    assert not is_deleted_by_others(a_volume(csi=source, annotations=made_by))


def test_the_finalizer_goes_with_the_policy() -> None:
    made_by = {"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"}
    volume = a_volume(annotations=made_by, persistentVolumeReclaimPolicy="Delete")
    assert with_deletion_finalizer(volume) == ["kubernetes.io/pv-controller"]
    volume["metadata"]["finalizers"] = ["a", "kubernetes.io/pv-controller"]
    assert with_deletion_finalizer(volume) is None
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
    assert with_deletion_finalizer(volume) == ["a"]
    assert with_deletion_finalizer(a_volume(persistentVolumeReclaimPolicy="Delete")) is None
