from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.app.manifests import ManifestError
from kubesched.sim.scenario import read_scenario
from tests.unit.sim.small_clusters import (
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


def test_copies_fill_what_is_free() -> None:
    # 4 cpu less 1 taken, 2 cpu: three and two copies of one cpu each.
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


def test_a_waiting_template_is_not_counted_beside_its_copies() -> None:
    # Its promise of a place would take one from the copies.
    promised = pod("p", status={"nominatedNodeName": "n"})
    assert capacity_of([node("n", "2")], promised).count == 2


def test_a_bound_pod_can_be_a_template_and_stays() -> None:
    assert capacity_of([node("n", "3")], pod("p", on="n")).count == 2


def test_templates_take_turns() -> None:
    # a takes 1, b takes 2: a b a leaves 1 of 5; the second b does not fit, another a does.
    run = capacity_of([node("n", "5")], pod("a", "1"), pod("b", "2"))
    assert [fit.count for fit in run.fits] == [3, 1]


def test_counting_stops_at_the_number_asked_for() -> None:
    run = capacity_of([node("n", "5")], pod("a"), count=3)
    assert (run.fits[0].count, run.fits[0].stop) == (3, None)
    run = capacity_of([node("n", "2")], pod("a"), count=3)
    assert run.fits[0].count == 2
    assert run.fits[0].stop is not None


def test_nobody_is_evicted_but_it_is_said_who_could_be() -> None:
    run = capacity_of([node("n", "2"), pod("low", on="n", priority=-5)], pod("p"))
    (fit,) = run.fits
    assert fit.count == 1
    assert fit.stop is not None
    assert (fit.stop.evict_from, fit.stop.evictable) == ("n", ("default/low",))


def test_the_number_of_pods_a_node_takes_counts() -> None:
    run = capacity_of([node("n", "100", pods="3")], pod("p", "1m"))
    assert run.count == 3
    assert run.fits[0].stop is not None
    assert run.fits[0].stop.reasons == {"Too many pods": 1}


def test_what_is_held_back_does_not_fit_even_once() -> None:
    run = capacity_of([node("n")], pod("p", schedulingGates=[{"name": "wait"}]))
    assert run.count == 0
    assert run.fits[0].stop is not None
    assert run.fits[0].stop.verdict == "Held"


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
def test_capacity_is_what_placing_one_by_one_gives(cpus: list[int], cpu: str, apart: bool) -> None:
    cluster = [node(f"n{i}", str(one), zone="ab"[i % 2]) for i, one in enumerate(cpus)]
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
    found = places(one_by_one)
    assert len(found) == run.count
    by_node = {name: list(found.values()).count(name) for name in found.values()}
    assert by_node == run.fits[0].by_node


# -- what is a template ---------------------------------------------------------------------------


def test_what_stands_beside_the_cluster_is_a_template(tmp_path: Any) -> None:
    (tmp_path / "cluster.json").write_bytes(
        stream(node("n"), pod("waits"), pod("x", on="n")).read()
    )
    (tmp_path / "rest.json").write_bytes(
        stream(pod("p"), workload("Deployment", "d"), workload("Job", "j")).read()
    )
    read = read_scenario([str(tmp_path / "cluster.json"), str(tmp_path / "rest.json")])
    titles = sorted(one.title for one in read.capacity_templates())
    assert titles == ["Deployment default/d", "Job default/j", "Pod default/p"]


def test_without_a_template_there_is_nothing_to_count() -> None:
    with pytest.raises(ManifestError, match="no pod template"):
        scenario(node("n"), pod("waits")).capacity_templates()


@pytest.mark.parametrize(
    "name",
    ["d", "default/d", "deployment/d", "deployment/default/d", "deploy/d", "deployments/default/d"],
)
def test_a_template_can_be_named_in_many_ways(name: str) -> None:
    read = scenario(node("n"), workload("Deployment", "d"))
    assert [one.title for one in read.capacity_templates([name])] == ["Deployment default/d"]


def test_a_name_must_name_one_thing() -> None:
    read = scenario(node("n"), workload("Deployment", "d"), workload("Job", "d"))
    with pytest.raises(ManifestError, match="several are named d: deployment/default/d, job"):
        read.capacity_templates(["d"])
    with pytest.raises(
        ManifestError,
        match="no pod or workload in the files is named e; there are "
        "deployment/default/d, job/default/d",
    ):
        read.capacity_templates(["e"])


def test_a_deployment_is_known_by_name_though_its_replica_set_is_there() -> None:
    replica_set = workload("ReplicaSet", "web-1", "1", replicas=1)
    replica_set["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    ]
    cluster = [node("n", "4"), replica_set, pod("web-1-x", on="n", owner="ReplicaSet/web-1")]
    assert capacity_of(cluster, workload("Deployment", "web", "1")).count == 3
    read = scenario(*cluster, workload("Deployment", "web", "1"))
    titles = [one.title for one in read.capacity_templates(["rs/web-1"])]
    assert titles == ["ReplicaSet default/web-1"]
