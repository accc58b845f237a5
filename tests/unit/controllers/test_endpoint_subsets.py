"""Addresses and ports, gathered as Endpoints have them."""

from __future__ import annotations

from typing import Any

from kubesched.controllers.endpoint_subsets import repacked, truncated

Document = dict[str, Any]
HTTP, ALT = {"name": "http", "port": 80}, {"name": "alt", "port": 81}


def address(ip: str, uid: str = "") -> Document:
    return {"ip": ip, "targetRef": {"kind": "Pod", "uid": uid or ip}}


def test_addresses_with_the_same_ports_are_one_subset() -> None:
    one, two = address("10.0.0.2"), address("10.0.0.1")
    assert repacked(
        [
            {"addresses": [one], "ports": [HTTP]},
            {"addresses": [one], "ports": [ALT]},
            {"addresses": [two], "ports": [HTTP]},
            {"addresses": [two], "ports": [ALT]},
        ]
    ) == [{"addresses": [two, one], "ports": [ALT, HTTP]}]


def test_addresses_with_other_ports_are_another_subset() -> None:
    one, two = address("10.0.0.1"), address("10.0.0.2")
    packed = repacked(
        [
            {"addresses": [one], "ports": [HTTP]},
            {"addresses": [two], "ports": [HTTP]},
            {"addresses": [two], "ports": [ALT]},
        ]
    )
    assert len(packed) == 2
    assert {"addresses": [one, two], "ports": [HTTP]} in packed
    assert {"addresses": [two], "ports": [ALT]} in packed


def test_who_is_not_ready_is_beside_who_is() -> None:
    one, two = address("10.0.0.1"), address("10.0.0.2")
    assert repacked(
        [{"addresses": [one], "ports": [HTTP]}, {"notReadyAddresses": [two], "ports": [HTTP]}]
    ) == [{"addresses": [one], "notReadyAddresses": [two], "ports": [HTTP]}]


def test_not_ready_goes_before_ready() -> None:
    one = address("10.0.0.1")
    assert repacked(
        [{"addresses": [one], "ports": [HTTP]}, {"notReadyAddresses": [one], "ports": [HTTP]}]
    ) == [{"notReadyAddresses": [one], "ports": [HTTP]}]


def test_two_pods_may_share_an_address() -> None:
    one, two = address("10.0.0.1", "a"), address("10.0.0.1", "b")
    (subset,) = repacked([{"addresses": [two, one], "ports": [HTTP]}])
    assert subset["addresses"] == [one, two]


def test_there_may_be_no_ports() -> None:
    one = address("10.0.0.1")
    assert repacked([{"addresses": [one]}]) == [{"addresses": [one]}]
    assert repacked([]) == []


def test_packing_twice_changes_nothing() -> None:
    subsets = [
        {"addresses": [address(f"10.0.0.{number}")], "ports": [HTTP if number % 2 else ALT]}
        for number in range(9)
    ]
    assert repacked(repacked(subsets)) == repacked(subsets)


def many(number: int, start: int = 0) -> list[Document]:
    return [address(f"10.{one // 250}.0.{one % 250}") for one in range(start, start + number)]


def test_a_thousand_addresses_are_not_too_many() -> None:
    assert truncated([{"addresses": many(600), "notReadyAddresses": many(400, 600)}]) is None


def test_who_is_not_ready_is_left_out_first() -> None:
    cut = truncated([{"addresses": many(900), "notReadyAddresses": many(300, 900)}])
    assert cut is not None
    assert len(cut[0]["addresses"]) == 900
    assert len(cut[0]["notReadyAddresses"]) == 100


def test_each_subset_keeps_its_part() -> None:
    cut = truncated(
        [
            {"addresses": many(1500), "notReadyAddresses": many(9), "ports": [HTTP]},
            {"addresses": many(500), "ports": [ALT]},
        ]
    )
    assert cut is not None
    assert [len(one["addresses"]) for one in cut] == [750, 250]
    assert all("notReadyAddresses" not in one for one in cut)
    assert [one["ports"] for one in cut] == [[HTTP], [ALT]]
