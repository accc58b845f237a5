from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.manifests.documents import ManifestError
from kubesched.manifests.scenario_reader import read_scenario
from tests.unit.simulate.small_clusters import (
    Document,
    capacity_of,
    node,
    places,
    pod,
    scenario,
    simulated,
    stream,
    workload,
)


def test_copies_fill_the_free_resources() -> None:
    # 4 cpu of which 1 is requested, and 2 cpu: three and two copies of one cpu each.
    run = capacity_of([node("n", "4"), pod("x", on="n"), node("m", "2")], pod("p"))
    (fit,) = run.fits
    assert fit.by_node == {"n": 3, "m": 2}
    assert fit.stop is not None
    assert fit.stop.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert fit.stop.reasons == {"Insufficient cpu": 2}
    assert {name: status.plugin for name, status in fit.stop.by_node.items()} == {
        "n": "NodeResourcesFit",
        "m": "NodeResourcesFit",
    }


def test_a_pending_template_does_not_count_beside_its_copies() -> None:
    # Its nomination would take the room of one copy.
    nominated = pod("p", status={"nominatedNodeName": "n"})
    assert capacity_of([node("n", "2")], nominated).count == 2


def test_a_bound_pod_can_be_a_template_and_stays() -> None:
    assert capacity_of([node("n", "3")], pod("p", on="n")).count == 2


def test_templates_take_turns() -> None:
    # a takes 1, b takes 2: a b a leaves 1 of 5; the second b does not fit, another a does.
    run = capacity_of([node("n", "5")], pod("a", "1"), pod("b", "2"))
    assert [fit.count for fit in run.fits] == [3, 1]


def test_counting_stops_at_the_number_requested() -> None:
    run = capacity_of([node("n", "5")], pod("a"), count=3)
    assert (run.fits[0].count, run.fits[0].stop) == (3, None)
    run = capacity_of([node("n", "2")], pod("a"), count=3)
    assert run.fits[0].count == 2
    assert run.fits[0].stop is not None


def test_nothing_is_preempted_but_possible_victims_are_reported() -> None:
    run = capacity_of([node("n", "2"), pod("low", on="n", priority=-5)], pod("p"))
    (fit,) = run.fits
    assert fit.count == 1
    assert fit.stop is not None
    assert (fit.stop.evict_from, fit.stop.evictable) == ("n", ("default/low",))


def test_the_pod_limit_of_a_node_counts() -> None:
    run = capacity_of([node("n", "100", pods="3")], pod("p", "1m"))
    assert run.count == 3
    assert run.fits[0].stop is not None
    assert run.fits[0].stop.reasons == {"Too many pods": 1}


def test_a_held_pod_does_not_fit() -> None:
    run = capacity_of([node("n")], pod("p", schedulingGates=[{"name": "wait"}]))
    assert run.count == 0
    assert run.fits[0].stop is not None
    assert run.fits[0].stop.kind == "Held"


def test_copies_of_a_workload_have_its_owner_and_so_spread_by_default() -> None:
    # Without the owner's default constraints, the larger node would take the first copies.
    cluster = [node("big", "64", zone="a"), node("small", "8", zone="b")]
    run = capacity_of(cluster, workload("Deployment", "web", "100m"), count=6)
    assert run.fits[0].by_node == {"big": 3, "small": 3}


def test_each_copy_of_a_stateful_set_gets_its_claims() -> None:
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volumes = [local_volume(f"pv-{i}", "n") for i in range(2)]
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    db = workload("StatefulSet", "db", volumeClaimTemplates=[claim])
    run = capacity_of([node("n", "64"), storage, *volumes], db)
    # Two volumes, so two copies; nothing else would stop a third.
    assert run.count == 2
    assert run.fits[0].stop is not None
    assert run.fits[0].stop.reasons == {
        "node(s) didn't find available persistent volumes to bind": 1
    }


def local_volume(name: str, node_name: str) -> Document:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            },
        },
        "status": {"phase": "Available"},
    }


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.sampled_from(["500m", "1", "1500m"]),
    st.booleans(),
)
def test_capacity_equals_a_simulation_of_the_copies(cpus: list[int], cpu: str, apart: bool) -> None:
    cluster = [node(f"n{i}", str(number), zone="ab"[i % 2]) for i, number in enumerate(cpus)]
    parts: dict[str, Any] = {"labels": {"app": "p"}}
    if apart:
        parts["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "p"}},
            }
        ]
    run = capacity_of(cluster, pod("p", cpu, **parts))
    one_by_one = simulated(*cluster, *(pod(f"p-{i}", cpu, **parts) for i in range(run.count + 2)))
    nodes_by_pod = places(one_by_one)
    assert len(nodes_by_pod) == run.count
    by_node = {name: list(nodes_by_pod.values()).count(name) for name in nodes_by_pod.values()}
    assert by_node == run.fits[0].by_node


# -- templates ------------------------------------------------------------------------------------


def test_pods_and_workloads_of_other_files_are_templates(tmp_path: Any) -> None:
    (tmp_path / "cluster.json").write_bytes(
        stream(node("n"), pod("waits"), pod("x", on="n")).read()
    )
    (tmp_path / "rest.json").write_bytes(
        stream(pod("p"), workload("Deployment", "d"), workload("Job", "j")).read()
    )
    read = read_scenario([str(tmp_path / "cluster.json"), str(tmp_path / "rest.json")])
    titles = sorted(template.title for template in read.capacity_templates())
    assert titles == ["Deployment default/d", "Job default/j", "Pod default/p"]


def test_a_missing_template_is_an_error() -> None:
    with pytest.raises(ManifestError, match="no pod template"):
        scenario(node("n"), pod("waits")).capacity_templates()


@pytest.mark.parametrize(
    "name",
    ["d", "default/d", "deployment/d", "deployment/default/d", "deploy/d", "deployments/default/d"],
)
def test_a_template_can_be_named_in_many_forms(name: str) -> None:
    read = scenario(node("n"), workload("Deployment", "d"))
    assert [template.title for template in read.capacity_templates([name])] == [
        "Deployment default/d"
    ]


def test_an_ambiguous_name_is_an_error() -> None:
    read = scenario(node("n"), workload("Deployment", "d"), workload("Job", "d"))
    with pytest.raises(ManifestError, match="d is ambiguous; use one of deployment/default/d, job"):
        read.capacity_templates(["d"])
    with pytest.raises(
        ManifestError,
        match="no pod or workload in the files is named e; the files hold "
        "deployment/default/d, job/default/d",
    ):
        read.capacity_templates(["e"])


def test_a_name_selects_the_deployment_rather_than_its_replica_set() -> None:
    replica_set = workload("ReplicaSet", "web-1", "1", replicas=1)
    replica_set["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    ]
    cluster = [node("n", "4"), replica_set, pod("web-1-x", on="n", owner="ReplicaSet/web-1")]
    assert capacity_of(cluster, workload("Deployment", "web", "1")).count == 3
    read = scenario(*cluster, workload("Deployment", "web", "1"))
    titles = [template.title for template in read.capacity_templates(["rs/web-1"])]
    assert titles == ["ReplicaSet default/web-1"]
