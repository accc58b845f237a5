"""Endpoints and EndpointSlices of services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubesched import testing
from tests.cluster.conftest import World
from tests.cluster.owned import MERGE_PATCH, Document

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"


def a_pod(name: str, *, app: str = "web", **spec: Any) -> Document:
    pod = testing.a_pod(name, labels={"app": app}, terminationGracePeriodSeconds=1, **spec)
    pod["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
    return pod


def a_service(name: str = "web", **spec: Any) -> Document:
    port = {"name": "main", "port": 80, "targetPort": "http"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {"tier": "front"}},
        "spec": {"selector": {"app": "web"}, "ports": [port], **spec},
    }


def subsets(world: World, name: str = "web") -> list[Document]:
    return list(world.get(world.path("endpoints", name)).get("subsets") or [])


def slices(world: World, name: str = "web") -> list[Document]:
    path = world.path("endpointslices", group="discovery.k8s.io/v1")
    return world.items(path, labelSelector=f"{SERVICE_NAME}={name}")


def listed(world: World, name: str = "web") -> dict[str, Document]:
    """Return the endpoints in all slices, by the names of their pods."""
    return {
        end["targetRef"]["name"]: end
        for one in slices(world, name)
        for end in one.get("endpoints") or ()
    }


def ready(world: World, name: str = "web") -> set[str]:
    """Return the pods that both Endpoints and EndpointSlices call ready; empty if they differ."""
    old = {
        address["targetRef"]["name"]
        for subset in subsets(world, name)
        for address in subset.get("addresses") or ()
    }
    new = {pod for pod, end in listed(world, name).items() if end["conditions"]["ready"]}
    return old if old == new else set()


def until_ready(world: World, *pods: str, name: str = "web") -> None:
    world.until(lambda: ready(world, name) == set(pods), f"{name} leads to {pods}")


def test_a_service_has_the_endpoints_of_its_pods(world: World) -> None:
    world.create(a_service(), a_pod("one"), a_pod("two"), a_pod("other", app="db"))
    until_ready(world, "one", "two")
    pods = {pod["metadata"]["name"]: pod for pod in world.pods()}
    (subset,) = subsets(world)
    assert subset["ports"] == [{"name": "main", "port": 8080, "protocol": "TCP"}]
    assert [address["ip"] for address in subset["addresses"]] == sorted(
        pods[name]["status"]["podIP"] for name in ("one", "two")
    )
    (one,) = slices(world)
    assert one["addressType"] == "IPv4"
    assert one["ports"] == [{"name": "main", "port": 8080, "protocol": "TCP"}]
    for name, end in listed(world).items():
        pod = pods[name]
        assert end["addresses"] == [pod["status"]["podIP"]]
        assert end["nodeName"] == pod["spec"]["nodeName"]
        assert end["conditions"] == {"ready": True, "serving": True, "terminating": False}
        assert end["targetRef"] == {
            "kind": "Pod",
            "namespace": world.namespace,
            "name": name,
            "uid": pod["metadata"]["uid"],
        }


def test_names_labels_and_owners_of_slices(world: World) -> None:
    service = world.create(a_service())[0]
    world.until(lambda: slices(world), "there is a slice")
    world.until(lambda: world.get(world.path("endpoints", "web")), "there are Endpoints")
    metadata = world.get(world.path("endpoints", "web"))["metadata"]
    assert metadata["labels"] == {
        "tier": "front",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    }
    (one,) = slices(world)
    assert one["metadata"]["generateName"] == "web-"
    assert one["metadata"]["labels"] == {
        "tier": "front",
        SERVICE_NAME: "web",
        MANAGED_BY: "endpointslice-controller.k8s.io",
    }
    assert one["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "name": "web",
            "uid": service["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    # A service without endpoints has one empty slice.
    assert not one.get("endpoints")
    assert not one.get("ports")


def test_endpoints_follow_pod_labels(world: World) -> None:
    world.create(a_service(), a_pod("one"), a_pod("two"))
    until_ready(world, "one", "two")
    patch = {"metadata": {"labels": {"app": "elsewhere"}}}
    world.api.patch(world.path("pods", "one"), patch, MERGE_PATCH).must(200)
    until_ready(world, "two")
    patch = {"spec": {"selector": {"app": "elsewhere"}}}
    world.api.patch(world.path("services", "web"), patch, MERGE_PATCH).must(200)
    until_ready(world, "one")


def test_slices_have_the_labels_of_the_service(world: World) -> None:
    world.create(a_service(), a_pod("one"))
    until_ready(world, "one")
    patch = {"metadata": {"labels": {"tier": "back"}}}
    world.api.patch(world.path("services", "web"), patch, MERGE_PATCH).must(200)

    def tiers() -> list[str]:
        documents = [*slices(world), world.get(world.path("endpoints", "web"))]
        return [one["metadata"]["labels"]["tier"] for one in documents]

    world.until(lambda: tiers() == ["back", "back"], "both have the new label")


def test_a_deleted_pod_is_no_endpoint(world: World) -> None:
    world.create(a_service(), a_pod("one"), a_pod("two"))
    until_ready(world, "one", "two")
    world.api.delete(world.path("pods", "one")).must(200)
    until_ready(world, "two")
    world.until(lambda: listed(world).keys() == {"two"}, "nothing is left of it")


def test_a_terminating_pod_may_serve_but_is_not_ready(world: World) -> None:
    pod = a_pod("slow")
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    world.create(a_service(), pod)
    until_ready(world, "slow")
    world.api.delete(world.path("pods", "slow")).must(200)
    world.until(
        lambda: (listed(world).get("slow") or {"conditions": {"terminating": True}})["conditions"][
            "terminating"
        ],
        "it is terminating",
    )
    assert ready(world) == set()
    patch = {"metadata": {"finalizers": None}}
    world.api.patch(world.path("pods", "slow"), patch, MERGE_PATCH).must(200)
    world.until(lambda: not listed(world), "nothing is left of it")


def test_endpoints_are_deleted_with_the_service(world: World) -> None:
    world.create(a_service(), a_pod("one"))
    until_ready(world, "one")
    world.api.delete(world.path("services", "web")).must(200)
    world.until(lambda: not world.get(world.path("endpoints", "web")), "the Endpoints are gone")
    world.until(lambda: not slices(world), "the slices are gone")


def test_a_headless_service_is_marked_and_names_its_pods(world: World) -> None:
    world.create(
        a_service(clusterIP="None"), a_pod("one", hostname="first", subdomain="web"), a_pod("two")
    )
    until_ready(world, "one", "two")
    (one,) = slices(world)
    assert one["metadata"]["labels"][HEADLESS] == ""
    assert world.get(world.path("endpoints", "web"))["metadata"]["labels"][HEADLESS] == ""
    names = {name: end.get("hostname") for name, end in listed(world).items()}
    assert names == {"one": "first", "two": None}
    (subset,) = subsets(world)
    assert {address.get("hostname") for address in subset["addresses"]} == {"first", None}


def test_a_headless_service_needs_no_ports(world: World) -> None:
    world.create(a_service(clusterIP="None", ports=[]), a_pod("one"))
    until_ready(world, "one")
    (subset,) = subsets(world)
    assert "ports" not in subset
    assert not slices(world)[0].get("ports")


def test_pods_with_different_ports_are_in_different_slices(world: World) -> None:
    other = a_pod("two")
    other["spec"]["containers"][0]["ports"][0]["containerPort"] = 9090
    without = a_pod("three")
    del without["spec"]["containers"][0]["ports"]
    ports = [
        {"name": "main", "port": 80, "targetPort": "http"},
        {"name": "fixed", "port": 81, "targetPort": 7070, "protocol": "UDP"},
    ]
    world.create(a_service(ports=ports), a_pod("one"), other, without)
    until_ready(world, "one", "two", "three")
    by_pod = {
        end["targetRef"]["name"]: sorted((port["name"], port["port"]) for port in one["ports"])
        for one in slices(world)
        for end in one["endpoints"]
    }
    assert by_pod == {
        "one": [("fixed", 7070), ("main", 8080)],
        "two": [("fixed", 7070), ("main", 9090)],
        "three": [("fixed", 7070)],
    }


@pytest.fixture
def silent_node(world: World) -> Iterator[str]:
    """Return a node without a kubelet: its pods do not change."""
    name = f"silent-{world.namespace}"
    metadata = {"name": name, "annotations": {"kubesched.dev/heartbeat": "off"}}
    world.api.post("/api/v1/nodes", {"metadata": metadata}).must(201)
    yield name
    world.api.delete(f"/api/v1/nodes/{name}").must(200, 404)


def test_publish_not_ready_addresses(world: World, silent_node: str) -> None:
    world.create(
        a_service("patient"),
        a_service("eager", publishNotReadyAddresses=True),
        a_pod("one", nodeName=silent_node),
    )
    status = {"podIP": "10.250.0.1", "podIPs": [{"ip": "10.250.0.1"}]}
    path = world.path("pods", "one") + "/status"
    world.api.patch(path, {"status": status}, MERGE_PATCH).must(200)
    until_ready(world, "one", name="eager")
    conditions = listed(world, "eager")["one"]["conditions"]
    assert conditions == {"ready": True, "serving": False, "terminating": False}
    world.until(lambda: subsets(world, "patient"), "the Endpoints of the other know of the pod")
    (subset,) = subsets(world, "patient")
    assert [address["ip"] for address in subset["notReadyAddresses"]] == ["10.250.0.1"]
    assert "addresses" not in subset
    world.until(lambda: listed(world, "patient"), "the slices of the other know of the pod")
    conditions = listed(world, "patient")["one"]["conditions"]
    assert conditions == {"ready": False, "serving": False, "terminating": False}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"selector": None}, id="without a selector"),
        pytest.param(
            {"type": "ExternalName", "externalName": "example.com"}, id="a name elsewhere"
        ),
    ],
)
def test_services_without_managed_endpoints(world: World, spec: Document) -> None:
    world.create(a_service("none", **spec), a_service(), a_pod("one"))
    until_ready(world, "one")
    assert slices(world, "none") == []
    assert world.get(world.path("endpoints", "none")) == {}


def test_traffic_distribution_sets_hints(world: World) -> None:
    world.create(a_service(trafficDistribution="PreferClose"), a_pod("one"))
    until_ready(world, "one")
    end = listed(world)["one"]
    node = world.get(f"/api/v1/nodes/{end['nodeName']}")
    zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"]
    assert end["zone"] == zone
    assert end["hints"] == {"forZones": [{"name": zone}]}
