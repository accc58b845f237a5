"""Decoding of documents into structs."""

import json
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest

from kubesched.api.decode import STRUCTS, decode_as, decode_object
from kubesched.api.meta import KubeResource
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.api.storage import PersistentVolume
from kubesched.api.wire import NIL_STRINGS

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
    "spec": {
        "nodeName": "n1",
        "priority": -5,
        "hostUsers": False,
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "command": ["not", "read"],
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}],
                "resources": {"requests": {"cpu": "100m", "memory": 1024, "x.io/y": 1.5}},
            }
        ],
        "volumes": [
            {"name": "a", "awsElasticBlockStore": {"volumeID": "vol-1"}},
            {"name": "b", "gcePersistentDisk": {"pdName": "pd", "fsType": "ext4"}},
            {"name": "c", "azureDisk": {"diskName": "d", "diskURI": "u"}},
            {"name": "d", "iscsi": {"targetPortal": "t", "iqn": "i", "lun": 3}},
            {"name": "e", "vsphereVolume": {"volumePath": "p", "storagePolicyID": "s"}},
            {"name": "f", "downwardAPI": {"items": []}},
        ],
    },
    "status": {"phase": "Running", "hostIP": "h", "podIP": "p"},
}


@pytest.mark.parametrize(
    "data",
    [json.dumps(POD).encode(), json.dumps(POD), POD],
    ids=["as bytes", "as text", "as a mapping"],
)
def test_pod_is_decoded(data: Any) -> None:
    pod = decode_object(data)
    assert isinstance(pod, Pod)
    assert pod.key == "default/web-1"
    assert repr(pod) == "Pod(default/web-1)"
    assert pod.metadata.labels == {"app": "web"}
    assert (pod.spec.node_name, pod.spec.priority, pod.spec.host_users) == ("n1", -5, False)
    container = pod.spec.containers[0]
    assert container.ports[0].host_ip == "10.0.0.1"
    assert container.resources.requests == {"cpu": "100m", "memory": 1024, "x.io/y": 1.5}
    assert (pod.status.host_ip, pod.status.pod_ip) == ("h", "p")


def test_irregular_json_names() -> None:
    pod = decode_as(Pod, POD)
    aws, gce, azure, iscsi, vsphere, downward = pod.spec.volumes
    assert aws.aws_elastic_block_store is not None
    assert aws.aws_elastic_block_store.volume_id == "vol-1"
    assert gce.gce_persistent_disk is not None
    assert gce.gce_persistent_disk.pd_name == "pd"
    assert azure.azure_disk is not None
    assert azure.azure_disk.disk_uri == "u"
    assert iscsi.iscsi is not None
    assert iscsi.iscsi.iqn == "i"
    assert vsphere.vsphere_volume is not None
    assert vsphere.vsphere_volume.volume_path == "p"
    assert downward.downward_api is not None


def test_absent_fields_have_gos_zero_value() -> None:
    pod = decode_as(Pod, b"{}")
    assert pod == Pod()
    assert pod.spec.priority is None
    assert pod.spec.affinity is None
    assert pod.spec.containers == ()
    assert pod.metadata.labels == {}
    assert pod.metadata.deletion_timestamp is None


def test_every_kind_is_found_by_version_and_name() -> None:
    assert len(STRUCTS) == 16
    for (api_version, kind), cls in STRUCTS.items():
        document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
        obj = decode_object(document)
        assert type(obj) is cls
        assert repr(obj) == f"{kind}(x)"


def test_structs_are_immutable_and_encode_to_their_source() -> None:
    pod = decode_as(Pod, POD)
    with pytest.raises(AttributeError):
        pod.spec = pod.spec  # type: ignore[misc]  # The point of the test.
    assert decode_as(Pod, msgspec.json.encode(pod)) == pod
    assert msgspec.json.encode(Pod()) == b"{}"


def test_null_is_absent_in_fields_and_zero_in_lists_and_maps() -> None:
    pod = decode_as(
        Pod,
        b'{"metadata": {"name": "x", "labels": {"a": null}, "finalizers": [null], "uid": null},'
        b' "spec": {"priority": null, "nodeName": null, "tolerations": null, "containers": [null,'
        b' {"resources": {"requests": {"cpu": null}, "limits": null}}]}, "status": null}',
    )
    assert pod.metadata.labels == {"a": ""}
    assert pod.metadata.finalizers == ("",)
    assert (pod.metadata.uid, pod.spec.priority, pod.spec.node_name) == ("", None, "")
    assert pod.spec.containers[0].name == ""
    assert pod.spec.containers[1].resources.requests == {"cpu": "0"}
    assert pod.spec.containers[1].resources.limits == {}
    assert pod.status == Pod().status


def test_a_null_kind_is_a_missing_kind() -> None:
    node = decode_object(b'{"apiVersion": "v1", "kind": "Node", "metadata": null, "spec": null}')
    assert node == Node()


def test_absent_values_differ_from_an_empty_list() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a"}, {"values": []}]}]}
    volume = decode_as(PersistentVolume, {"spec": {"nodeAffinity": {"required": required}}})
    assert volume.spec.node_affinity is not None
    assert volume.spec.node_affinity.required is not None
    absent, empty = volume.spec.node_affinity.required.node_selector_terms[0].match_expressions
    assert absent.values is NIL_STRINGS
    assert empty.values is not NIL_STRINGS
    assert absent.values == empty.values == ()


def test_times_and_keys_of_a_yaml_reader_are_accepted() -> None:
    pod = decode_as(
        Pod,
        {
            "metadata": {
                "creationTimestamp": datetime(2024, 5, 2, 8, 0, tzinfo=UTC),
                "deletionTimestamp": datetime(2024, 5, 2, 8, 0, 1),  # noqa: DTZ001  # As read.
                "labels": {2: "a", True: "b"},
            },
            "status": {"startTime": date(2024, 5, 2)},
        },
    )
    assert pod.metadata.creation_timestamp == "2024-05-02T08:00:00Z"
    assert pod.metadata.deletion_timestamp == "2024-05-02T08:00:01Z"
    assert pod.status.start_time == "2024-05-02"
    assert pod.metadata.labels == {"2": "a", "true": "b"}


def test_cluster_scoped_kinds_are_marked() -> None:
    cluster_wide = {cls.kind for cls in STRUCTS.values() if not cls.namespaced}
    assert cluster_wide == {
        "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver",
        "VolumeAttachment", "PriorityClass",
    }  # fmt: skip
    assert all(issubclass(cls, KubeResource) for cls in STRUCTS.values())
