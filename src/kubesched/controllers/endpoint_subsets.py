"""The addresses behind a service, in the form that Endpoints have.

Owns how addresses and ports are gathered, their order, and how many there may be. Never reads or
writes anything.
Upstream: pkg/api/v1/endpoints/util.go RepackSubsets, pkg/controller/endpoint/
endpoints_controller.go truncateEndpoints
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from kubesched.client.cached.documents import Document

ADDRESSES_MAX: Final = 1000
_READY: Final = "addresses"
_NOT_READY: Final = "notReadyAddresses"


def repacked(subsets: Iterable[Document]) -> list[Document]:
    """Return subsets such that each group of ports is there once, in a fixed order.

    An address that is both ready and not ready for a port is not ready.
    """
    by_port: dict[bytes, dict[tuple[str, str], tuple[Document, bool]]] = {}
    for subset in subsets:
        for port in subset.get("ports") or [None]:
            hosts = by_port.setdefault(_text(port), {})
            for address, is_ready in _addresses(subset):
                key = (address["ip"], (address.get("targetRef") or {}).get("uid", ""))
                known = hosts.get(key)
                if known is None or known[1]:
                    hosts[key] = (address, is_ready)
    by_hosts: dict[bytes, list[bytes]] = {}
    for port_text, hosts in by_port.items():
        same = _text([(list(key), hosts[key][1]) for key in sorted(hosts)])
        by_hosts.setdefault(same, []).append(port_text)
    packed = [_subset(by_port[ports[0]], ports) for ports in by_hosts.values()]
    return sorted(packed, key=_text)


def truncated(subsets: list[Document]) -> list[Document] | None:
    """Return subsets with no more addresses than there may be; None if they have none too many.

    Parity: endpoints_controller.go truncateEndpoints, v1.36: ready ones stay first, and each
    subset keeps its part.
    """
    ready = sum(len(one.get(_READY) or ()) for one in subsets)
    not_ready = sum(len(one.get(_NOT_READY) or ()) for one in subsets)
    if ready + not_ready <= ADDRESSES_MAX:
        return None
    cuts_ready = ready > ADDRESSES_MAX
    part = _READY if cuts_ready else _NOT_READY
    room = ADDRESSES_MAX if cuts_ready else ADDRESSES_MAX - ready
    total, left = (ready if cuts_ready else not_ready), room
    result: list[Document] = []
    for subset in subsets:
        found = subset.get(part) or []
        kept = found[: min(math.ceil(len(found) / total * room), left)]
        left -= len(kept)
        cut = {name: value for name, value in subset.items() if name != part}
        if cuts_ready:
            cut.pop(_NOT_READY, None)
        result.append({**cut, part: kept} if kept else cut)
    return result


def _addresses(subset: Document) -> Iterator[tuple[Document, bool]]:
    for address in subset.get(_READY) or ():
        yield address, True
    for address in subset.get(_NOT_READY) or ():
        yield address, False


def _subset(
    hosts: dict[tuple[str, str], tuple[Document, bool]], port_texts: list[bytes]
) -> Document:
    found: Document = {}
    for part, wanted in ((_READY, True), (_NOT_READY, False)):
        listed = [hosts[key][0] for key in sorted(hosts) if hosts[key][1] is wanted]
        if listed:
            found[part] = listed
    ports = [msgspec.json.decode(text) for text in sorted(port_texts)]
    if ports != [None]:
        found["ports"] = [port for port in ports if port is not None]
    return found


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
