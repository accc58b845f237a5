"""Services: allocated addresses and ports; the rejections are those of a v1.36.4 server."""

from typing import Any

import pytest

from tests.unit.cluster.apiserver.kinds.cluster import Cluster

SERVICES = "/api/v1/namespaces/default/services"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def a_service(name: str = "s", **spec: Any) -> dict[str, Any]:
    kind = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}}
    return {**kind, "spec": {"ports": [{"port": 80}], **spec}}


def test_addresses_are_allocated_once(cluster: Cluster) -> None:
    first = cluster.make(SERVICES, a_service("a"))["spec"]
    second = cluster.make(SERVICES, a_service("b"))["spec"]

    assert first["clusterIPs"] == [first["clusterIP"]]
    assert first["clusterIP"].startswith("10.0.")
    assert first["clusterIP"] != second["clusterIP"]
    assert (first["ipFamilies"], first["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


def test_address_of_a_deleted_service_is_free(cluster: Cluster) -> None:
    cluster.make(SERVICES, a_service(clusterIP="10.0.7.7"))
    cluster.request("DELETE", f"{SERVICES}/s")

    assert cluster.request("POST", SERVICES, a_service(clusterIP="10.0.7.7")).code == 201


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("10.0.0.1", "provided IP is already allocated"),
        ("1.2.3.4", "the provided network does not match the current range"),
        ("10.0.0.0", "the provided network does not match the current range"),
    ],
)
def test_address_that_cannot_be_allocated(cluster: Cluster, address: str, message: str) -> None:
    reply = cluster.request("POST", SERVICES, a_service(clusterIP=address))

    assert reply.code == 422
    assert reply.body["message"] == (
        f'Service "s" is invalid: spec.clusterIPs: Invalid value: ["{address}"]: failed to '
        f"allocate IP {address}: {message}"
    )


def test_headless_service_has_no_address(cluster: Cluster) -> None:
    spec = cluster.make(SERVICES, a_service(clusterIP="None"))["spec"]

    assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")


def test_ports_of_one_number_share_a_node_port(cluster: Cluster) -> None:
    ports = [
        {"name": "a", "port": 53, "protocol": "TCP"},
        {"name": "b", "port": 53, "protocol": "UDP"},
        {"name": "c", "port": 80},
    ]

    made = cluster.make(SERVICES, a_service(type="NodePort", ports=ports))["spec"]["ports"]

    assert made[0]["nodePort"] == made[1]["nodePort"] != made[2]["nodePort"]
    assert all(30000 <= port["nodePort"] <= 32767 for port in made)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (30777, "provided port is already allocated"),
        (
            777,
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
    ],
)
def test_node_port_that_cannot_be_allocated(cluster: Cluster, number: int, message: str) -> None:
    ports = [{"port": 80, "nodePort": 30777}]
    cluster.make(SERVICES, a_service("other", type="NodePort", ports=ports))

    requested = [{"port": 80, "nodePort": number}]
    reply = cluster.request("POST", SERVICES, a_service(type="NodePort", ports=requested))

    assert reply.body["message"] == (
        f'Service "s" is invalid: spec.ports[0].nodePort: Invalid value: {number}: {message}'
    )


def test_update_keeps_allocated_fields(cluster: Cluster) -> None:
    made = cluster.make(SERVICES, a_service(type="NodePort"))
    document = a_service(type="NodePort", selector={"a": "b"})

    changed = cluster.request("PUT", f"{SERVICES}/s", document).body["spec"]

    assert changed["clusterIP"] == made["spec"]["clusterIP"]
    assert changed["ports"] == made["spec"]["ports"]


def test_address_may_not_change(cluster: Cluster) -> None:
    made = cluster.make(SERVICES, a_service())
    made["spec"]["clusterIP"] = "10.0.9.9"

    reply = cluster.request("PUT", f"{SERVICES}/s", made)

    assert reply.body["message"] == (
        'Service "s" is invalid: spec.clusterIPs[0]: Invalid value: ["10.0.9.9"]: may not change '
        "once set"
    )


def test_another_type_releases_unneeded_fields(cluster: Cluster) -> None:
    made = cluster.make(SERVICES, a_service(type="LoadBalancer", externalTrafficPolicy="Local"))
    made["spec"]["type"] = "ExternalName"
    made["spec"]["externalName"] = "example.com"

    spec = cluster.request("PUT", f"{SERVICES}/s", made).body["spec"]

    assert spec == {
        "type": "ExternalName",
        "externalName": "example.com",
        "sessionAffinity": "None",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }
