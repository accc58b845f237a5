"""Packing and truncation of Endpoints subsets."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.controllers.endpoints.subsets import repack_subsets, truncate_subsets

Document = dict[str, Any]
HTTP, ALT = {"name": "http", "port": 80}, {"name": "alt", "port": 81}


def address(ip: str, uid: str = "") -> Document:
    return {"ip": ip, "targetRef": {"kind": "Pod", "uid": uid or ip}}


def test_addresses_with_the_same_ports_are_one_subset() -> None:
    first, second = address("10.0.0.2"), address("10.0.0.1")
    assert repack_subsets(
        [
            {"addresses": [first], "ports": [HTTP]},
            {"addresses": [first], "ports": [ALT]},
            {"addresses": [second], "ports": [HTTP]},
            {"addresses": [second], "ports": [ALT]},
        ]
    ) == [{"addresses": [second, first], "ports": [ALT, HTTP]}]


def test_addresses_with_other_ports_are_another_subset() -> None:
    first, second = address("10.0.0.1"), address("10.0.0.2")
    packed = repack_subsets(
        [
            {"addresses": [first], "ports": [HTTP]},
            {"addresses": [second], "ports": [HTTP]},
            {"addresses": [second], "ports": [ALT]},
        ]
    )
    assert len(packed) == 2
    assert {"addresses": [first, second], "ports": [HTTP]} in packed
    assert {"addresses": [second], "ports": [ALT]} in packed


def test_not_ready_addresses_are_listed_separately() -> None:
    first, second = address("10.0.0.1"), address("10.0.0.2")
    assert repack_subsets(
        [{"addresses": [first], "ports": [HTTP]}, {"notReadyAddresses": [second], "ports": [HTTP]}]
    ) == [{"addresses": [first], "notReadyAddresses": [second], "ports": [HTTP]}]


def test_not_ready_takes_precedence() -> None:
    first = address("10.0.0.1")
    assert repack_subsets(
        [{"addresses": [first], "ports": [HTTP]}, {"notReadyAddresses": [first], "ports": [HTTP]}]
    ) == [{"notReadyAddresses": [first], "ports": [HTTP]}]


def test_two_pods_may_share_an_address() -> None:
    first, second = address("10.0.0.1", "a"), address("10.0.0.1", "b")
    (subset,) = repack_subsets([{"addresses": [second, first], "ports": [HTTP]}])
    assert subset["addresses"] == [first, second]


def test_there_may_be_no_ports() -> None:
    first = address("10.0.0.1")
    assert repack_subsets([{"addresses": [first]}]) == [{"addresses": [first]}]
    assert repack_subsets([]) == []


def test_packing_twice_changes_nothing() -> None:
    subsets = [
        {"addresses": [address(f"10.0.0.{number}")], "ports": [HTTP if number % 2 else ALT]}
        for number in range(9)
    ]
    assert repack_subsets(repack_subsets(subsets)) == repack_subsets(subsets)


def many(number: int, start: int = 0) -> list[Document]:
    return [address(f"10.{index // 250}.0.{index % 250}") for index in range(start, start + number)]


def test_a_thousand_addresses_are_not_too_many() -> None:
    assert truncate_subsets([{"addresses": many(600), "notReadyAddresses": many(400, 600)}]) is None


def test_not_ready_addresses_are_dropped_first() -> None:
    cut = truncate_subsets([{"addresses": many(900), "notReadyAddresses": many(300, 900)}])
    assert cut is not None
    assert len(cut[0]["addresses"]) == 900
    assert len(cut[0]["notReadyAddresses"]) == 100


def test_each_subset_keeps_its_share() -> None:
    cut = truncate_subsets(
        [
            {"addresses": many(1500), "notReadyAddresses": many(9), "ports": [HTTP]},
            {"addresses": many(500), "ports": [ALT]},
        ]
    )
    assert cut is not None
    assert [len(subset["addresses"]) for subset in cut] == [750, 250]
    assert all("notReadyAddresses" not in subset for subset in cut)
    assert [subset["ports"] for subset in cut] == [[HTTP], [ALT]]
