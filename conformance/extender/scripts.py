"""Scripts of extenders: valid responses, malformed ones, and every kind of failure."""

from __future__ import annotations

import copy
from typing import Any

from conformance.extender.server import Exchange, Script


def names_of(exchange: Exchange) -> list[str]:
    """Return the names of the nodes in a request, in either form."""
    args = exchange.json
    if args["NodeNames"] is not None:
        return list(args["NodeNames"])
    return [node["metadata"]["name"] for node in args["Nodes"]["items"]]


def responds(body: object, code: int = 200, **headers: str) -> Script:
    """Respond with this body and code."""
    return lambda exchange: exchange.answer(body, code, **headers)


def keeps(*names: str, **more: Any) -> Script:
    """Keep these nodes, in this order, in the form of the request."""

    def script(exchange: Exchange) -> None:
        args = exchange.json
        if args["NodeNames"] is not None:
            exchange.answer({"NodeNames": list(names), **more})
            return
        by_name = {node["metadata"]["name"]: node for node in args["Nodes"]["items"]}
        items = [by_name[name] for name in names if name in by_name]
        exchange.answer({"Nodes": {"items": items}, **more})

    return script


def keeps_all(exchange: Exchange) -> None:
    """Keep every node."""
    keeps(*names_of(exchange))(exchange)


def scores(**by_name: int) -> Script:
    """Return these scores; underscores become hyphens."""
    return responds([{"Host": k.replace("_", "-"), "Score": v} for k, v in by_name.items()])


def first_then(*scripts: Script) -> Script:
    """Use one script per request; the last one for all later requests."""
    left = list(scripts)

    def script(exchange: Exchange) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(exchange)

    return script


def sends(data: bytes) -> Script:
    """Send bytes and close the connection."""

    def script(exchange: Exchange) -> None:
        exchange.send(data)
        exchange.close()

    return script


def sends_and_waits(data: bytes) -> Script:
    """Send bytes and leave the connection open."""

    def script(exchange: Exchange) -> None:
        exchange.send(data)
        exchange.stay_silent()

    return script


def head(length: int | None, kind: str = "Content-Length") -> bytes:
    """Return the head of a response."""
    line = f"{kind}: {length}" if length is not None else "Transfer-Encoding: chunked"
    return f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{line}\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    """Return a chunk of a body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def resets(exchange: Exchange) -> None:
    """Reset the connection without a response."""
    exchange.reset()


def closes(exchange: Exchange) -> None:
    """Close the connection without a response."""
    exchange.close()


def is_silent(exchange: Exchange) -> None:
    """Do not respond."""
    exchange.stay_silent()


def rejects_all(exchange: Exchange) -> None:
    """Reject every node, some as unresolvable."""
    failed = dict.fromkeys(names_of(exchange), "no such device")
    worse = {"node-b": "device is broken", "node-c": "no such device"}
    keeps(FailedNodes=failed, FailedAndUnresolvableNodes=worse)(exchange)


def returns_unknown_node(exchange: Exchange) -> None:
    """Return a node that does not exist."""
    node = copy.deepcopy(exchange.json["Nodes"]["items"][0])
    node["metadata"]["name"] = "node-ghost"
    exchange.answer({"Nodes": {"items": [node]}})


def uses_other_case(exchange: Exchange) -> None:
    """Respond with keys in a different case."""
    exchange.answer({"nodenames": ["node-c"], "ERROR": None, "extra": 1})


def redirects(exchange: Exchange) -> None:
    """Redirect the scheduler."""
    exchange.answer(b"", 307, Location=f"{exchange.path}/elsewhere")


def victims_in(exchange: Exchange) -> dict[str, Any]:
    """Return the victims in a request by node, in the form of the response."""
    args = exchange.json
    meta_victims = args["NodeNameToMetaVictims"]
    if meta_victims is not None:
        return dict(meta_victims)
    return {
        name: {
            "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
            "NumPDBViolations": victims["NumPDBViolations"],
        }
        for name, victims in args["NodeNameToVictims"].items()
    }


def frees(*names: str) -> Script:
    """Keep only these nodes, with the victims of the request."""

    def script(exchange: Exchange) -> None:
        candidates = victims_in(exchange)
        kept = {name: candidates[name] for name in names if name in candidates}
        exchange.answer({"NodeNameToMetaVictims": kept})

    return script


def costs_more(exchange: Exchange) -> None:
    """Report budget violations on all nodes but one."""
    candidates = victims_in(exchange)
    for name, victims in candidates.items():
        victims["NumPDBViolations"] = 0 if name == "node-d" else 2
    exchange.answer({"NodeNameToMetaVictims": candidates})


def without_victims(exchange: Exchange) -> None:
    """Return victims on one node only."""
    candidates = victims_in(exchange)
    answer = {name: {"Pods": [], "NumPDBViolations": 0} for name in candidates}
    exchange.answer({"NodeNameToMetaVictims": {**answer, "node-b": candidates["node-b"]}})


def returns_unknown_victim(exchange: Exchange) -> None:
    """Return a victim that does not exist."""
    answer = {"node-b": {"Pods": [{"UID": "not-there"}], "NumPDBViolations": 0}}
    exchange.answer({"NodeNameToMetaVictims": answer})
