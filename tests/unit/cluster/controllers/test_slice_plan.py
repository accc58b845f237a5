"""Distribution of endpoints over slices."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubesched.cluster.controllers.endpoint_slice.reconciler import (
    SlicePlan,
    families_of,
    plan_slices,
)

Document = dict[str, Any]
NODES = {"n1": {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}}}}


def a_service(**spec: Any) -> Document:
    port = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "ns", "uid": "web-uid", "labels": {"a": "b"}},
        "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [port], **spec},
    }


def a_pod(number: int, *, ready: bool = True, **spec: Any) -> Document:
    address = f"10.1.{number // 250}.{number % 250 + 1}"
    return {
        "metadata": {"name": f"p{number}", "namespace": "ns", "uid": f"p{number}-uid"},
        "spec": {"nodeName": "n1", "containers": [], **spec},
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}, {"ip": f"fd00::{number + 1:x}"}],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def written(plan: SlicePlan, slices: list[Document]) -> list[Document]:
    """Return the slices that exist after a plan."""
    by_name = {endpoint_slice["metadata"]["name"]: endpoint_slice for endpoint_slice in slices}
    for endpoint_slice in plan.delete:
        del by_name[endpoint_slice["metadata"]["name"]]
    for endpoint_slice in plan.update:
        assert endpoint_slice["metadata"]["name"] in by_name
        by_name[endpoint_slice["metadata"]["name"]] = endpoint_slice
    for number, endpoint_slice in enumerate(plan.create):
        name = f"{endpoint_slice['metadata']['generateName']}{len(by_name)}{number}"
        by_name[name] = {**endpoint_slice, "metadata": {**endpoint_slice["metadata"], "name": name}}
    return copy.deepcopy(list(by_name.values()))


def settled(
    service: Document, pods: list[Document], slices: list[Document] | None = None
) -> list[Document]:
    """Return the slices after a plan; fail if a second plan is not empty."""
    before = copy.deepcopy(slices or [])
    result = written(plan_slices(service, pods, slices or [], NODES), slices or [])
    assert (slices or []) == before, "existing slices are not modified"
    assert plan_slices(service, pods, result, NODES) == SlicePlan()
    return result


def sizes(slices: list[Document]) -> list[int]:
    return sorted(len(endpoint_slice["endpoints"]) for endpoint_slice in slices)


def names(slices: list[Document]) -> set[str]:
    return {
        endpoint["targetRef"]["name"]
        for endpoint_slice in slices
        for endpoint in endpoint_slice["endpoints"]
    }


def test_a_service_without_pods_has_an_empty_slice() -> None:
    (endpoint_slice,) = settled(a_service(), [])
    assert endpoint_slice["endpoints"] == []
    assert endpoint_slice["ports"] == []
    assert endpoint_slice["addressType"] == "IPv4"


def test_the_empty_slice_is_used_for_the_first_endpoint() -> None:
    empty = settled(a_service(), [])
    (endpoint_slice,) = settled(a_service(), [a_pod(1)], empty)
    assert endpoint_slice["metadata"]["name"] == empty[0]["metadata"]["name"]
    assert names([endpoint_slice]) == {"p1"}
    (again,) = settled(a_service(), [], [endpoint_slice])
    assert again["metadata"]["name"] == endpoint_slice["metadata"]["name"]
    assert again["endpoints"] == []


def test_a_slice_has_a_hundred_endpoints_at_most() -> None:
    slices = settled(a_service(), [a_pod(number) for number in range(250)])
    assert sizes(slices) == [50, 100, 100]
    assert len(names(slices)) == 250


def test_more_endpoints_go_where_there_is_room() -> None:
    pods = [a_pod(number) for number in range(150)]
    slices = settled(a_service(), pods)
    plan = plan_slices(a_service(), [*pods, a_pod(150)], slices, NODES)
    assert (plan.create, plan.delete) == ([], [])
    (changed,) = plan.update
    assert len(changed["endpoints"]) == 51


def test_a_deleted_pod_changes_one_slice() -> None:
    pods = [a_pod(number) for number in range(150)]
    slices = settled(a_service(), pods)
    plan = plan_slices(a_service(), pods[1:], slices, NODES)
    assert (plan.create, plan.delete) == ([], [])
    assert [len(endpoint_slice["endpoints"]) for endpoint_slice in plan.update] == [99]


def test_a_slice_without_endpoints_is_deleted_beside_others() -> None:
    pods = [a_pod(number) for number in range(150)]
    slices = settled(a_service(), pods)
    small = min(slices, key=lambda endpoint_slice: len(endpoint_slice["endpoints"]))
    kept = [pod for pod in pods if pod["metadata"]["name"] not in names([small])]
    plan = plan_slices(a_service(), kept, slices, NODES)
    assert (plan.create, plan.update) == ([], [])
    assert plan.delete == [small]


def test_an_endpoint_that_changes_stays_where_it_is() -> None:
    slices = settled(a_service(), [a_pod(1), a_pod(2)])
    (endpoint_slice,) = settled(a_service(), [a_pod(1), a_pod(2, ready=False)], slices)
    assert [endpoint["conditions"]["ready"] for endpoint in endpoint_slice["endpoints"]] == [
        True,
        False,
    ]
    assert endpoint_slice["metadata"]["name"] == slices[0]["metadata"]["name"]


def test_labels_follow_the_service() -> None:
    slices = settled(a_service(), [a_pod(1)])
    service = a_service()
    service["metadata"]["labels"] = {"c": "d", "kubernetes.io/service-name": "not-this"}
    (endpoint_slice,) = settled(service, [a_pod(1)], slices)
    assert endpoint_slice["metadata"]["labels"] == {
        "c": "d",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }


def test_two_ip_families_have_separate_slices() -> None:
    slices = settled(a_service(ipFamilies=["IPv4", "IPv6"]), [a_pod(1)])
    assert {
        endpoint_slice["addressType"]: endpoint_slice["endpoints"][0]["addresses"]
        for endpoint_slice in slices
    } == {
        "IPv4": ["10.1.0.2"],
        "IPv6": ["fd00::2"],
    }
    (left,) = settled(a_service(), [a_pod(1)], slices)
    assert left["addressType"] == "IPv4"


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({"ipFamilies": ["IPv6"]}, ["IPv6"]),
        ({"ipFamilies": None}, ["IPv4"]),
        ({"ipFamilies": None, "clusterIP": "fd00::1"}, ["IPv6"]),
        ({"ipFamilies": None, "clusterIP": "None"}, ["IPv4", "IPv6"]),
    ],
)
def test_the_ip_families_of_a_service(spec: Document, families: list[str]) -> None:
    assert families_of(a_service(**spec)) == families


def test_slices_of_a_replaced_service_are_deleted() -> None:
    slices = settled(a_service(), [a_pod(1)])
    service = a_service()
    service["metadata"]["uid"] = "another"
    plan = plan_slices(service, [a_pod(1)], slices, NODES)
    assert plan.delete == slices
    assert len(plan.create) == 1


def test_pods_of_unknown_nodes_are_left_out_unless_all_are_published() -> None:
    pods = [a_pod(1), a_pod(2, nodeName="n9")]
    plan = plan_slices(a_service(), pods, [], NODES)
    assert names(plan.create) == {"p1"}
    assert plan.missing_nodes == ["n9"]
    plan = plan_slices(a_service(publishNotReadyAddresses=True), pods, [], NODES)
    assert names(plan.create) == {"p1", "p2"}


@pytest.mark.parametrize(
    ("distribution", "hints"),
    [
        (None, None),
        ("PreferClose", {"forZones": [{"name": "z1"}]}),
        ("PreferSameZone", {"forZones": [{"name": "z1"}]}),
        ("PreferSameNode", {"forZones": [{"name": "z1"}], "forNodes": [{"name": "n1"}]}),
    ],
)
def test_endpoints_have_topology_hints(distribution: str | None, hints: Document | None) -> None:
    service = a_service(trafficDistribution=distribution)
    (endpoint_slice,) = settled(service, [a_pod(1), a_pod(2, ready=False)])
    assert [endpoint.get("hints") for endpoint in endpoint_slice["endpoints"]] == [hints, None]


def test_finished_or_unaddressed_pods_are_no_endpoints() -> None:
    ended, early = a_pod(1), a_pod(2)
    ended["status"]["phase"] = "Succeeded"
    early["status"] = {"phase": "Pending"}
    (endpoint_slice,) = settled(a_service(), [ended, early, a_pod(3)])
    assert names([endpoint_slice]) == {"p3"}


def test_a_terminating_pod_is_not_ready_but_may_serve() -> None:
    pod = a_pod(1)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (endpoint_slice,) = settled(a_service(), [pod])
    assert endpoint_slice["endpoints"][0]["conditions"] == {
        "ready": False,
        "serving": True,
        "terminating": True,
    }
