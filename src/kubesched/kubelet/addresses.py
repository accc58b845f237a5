"""Addresses of nodes and pods.

Owns which address belongs to whom. Never writes any: nodes and pods do.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_BLOCK: Final = 256
# The first of a block is the network, the second the bridge.
_FIRST: Final = 2


class AddressesExhaustedError(Exception):
    """There is no address left; the text says of whom."""


class Addresses:
    """The addresses of one cluster."""

    def __init__(self, *, node_cidr: str, pod_cidr: str) -> None:
        self._nodes = ipaddress.ip_network(node_cidr)
        self._pods = ipaddress.ip_network(pod_cidr)
        self._node_ips: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        """Who has an address of a node: node name, or pod uid."""
        self._blocks: dict[str, list[_Block]] = {}
        self._next_block = 0
        self._next_node = 0
        self._pod_ips: dict[str, str] = {}

    def node_ip(self, node: Mapping[str, Any]) -> str:
        """Return the InternalIP of a node: its own, or one that is free."""
        name = node["metadata"]["name"]
        for address in (node.get("status") or {}).get("addresses") or ():
            if address.get("type") == "InternalIP" and address.get("address"):
                self._taken[address["address"]] = name
                return str(address["address"])
        if name not in self._node_ips:
            self._node_ips[name] = self._free_node_ip(name)
        return self._node_ips[name]

    def _free_node_ip(self, name: str) -> str:
        for _ in range(self._nodes.num_addresses - 2):
            self._next_node += 1
            found = str(self._nodes[self._next_node % (self._nodes.num_addresses - 1)])
            if found not in self._taken:
                self._taken[found] = name
                return found
        raise AddressesExhaustedError(f"no address is left for node {name} in {self._nodes}")

    def pod_ip(self, node: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
        """Return the address of a pod: the one it has, or one of its node that is free."""
        uid = pod["metadata"]["uid"]
        known = (pod.get("status") or {}).get("podIP")
        if known:
            self._taken[known] = uid
            self._pod_ips[uid] = known
        if uid not in self._pod_ips:
            found = self._free_pod_ip(node)
            self._taken[found] = uid
            self._pod_ips[uid] = found
        return self._pod_ips[uid]

    def release(self, uid: str) -> None:
        """Let others have the address of a pod."""
        found = self._pod_ips.pop(uid, None)
        if found is not None and self._taken.get(found) == uid:
            del self._taken[found]

    def _free_pod_ip(self, node: Mapping[str, Any]) -> str:
        name = node["metadata"]["name"]
        blocks = self._blocks.get(name)
        if blocks is None:
            cidr = (node.get("spec") or {}).get("podCIDR")
            first = ipaddress.ip_network(cidr, strict=False) if cidr else self._new_block(name)
            blocks = self._blocks[name] = [_Block(first)]
        for block in blocks:
            found = block.free(self._taken)
            if found is not None:
                return found
        # Differs: a real node has as many pods as its range has room for; here no pod waits for it.
        blocks.append(_Block(self._new_block(name)))
        return str(blocks[-1].free(self._taken))

    def _new_block(self, name: str) -> Network:
        first = self._next_block * _BLOCK
        if first >= self._pods.num_addresses:
            raise AddressesExhaustedError(f"no address is left for node {name} in {self._pods}")
        self._next_block += 1
        bits = self._pods.max_prefixlen - _BLOCK.bit_length() + 1
        return ipaddress.ip_network(f"{self._pods[first]}/{bits}")


class _Block:
    """The addresses of one node's pods, or a part of them."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._next = _FIRST

    def free(self, taken: Mapping[str, str]) -> str | None:
        """Return an address that nobody has; None if there is none."""
        size = self._network.num_addresses
        # Round and round, so that an address that was just left is not given away at once.
        for step in range(size):
            offset = (self._next + step) % size
            found = str(self._network[offset])
            if _FIRST <= offset < size - 1 and found not in taken:
                self._next = offset + 1
                return found
        return None
