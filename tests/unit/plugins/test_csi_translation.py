"""In-tree volumes are translated to the CSI volumes that replace them."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.decode import decode_as
from kubesched.api.volumes import Volume
from kubesched.plugins.csi_translation import (
    MIGRATED_PLUGIN_NAMES,
    PLUGIN_BY_NAME,
    CSIVolume,
    plugin_of,
)
from tests.unit.plugins.volume_objects import a_volume

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
GKE_ZONE = "topology.gke.io/zone"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
GCE = {"gcePersistentDisk": {"pdName": "disk"}}


def translate(labels: dict[str, str] | None = None, **spec: Any) -> CSIVolume:
    volume = a_volume(labels=labels, **spec)
    plugin = plugin_of(volume.spec)
    assert plugin is not None
    return plugin.translate(volume)


def affinity(*terms: list[tuple[str, list[str]]]) -> dict[str, Any]:
    return {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": k, "operator": "In", "values": v} for k, v in term]}
                for term in terms
            ]
        }
    }


def shown(translated: CSIVolume) -> list[list[tuple[str, list[str]]]]:
    assert translated.node_affinity is not None
    assert translated.node_affinity.required is not None
    return [
        [(e.key, list(e.values)) for e in term.match_expressions]
        for term in translated.node_affinity.required.node_selector_terms
    ]


@pytest.mark.parametrize(
    ("labels", "spec", "driver", "handle"),
    [
        pytest.param(
            {}, EBS, "ebs.csi.aws.com", "vol-1", id="an EBS volume keeps a bare identifier"
        ),
        pytest.param(
            {},
            {"awsElasticBlockStore": {"volumeID": "aws://us-west-2b/vol-02399"}},
            "ebs.csi.aws.com",
            "vol-02399",
            id="the zone of an EBS URL is dropped",
        ),
        pytest.param(
            {},
            {"awsElasticBlockStore": {"volumeID": "aws:///vol-02399"}},
            "ebs.csi.aws.com",
            "vol-02399",
            id="an EBS URL needs no zone",
        ),
        pytest.param(
            {},
            GCE,
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk",
            id="a GCE disk without a zone label has none",
        ),
        pytest.param(
            {ZONE: "us-east1-a"},
            GCE,
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/us-east1-a/disks/disk",
            id="a GCE disk is named by its zone",
        ),
        pytest.param(
            {BETA_ZONE: "us-east1-a__us-east1-c", ZONE: "other"},
            GCE,
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/us-east1/disks/disk",
            id="a GCE disk of two zones by its region, the older label first",
        ),
        pytest.param(
            {},
            {"cinder": {"volumeID": "c"}},
            "cinder.csi.openstack.org",
            "c",
            id="a Cinder volume keeps its identifier",
        ),
        pytest.param(
            {},
            {"azureDisk": {"diskName": "d", "diskURI": "/disks/d", "kind": "managed"}},
            "disk.csi.azure.com",
            "/disks/d",
            id="an Azure disk is its URI, if managed in any spelling",
        ),
        pytest.param(
            {},
            {
                "azureFile": {"secretName": "azure-storage-account-acc-secret", "shareName": "s"},
                "claimRef": {"namespace": "ns", "name": "claim"},
            },
            "file.csi.azure.com",
            "#acc#s#pv#ns",
            id="an Azure share takes the claim's namespace",
        ),
        pytest.param(
            {},
            {"vsphereVolume": {"volumePath": "[ds] x.vmdk"}},
            "csi.vsphere.vmware.com",
            "[ds] x.vmdk",
            id="a vSphere volume is its path",
        ),
        pytest.param(
            {},
            {"portworxVolume": {"volumeID": "p"}},
            "pxd.portworx.com",
            "p",
            id="a Portworx volume keeps its identifier",
        ),
    ],
)
def test_a_volume_gets_the_drivers_handle(
    labels: dict[str, str], spec: dict[str, Any], driver: str, handle: str
) -> None:
    translated = translate(labels, **spec)
    assert (translated.driver, translated.volume_handle) == (driver, handle)


@pytest.mark.parametrize(
    ("labels", "spec", "text"),
    [
        pytest.param(
            {},
            {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}},
            "kind(Dedicated) is not supported in csi migration",
            id="an unmanaged Azure disk",
        ),
        pytest.param(
            {},
            {"awsElasticBlockStore": {"volumeID": "aws://us-west-2b/disk"}},
            "failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://us-west-2b/disk)",
            id="an EBS URL of something else",
        ),
        pytest.param(
            {ZONE: "us-east1-a__us-west1-a"},
            GCE,
            "failed to get region from zones: multiple or no regions gotten from zones, "
            "got: map[us-east1:{} us-west1:{}]",
            id="a GCE disk of two regions",
        ),
        pytest.param(
            {ZONE: "here__there"},
            GCE,
            "failed to get region from zones: zone in unexpected format, expected: "
            "{locale}-{region}-{zone}, got: here",
            id="a GCE disk of two invalid zones",
        ),
        pytest.param(
            {},
            {"azureFile": {"secretName": "s", "shareName": "s"}},
            "could not find a secret namespace in PersistentVolumeSource or ClaimRef",
            id="an Azure share without a namespace",
        ),
    ],
)
def test_an_untranslatable_volume_is_an_error_with_a_reason(
    labels: dict[str, str], spec: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=r"\w") as raised:
        translate(labels, **spec)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        pytest.param(
            {ZONE: "ignored"},
            GCE | {"nodeAffinity": affinity([(ZONE, ["a"]), ("disk", ["x"])], [(ZONE, ["b"])])},
            [[(GKE_ZONE, ["a"]), ("disk", ["x"])], [(GKE_ZONE, ["b"])]],
            id="the affinity's zone key is replaced in every term",
        ),
        pytest.param(
            {BETA_ZONE: "b__a__ "},
            EBS,
            [[("topology.ebs.csi.aws.com/zone", ["a", "b"])]],
            id="a zone label becomes an affinity, sorted",
        ),
        pytest.param(
            {ZONE: "z"},
            GCE | {"nodeAffinity": affinity([("disk", ["x"])])},
            [[("disk", ["x"]), (GKE_ZONE, ["z"])]],
            id="a zone label is added to an affinity that has no zone",
        ),
        pytest.param(
            {},
            GCE | {"nodeAffinity": affinity([(BETA_ZONE, ["a"]), (BETA_REGION, ["r"])])},
            [[(GKE_ZONE, ["a"]), ("topology.kubernetes.io/region", ["r"])]],
            id="with the older zone key the older region key goes too",
        ),
        pytest.param(
            {"topology.kubernetes.io/region": "r"},
            {"vsphereVolume": {"volumePath": "p"}, "nodeAffinity": affinity([(ZONE, ["a"])])},
            [[("topology.csi.vmware.com/zone", ["a"]), ("topology.csi.vmware.com/region", ["r"])]],
            id="vSphere translates zone and region",
        ),
        pytest.param(
            {ZONE: "z"},
            {
                "azureDisk": {"diskName": "d", "diskURI": "u"},
                "nodeAffinity": affinity([(ZONE, ["a"])]),
            },
            [[(ZONE, ["a"])]],
            id="Azure disks keep their affinity",
        ),
    ],
)
def test_topology_follows_the_driver(
    labels: dict[str, str], spec: dict[str, Any], expected: list[list[tuple[str, list[str]]]]
) -> None:
    assert shown(translate(labels, **spec)) == expected


def test_a_volume_without_any_zone_gets_no_affinity() -> None:
    assert translate(**EBS).node_affinity is None


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            id="a GCE disk",
        ),
        pytest.param(EBS, "ebs.csi.aws.com", "vol-1", id="an EBS volume"),
        pytest.param(
            {"azureFile": {"secretName": "plain", "shareName": "s"}},
            "file.csi.azure.com",
            "#plain#s#vol#team",
            id="an Azure share, by volume and namespace",
        ),
    ],
)
def test_a_pods_own_volume_is_translated_too(
    source: dict[str, Any], driver: str, handle: str
) -> None:
    volume = decode_as(Volume, {"name": "vol", **source})
    plugin = plugin_of(volume)
    assert plugin is not None
    assert plugin.translate_inline(volume, "team") == CSIVolume(driver, handle)


def test_other_sources_have_no_translation() -> None:
    assert plugin_of(decode_as(Volume, {"name": "v", "emptyDir": {}})) is None
    assert plugin_of(a_volume(local={"path": "/x"}).spec) is None
    assert "csi.example.com" not in PLUGIN_BY_NAME


def test_five_of_the_plugins_count_as_migrated() -> None:
    plugins = [PLUGIN_BY_NAME.get(name) for name in sorted(MIGRATED_PLUGIN_NAMES)]
    assert [plugin.driver for plugin in plugins if plugin is not None] == [
        "ebs.csi.aws.com",
        "disk.csi.azure.com",
        "cinder.csi.openstack.org",
        "pd.csi.storage.gke.io",
        "pxd.portworx.com",
    ]
