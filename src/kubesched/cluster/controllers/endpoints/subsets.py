"""Packing and truncation of the subsets of Endpoints.

Pure functions.
Upstream: pkg/api/v1/endpoints/util.go RepackSubsets, pkg/controller/endpoint/
endpoints_controller.go truncateEndpoints
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from kubesched.api.documents import Document

ADDRESSES_MAX: Final = 1000
_READY: Final = "addresses"
_NOT_READY: Final = "notReadyAddresses"


def repack_subsets(subsets: Iterable[Document]) -> list[Document]:
    """Return subsets with each combination of ports once, in canonical order.

    An address that is both ready and not ready for a port is not ready.
    """
    by_port: dict[bytes, dict[tuple[str, str], tuple[Document, bool]]] = {}
    for subset in subsets:
        for port in subset.get("ports") or [None]:
            hosts = by_port.setdefault(_encoded(port), {})
            for address, is_ready in _addresses(subset):
                key = (address["ip"], (address.get("targetRef") or {}).get("uid", ""))
                known = hosts.get(key)
                if known is None or known[1]:
                    hosts[key] = (address, is_ready)
    by_hosts: dict[bytes, list[bytes]] = {}
    for port_text, hosts in by_port.items():
        hosts_text = _encoded([(list(key), hosts[key][1]) for key in sorted(hosts)])
        by_hosts.setdefault(hosts_text, []).append(port_text)
    packed = [_subset(by_port[ports[0]], ports) for ports in by_hosts.values()]
    return sorted(packed, key=_encoded)


def truncate_subsets(subsets: list[Document]) -> list[Document] | None:
    """Return subsets limited to ADDRESSES_MAX addresses; None if they are within it.

    Parity: endpoints_controller.go truncateEndpoints, v1.36: ready ones are kept first, and each
    subset keeps its share.
    """
    ready = sum(len(subset.get(_READY) or ()) for subset in subsets)
    not_ready = sum(len(subset.get(_NOT_READY) or ()) for subset in subsets)
    if ready + not_ready <= ADDRESSES_MAX:
        return None
    cuts_ready = ready > ADDRESSES_MAX
    field = _READY if cuts_ready else _NOT_READY
    limit = ADDRESSES_MAX if cuts_ready else ADDRESSES_MAX - ready
    total, remaining = (ready if cuts_ready else not_ready), limit
    result: list[Document] = []
    for subset in subsets:
        addresses = subset.get(field) or []
        kept = addresses[: min(math.ceil(len(addresses) / total * limit), remaining)]
        remaining -= len(kept)
        rest = {name: value for name, value in subset.items() if name != field}
        if cuts_ready:
            rest.pop(_NOT_READY, None)
        result.append({**rest, field: kept} if kept else rest)
    return result


def _addresses(subset: Document) -> Iterator[tuple[Document, bool]]:
    for address in subset.get(_READY) or ():
        yield address, True
    for address in subset.get(_NOT_READY) or ():
        yield address, False


def _subset(
    hosts: dict[tuple[str, str], tuple[Document, bool]], port_texts: list[bytes]
) -> Document:
    subset: Document = {}
    for field, is_ready in ((_READY, True), (_NOT_READY, False)):
        addresses = [hosts[key][0] for key in sorted(hosts) if hosts[key][1] is is_ready]
        if addresses:
            subset[field] = addresses
    ports = [msgspec.json.decode(text) for text in sorted(port_texts)]
    if ports != [None]:
        subset["ports"] = [port for port in ports if port is not None]
    return subset


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
