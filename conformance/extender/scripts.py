"""What scripted extenders do: right answers, odd ones, and every way not to answer.

Owns the scripts, over the bare connection. Never knows which case uses one.
"""

from __future__ import annotations

import copy
from typing import Any

from conformance.extender.server import Exchange, Script


def names_of(exchange: Exchange) -> list[str]:
    """Return the nodes that were asked about, in whichever form."""
    asked = exchange.json
    if asked["NodeNames"] is not None:
        return list(asked["NodeNames"])
    return [node["metadata"]["name"] for node in asked["Nodes"]["items"]]


def says(body: object, code: int = 200, **headers: str) -> Script:
    """Answer this."""
    return lambda exchange: exchange.answer(body, code, **headers)


def keeps(*names: str, **more: Any) -> Script:
    """Keep these nodes, in this order, in the form that was asked for."""

    def script(exchange: Exchange) -> None:
        asked = exchange.json
        if asked["NodeNames"] is not None:
            exchange.answer({"NodeNames": list(names), **more})
            return
        by_name = {node["metadata"]["name"]: node for node in asked["Nodes"]["items"]}
        items = [by_name[name] for name in names if name in by_name]
        exchange.answer({"Nodes": {"items": items}, **more})

    return script


def keeps_all(exchange: Exchange) -> None:
    """Keep every node."""
    keeps(*names_of(exchange))(exchange)


def scores(**by_name: int) -> Script:
    """Give these scores; underscores stand for dashes."""
    return says([{"Host": k.replace("_", "-"), "Score": v} for k, v in by_name.items()])


def first_then(*scripts: Script) -> Script:
    """Answer by one script after the other; the last stays."""
    left = list(scripts)

    def script(exchange: Exchange) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(exchange)

    return script


def sends(data: bytes) -> Script:
    """Send bytes and end the connection."""

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
    """Return the head of an answer."""
    line = f"{kind}: {length}" if length is not None else "Transfer-Encoding: chunked"
    return f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{line}\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    """Return a part of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def resets(exchange: Exchange) -> None:
    """End the connection without an answer, rudely."""
    exchange.reset()


def closes(exchange: Exchange) -> None:
    """End the connection without an answer."""
    exchange.close()


def is_silent(exchange: Exchange) -> None:
    """Do not answer."""
    exchange.stay_silent()


def refuses_all(exchange: Exchange) -> None:
    """Refuse every node, some for good."""
    failed = dict.fromkeys(names_of(exchange), "no such device")
    worse = {"node-b": "device is broken", "node-c": "no such device"}
    keeps(FailedNodes=failed, FailedAndUnresolvableNodes=worse)(exchange)


def returns_a_ghost(exchange: Exchange) -> None:
    """Return a node that does not exist."""
    node = copy.deepcopy(exchange.json["Nodes"]["items"][0])
    node["metadata"]["name"] = "node-ghost"
    exchange.answer({"Nodes": {"items": [node]}})


def spells_oddly(exchange: Exchange) -> None:
    """Answer with keys in odd spelling."""
    exchange.answer({"nodenames": ["node-c"], "ERROR": None, "extra": 1})


def redirects(exchange: Exchange) -> None:
    """Send the scheduler elsewhere."""
    exchange.answer(b"", 307, Location=f"{exchange.path}/elsewhere")


def victims_in(exchange: Exchange) -> dict[str, Any]:
    """Return the victims that were asked about, by node, as the answer names them."""
    asked = exchange.json
    shown = asked["NodeNameToMetaVictims"]
    if shown is not None:
        return dict(shown)
    return {
        name: {
            "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
            "NumPDBViolations": victims["NumPDBViolations"],
        }
        for name, victims in asked["NodeNameToVictims"].items()
    }


def frees(*names: str) -> Script:
    """Have only these nodes freed, of the victims that were asked about."""

    def script(exchange: Exchange) -> None:
        asked = victims_in(exchange)
        kept = {name: asked[name] for name in names if name in asked}
        exchange.answer({"NodeNameToMetaVictims": kept})

    return script


def costs_more(exchange: Exchange) -> None:
    """Say that all but one node break budgets."""
    asked = victims_in(exchange)
    for name, victims in asked.items():
        victims["NumPDBViolations"] = 0 if name == "node-d" else 2
    exchange.answer({"NodeNameToMetaVictims": asked})


def without_victims(exchange: Exchange) -> None:
    """Name no victims but on one node."""
    asked = victims_in(exchange)
    answer = {name: {"Pods": [], "NumPDBViolations": 0} for name in asked}
    exchange.answer({"NodeNameToMetaVictims": {**answer, "node-b": asked["node-b"]}})


def names_a_stranger(exchange: Exchange) -> None:
    """Name a pod that is not there."""
    answer = {"node-b": {"Pods": [{"UID": "not-there"}], "NumPDBViolations": 0}}
    exchange.answer({"NodeNameToMetaVictims": answer})
