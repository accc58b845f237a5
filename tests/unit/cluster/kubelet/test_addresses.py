"""Allocation of node and pod addresses."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.kubelet.addresses import Addresses, AddressesExhaustedError


def a_node(name: str, ip: str = "", cidr: str = "") -> dict[str, Any]:
    addresses = [{"type": "InternalIP", "address": ip}] if ip else []
    spec = {"podCIDR": cidr} if cidr else {}
    return {"metadata": {"name": name}, "spec": spec, "status": {"addresses": addresses}}


def a_pod(uid: str, ip: str = "") -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "status": {"podIP": ip} if ip else {}}


@pytest.fixture
def addresses() -> Addresses:
    return Addresses(node_cidr="10.200.0.0/24", pod_cidr="10.64.0.0/22")


def test_nodes_keep_their_address_or_get_a_free_one(addresses: Addresses) -> None:
    assert addresses.node_ip(a_node("has", "10.200.0.1")) == "10.200.0.1"
    assert addresses.node_ip(a_node("one")) == "10.200.0.2"
    assert addresses.node_ip(a_node("two")) == "10.200.0.3"
    assert addresses.node_ip(a_node("one")) == "10.200.0.2"


def test_pods_of_a_node_share_a_block(addresses: Addresses) -> None:
    first, second = a_node("one"), a_node("two")
    assert addresses.pod_ip(first, a_pod("a")) == "10.64.0.2"
    assert addresses.pod_ip(second, a_pod("b")) == "10.64.1.2"
    assert addresses.pod_ip(first, a_pod("c")) == "10.64.0.3"
    assert addresses.pod_ip(first, a_pod("a")) == "10.64.0.2"
    own = a_node("own", cidr="172.16.5.0/24")
    assert addresses.pod_ip(own, a_pod("d")) == "172.16.5.2"


def test_known_addresses_are_kept(addresses: Addresses) -> None:
    node = a_node("one")
    assert addresses.pod_ip(node, a_pod("old", "10.64.0.2")) == "10.64.0.2"
    assert addresses.pod_ip(node, a_pod("new")) == "10.64.0.3"


def test_released_addresses_are_reused_last(addresses: Addresses) -> None:
    node = a_node("one")
    first = addresses.pod_ip(node, a_pod("first"))
    addresses.release("first")
    others = [addresses.pod_ip(node, a_pod(f"pod-{number}")) for number in range(253)]
    assert first not in others[:-1]
    assert others[-1] == first
    assert len({*others}) == 253


def test_a_full_node_gets_another_block_until_there_is_none(addresses: Addresses) -> None:
    node = a_node("one")
    ips = [addresses.pod_ip(node, a_pod(f"pod-{number}")) for number in range(4 * 253)]
    assert len({*ips}) == 4 * 253
    with pytest.raises(AddressesExhaustedError, match="node one"):
        addresses.pod_ip(node, a_pod("one-more"))
