"""VolumeBinding's Filter: bound volumes, free volumes, and provisioning."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.config.types import VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.plugins.volume_binding.delayed_search import (
    REASON_BIND_CONFLICT,
    REASON_NODE_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_VOLUME_NOT_EXIST,
)
from kubesched.plugins.volume_binding.plugin import VolumeBinding
from kubesched.snapshot.view import ClusterView
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, statuses_of
from tests.unit.plugins.volume_objects import (
    HOSTNAME,
    SnapshotHandle,
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_volume,
    uses_claim,
)

NODE, BIND = unresolvable(REASON_NODE_CONFLICT), unresolvable(REASON_BIND_CONFLICT)
SPACE, MISSING = unresolvable(REASON_NOT_ENOUGH_SPACE), unresolvable(REASON_VOLUME_NOT_EXIST)
ZONE, GKE_ZONE = "topology.kubernetes.io/zone", "topology.gke.io/zone"
PROVISIONED = a_class(provisioner="csi.example.com")
SELECTED = {"annotations": {"volume.kubernetes.io/selected-node": "a"}}


def view_of(*objects: Any) -> ClusterView:
    """Return three nodes, `a` and `b` of zone 1, `c` of zone 2, and the objects."""
    zones = {"a": "1", "b": "1", "c": "2"}
    nodes = [a_node(n, labels={HOSTNAME: n, ZONE: z, GKE_ZONE: z}) for n, z in zones.items()]
    return a_cluster(nodes, objects=objects)


def judged(*objects: Any, claims: str = "claim") -> dict[str, Status]:
    view = view_of(*objects)
    plugin, state = VolumeBinding(VolumeBindingArgs(), SnapshotHandle(view)), CycleState()
    pod = a_pod(volumes=[uses_claim(c, f"v{i}") for i, c in enumerate(claims.split())])
    nodes = view.all_nodes()
    assert plugin.pre_filter(state, pod, nodes) is None
    whole = statuses_of(plugin.filter_nodes(state, pod, nodes), nodes.names)
    one_by_one: dict[str, Status] = {}
    for row in nodes.rows:
        single = view.nodes_at(row.reshape(1))
        one_by_one |= statuses_of(plugin.filter_nodes(state, pod, single), single.names)
    assert one_by_one == whole
    return whole


def expression(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def reaching(*expressions: dict[str, Any], **term: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions), **term}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


BOUND = a_claim(volume="pv")


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([a_volume()], {}, id="reached from everywhere"),
        pytest.param([a_volume(hosts=["a", "c"])], {"b": NODE}, id="reached from two nodes"),
        pytest.param(
            [a_volume(**reaching(expression(ZONE, "1", operator="NotIn")))],
            {"a": NODE, "b": NODE},
            id="not reached from a zone",
        ),
        pytest.param(
            [
                a_volume(
                    **reaching(
                        expression(ZONE, "1"),
                        matchFields=[expression("metadata.name", "b")],
                    )
                )
            ],
            {"c": NODE},
            id="fields are ignored",
        ),
        pytest.param(
            [a_volume(**reaching(expression(ZONE, "x", operator="Gt")))],
            dict.fromkeys("abc", NODE),
            id="a term that does not parse reaches nothing",
        ),
        pytest.param([], dict.fromkeys("abc", MISSING), id="that does not exist"),
    ],
)
def test_a_bound_volume(objects: list[Any], expected: dict[str, Status]) -> None:
    assert judged(BOUND, *objects) == expected


def test_the_first_conflicting_bound_claim_gives_the_reason() -> None:
    objects = [
        a_claim("c1", volume="pv1"),
        a_claim("c2", volume="gone"),
        a_volume("pv1", hosts="a"),
    ]
    assert judged(*objects, claims="c1 c2") == {"a": MISSING, "b": NODE, "c": NODE}
    assert judged(*objects, claims="c2 c1") == dict.fromkeys("abc", MISSING)


def test_on_nodes_that_migrated_the_translated_affinity_counts() -> None:
    disk = a_volume(gcePersistentDisk={"pdName": "d"}, labels={ZONE: "2"})
    migrated = a_csi_node("a", migrated="kubernetes.io/aws-ebs,kubernetes.io/gce-pd")
    assert judged(BOUND, disk, migrated, a_csi_node("b")) == {"a": NODE}


def test_a_volume_that_cannot_be_translated_is_an_error_where_it_would_be() -> None:
    disk = a_volume(azureDisk={"diskName": "d", "diskURI": "u", "kind": "Shared"})
    migrated = a_csi_node("b", migrated="kubernetes.io/azure-disk")
    text = "could not translate pv: kind(Shared) is not supported in csi migration"
    assert judged(BOUND, disk, migrated) == {"b": error(text)}


@pytest.mark.parametrize(
    ("claim", "volumes", "expected"),
    [
        pytest.param(a_claim(), [a_volume()], "", id="a volume for every node"),
        pytest.param(a_claim(), [a_volume(hosts=["a"])], "bc", id="a volume of one node"),
        pytest.param(a_claim(size="11Gi"), [a_volume()], "abc", id="too small"),
        pytest.param(a_claim(size="10Gi"), [a_volume()], "", id="of just the size"),
        pytest.param(a_claim(size=""), [a_volume()], "", id="any size will do"),
        pytest.param(a_claim(), [a_volume(phase="Released")], "abc", id="not available yet"),
        pytest.param(a_claim(), [a_volume(volumeMode="Block")], "abc", id="of another mode"),
        pytest.param(
            a_claim(accessModes=["ReadWriteOnce", "ReadOnlyMany"]),
            [a_volume()],
            "abc",
            id="without one of the access modes",
        ),
        pytest.param(
            a_claim(volumeAttributesClassName="gold"), [a_volume()], "abc", id="of other attributes"
        ),
        pytest.param(a_claim(), [a_volume(storage_class="other")], "abc", id="of another class"),
        pytest.param(
            a_claim(),
            [a_volume(metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"})],
            "abc",
            id="terminating",
        ),
        pytest.param(
            a_claim(selector={"matchLabels": {"tier": "fast"}}),
            [a_volume(labels={"tier": "slow"}), a_volume("q", labels={"tier": "fast"}, hosts="b")],
            "ac",
            id="of the labels the claim selects",
        ),
        pytest.param(
            a_claim(),
            [a_volume(claimRef={"namespace": "default", "name": "other"})],
            "abc",
            id="reserved for another claim",
        ),
        pytest.param(
            a_claim(),
            [a_volume(claimRef={"namespace": "default", "name": "claim", "uid": "older"})],
            "abc",
            id="reserved for an earlier claim of the name",
        ),
        pytest.param(
            a_claim(),
            [
                a_volume(claimRef={"namespace": "default", "name": "claim"}, hosts="b", phase=""),
                a_volume("free"),
            ],
            "ac",
            id="reserved for the claim, which then gets no other",
        ),
    ],
)
def test_a_free_volume(claim: Any, volumes: list[Any], expected: str) -> None:
    assert judged(claim, a_class(), *volumes) == dict.fromkeys(expected, BIND)


def test_two_claims_get_two_volumes() -> None:
    claims = [a_claim("c1", size="1Gi"), a_claim("c2", size="5Gi")]
    small, large = a_volume("s", size="2Gi"), a_volume("l", size="5Gi", hosts=["a", "b"])
    # Listed with the larger first: the smaller claim chooses before it, and takes the smaller.
    assert judged(*claims, a_class(), large, small, claims="c2 c1") == {"c": BIND}
    assert judged(*claims, a_class(), large, claims="c1 c2") == dict.fromkeys("abc", BIND)


def test_bound_and_unbound_claims_both_give_reasons() -> None:
    bound_elsewhere = a_volume("pv1", hosts="a", phase="Bound")
    objects = [a_claim("c1", volume="pv1"), bound_elsewhere, a_claim("c2"), a_class()]
    both = unresolvable(REASON_NODE_CONFLICT, REASON_BIND_CONFLICT)
    assert judged(*objects, claims="c1 c2") == {"a": BIND, "b": both, "c": both}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([a_claim(), PROVISIONED], {}, id="anywhere"),
        pytest.param(
            [a_claim(), a_class()],
            dict.fromkeys("abc", BIND),
            id="not by a class without provisioner",
        ),
        pytest.param(
            [
                a_claim(),
                a_class(
                    provisioner="p",
                    allowedTopologies=[
                        {"matchLabelExpressions": [{"key": ZONE, "values": ["2", "3"]}]}
                    ],
                ),
            ],
            {"a": BIND, "b": BIND},
            id="where the class is allowed",
        ),
        pytest.param(
            [a_claim(), a_class(provisioner="p", allowedTopologies=[{}])],
            dict.fromkeys("abc", BIND),
            id="nowhere if the only topology is empty",
        ),
        pytest.param(
            [a_claim(metadata=SELECTED), PROVISIONED, a_volume(hosts="b")],
            {"b": BIND, "c": BIND},
            id="on the node that was selected before",
        ),
        pytest.param(
            [a_claim(), PROVISIONED, a_driver()],
            dict.fromkeys("abc", SPACE),
            id="nowhere if the driver reports capacities and there are none",
        ),
        pytest.param(
            [a_claim(), PROVISIONED, a_driver(storage_capacity=False)],
            {},
            id="anywhere if the driver does not report capacities",
        ),
        pytest.param(
            [a_claim(size=""), PROVISIONED, a_driver()], {}, id="anywhere if no size is requested"
        ),
        pytest.param(
            [
                a_claim(size="2Gi"),
                PROVISIONED,
                a_driver(),
                a_capacity("1", capacity="2Gi", nodeTopology={"matchLabels": {HOSTNAME: "a"}}),
                a_capacity(
                    "2",
                    capacity="9Gi",
                    maximumVolumeSize="1Gi",
                    nodeTopology={"matchLabels": {HOSTNAME: "b"}},
                ),
                a_capacity("3", capacity="9Gi"),
            ],
            {"b": SPACE, "c": SPACE},
            id="where a large enough capacity is reachable",
        ),
        pytest.param(
            [
                a_claim(),
                PROVISIONED,
                a_driver(),
                a_capacity(capacity="9Gi", storageClassName="other", nodeTopology={}),
            ],
            dict.fromkeys("abc", SPACE),
            id="not by a capacity of another class",
        ),
    ],
)
def test_provisioning(objects: list[Any], expected: dict[str, Status]) -> None:
    assert judged(*objects) == expected


def test_a_free_volume_is_preferred_to_provisioning() -> None:
    objects = [a_claim(), PROVISIONED, a_driver(), a_volume(hosts="b")]
    assert judged(*objects) == {"a": SPACE, "c": SPACE}


def test_a_selector_that_does_not_parse_is_an_error() -> None:
    wrong = {"matchExpressions": [{"key": "tier", "operator": "Like", "values": ["x"]}]}
    text = (
        "error creating internal label selector for claim: default/claim: "
        '"Like" is not a valid label selector operator'
    )
    expected = {n: error(text) for n in "abc"}
    assert judged(a_claim(selector=wrong), a_class()) == expected


def test_without_pre_filter_every_node_is_an_error() -> None:
    view = view_of()
    plugin, nodes = VolumeBinding(VolumeBindingArgs(), SnapshotHandle(view)), view.all_nodes()
    verdict = plugin.filter_nodes(CycleState(), a_pod(), nodes)
    assert statuses_of(verdict, nodes.names) == {n: error("not found") for n in "abc"}


def test_there_are_no_scores() -> None:
    view = view_of()
    plugin, nodes = VolumeBinding(VolumeBindingArgs(), SnapshotHandle(view)), view.all_nodes()
    assert plugin.pre_score(CycleState(), a_pod(), nodes) == SKIP
    assert plugin.score_nodes(CycleState(), a_pod(), nodes).tolist() == [0, 0, 0]
