"""IP addresses of nodes and pods.

Owns the allocation. Never writes them to objects.
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
    """No address is left for a node."""


class Addresses:
    """The addresses of one cluster."""

    def __init__(self, *, node_cidr: str, pod_cidr: str) -> None:
        self._nodes = ipaddress.ip_network(node_cidr)
        self._pods = ipaddress.ip_network(pod_cidr)
        self._node_ips: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        """Owner of each address: node name or pod uid."""
        self._blocks: dict[str, list[_Block]] = {}
        self._next_block = 0
        self._next_node = 0
        self._pod_ips: dict[str, str] = {}

    def node_ip(self, node: Mapping[str, Any]) -> str:
        """Return a node's InternalIP: the one it has, or a free one."""
        name = node["metadata"]["name"]
        for address in (node.get("status") or {}).get("addresses") or ():
            if address.get("type") == "InternalIP" and address.get("address"):
                self._owners[address["address"]] = name
                return str(address["address"])
        if name not in self._node_ips:
            self._node_ips[name] = self._free_node_ip(name)
        return self._node_ips[name]

    def _free_node_ip(self, name: str) -> str:
        for _ in range(self._nodes.num_addresses - 2):
            self._next_node += 1
            address = str(self._nodes[self._next_node % (self._nodes.num_addresses - 1)])
            if address not in self._owners:
                self._owners[address] = name
                return address
        raise AddressesExhaustedError(f"no address is left for node {name} in {self._nodes}")

    def pod_ip(self, node: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
        """Return a pod's address: the one it has, or a free one of its node."""
        uid = pod["metadata"]["uid"]
        known = (pod.get("status") or {}).get("podIP")
        if known:
            self._owners[known] = uid
            self._pod_ips[uid] = known
        if uid not in self._pod_ips:
            address = self._free_pod_ip(node)
            self._owners[address] = uid
            self._pod_ips[uid] = address
        return self._pod_ips[uid]

    def release(self, uid: str) -> None:
        """Release the address of a pod."""
        address = self._pod_ips.pop(uid, None)
        if address is not None and self._owners.get(address) == uid:
            del self._owners[address]

    def _free_pod_ip(self, node: Mapping[str, Any]) -> str:
        name = node["metadata"]["name"]
        blocks = self._blocks.get(name)
        if blocks is None:
            cidr = (node.get("spec") or {}).get("podCIDR")
            first = ipaddress.ip_network(cidr, strict=False) if cidr else self._new_block(name)
            blocks = self._blocks[name] = [_Block(first)]
        for block in blocks:
            address = block.allocate(self._owners)
            if address is not None:
                return address
        # Differs: a real node is limited by its pod CIDR; here it gets another block.
        blocks.append(_Block(self._new_block(name)))
        return str(blocks[-1].allocate(self._owners))

    def _new_block(self, name: str) -> Network:
        first = self._next_block * _BLOCK
        if first >= self._pods.num_addresses:
            raise AddressesExhaustedError(f"no address is left for node {name} in {self._pods}")
        self._next_block += 1
        bits = self._pods.max_prefixlen - _BLOCK.bit_length() + 1
        return ipaddress.ip_network(f"{self._pods[first]}/{bits}")


class _Block:
    """A block of pod addresses of one node."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._next = _FIRST

    def allocate(self, owners: Mapping[str, str]) -> str | None:
        """Return an unused address; None if there is none."""
        size = self._network.num_addresses
        # Round robin, so that a released address is not reused at once.
        for step in range(size):
            offset = (self._next + step) % size
            address = str(self._network[offset])
            if _FIRST <= offset < size - 1 and address not in owners:
                self._next = offset + 1
                return address
        return None
