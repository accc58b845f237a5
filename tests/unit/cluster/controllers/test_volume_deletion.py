"""Deletion of released volumes."""

from __future__ import annotations

import pytest

from kubesched.cluster.controllers.persistent_volume.deletion import (
    deletion_problem,
    is_deleted_externally,
    with_deletion_finalizer,
)
from tests.unit.cluster.controllers.volume_documents import Document, a_volume


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        pytest.param(
            a_volume(annotations={"pv.kubernetes.io/provisioned-by": "disks.example.com"}),
            None,
            id="its provisioner is present",
        ),
        pytest.param(
            a_volume(
                annotations={"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"},
                hostPath={"path": "/tmp/hostpath_pv/x"},
            ),
            None,
            id="provisioned in-tree",
        ),
        pytest.param(a_volume(hostPath={"path": "/tmp/x"}), None, id="a scratch directory"),
        pytest.param(
            a_volume(hostPath={"path": "/data"}),
            "host_path deleter only supports /tmp/.+ but received provided /data",
            id="a directory outside /tmp",
        ),
        pytest.param(
            a_volume(nfs={"server": "s", "path": "/"}),
            'error getting deleter volume plugin for volume "disk": '
            "no deletable volume plugin matched",
            id="no plugin deletes shares",
        ),
        pytest.param(
            a_volume(local={"path": "/mnt"}),
            'error getting deleter volume plugin for volume "disk": no volume plugin matched',
            id="no plugin knows local disks",
        ),
    ],
)
def test_deletable_volumes(volume: Document, problem: str | None) -> None:
    assert deletion_problem(volume) == problem


def test_a_handwritten_csi_volume_waits_for_its_driver() -> None:
    source = {"driver": "d", "volumeHandle": "h"}
    assert is_deleted_externally(a_volume(csi=source))
    made_by = {"pv.kubernetes.io/provisioned-by": "d"}
    assert not is_deleted_externally(a_volume(csi=source, annotations=made_by))


def test_the_finalizer_depends_on_the_reclaim_policy() -> None:
    made_by = {"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"}
    volume = a_volume(annotations=made_by, persistentVolumeReclaimPolicy="Delete")
    assert with_deletion_finalizer(volume) == ["kubernetes.io/pv-controller"]
    volume["metadata"]["finalizers"] = ["a", "kubernetes.io/pv-controller"]
    assert with_deletion_finalizer(volume) is None
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
    assert with_deletion_finalizer(volume) == ["a"]
    assert with_deletion_finalizer(a_volume(persistentVolumeReclaimPolicy="Delete")) is None
