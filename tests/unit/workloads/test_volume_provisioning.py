"""Dynamic provisioning: provisioners, and the location of new volumes."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.workloads.volume_provisioning import (
    Provisioner,
    ProvisioningError,
    RescheduleError,
    Site,
    provisioned_volume,
    provisioner_of,
)
from tests.unit.cluster.controllers.volume_documents import Document, a_claim

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
    return [
        (expression["key"], expression["values"])
        for term in terms
        for expression in term["matchExpressions"]
    ]


def test_a_provisioned_volume_is_bound_to_its_claim() -> None:
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


def test_the_class_sets_the_reclaim_policy() -> None:
    volume = made(a_class(reclaimPolicy="Retain"), Site())
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_a_directory_is_on_the_selected_node() -> None:
    assert reachable(made(a_class(), Site(a_node()))) == [("kubernetes.io/hostname", ["host-1"])]


def test_without_a_node_the_allowed_topologies_apply() -> None:
    assert reachable(made(a_class(), Site())) == []
    assert reachable(made(a_class(allowedTopologies=allowed("z1", "z2")), Site())) == [
        (ZONE, ["z1", "z2"])
    ]


def test_the_selected_node_picks_among_allowed_topologies() -> None:
    storage_class = a_class(allowedTopologies=[*allowed("z0"), *allowed("z1", "z2")])
    assert reachable(made(storage_class, Site(a_node()))) == [(ZONE, ["z1"])]


def test_a_node_outside_the_allowed_topologies_is_rejected() -> None:
    with pytest.raises(RescheduleError):
        made(a_class(allowedTopologies=allowed("z2")), Site(a_node()))


def test_a_csi_volume_has_the_topology_keys_of_its_driver() -> None:
    volume = made(a_class(), Site(a_node(), is_csi=True, topology_keys=(ZONE, "unknown")))
    assert reachable(volume) == [(ZONE, ["z1"])]
    assert volume["spec"]["csi"] == {"driver": "disks.example.com", "volumeHandle": "pvc-uid-data"}
    assert reachable(made(a_class(), Site(a_node(), is_csi=True))) == []


def test_the_in_tree_provisioner_adds_a_finalizer() -> None:
    volume = made(a_class(), Site(a_node()), IN_TREE)
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-controller"]
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert reachable(volume) == []


def test_the_in_tree_provisioner_rejects_block_volumes() -> None:
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
def test_the_provisioner_of_a_class(name: str, expected: Provisioner) -> None:
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
def test_classes_without_a_provisioner(name: str, text: str) -> None:
    with pytest.raises(ProvisioningError) as caught:
        provisioner_of(a_class(provisioner=name))
    assert str(caught.value) == text
