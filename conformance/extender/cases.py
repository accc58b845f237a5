"""Cases for both schedulers: extenders, their responses, and pods.

kube-scheduler's results are the expected ones.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from conformance.extender.scripts import (
    chunk,
    closes,
    costs_more,
    first_then,
    frees,
    head,
    is_silent,
    keeps,
    keeps_all,
    redirects,
    rejects_all,
    resets,
    responds,
    returns_unknown_node,
    returns_unknown_victim,
    scores,
    sends,
    sends_and_waits,
    uses_other_case,
    without_victims,
)
from conformance.extender.server import Exchange, Script
from kubesched.cluster.launch.certificates import CertificateFiles

Json: TypeAlias = dict[str, Any]
DOMAIN = "example.com"
NODES = ("node-a", "node-b", "node-c", "node-d")
TIMEOUT = "15s"
# The timeout of extenders that do not respond.
SHORT_TIMEOUT = "700ms"
PRIORITIES = {"high": 100, "middle": 10, "low": 0}


@dataclass(frozen=True, slots=True)
class Extender:
    """One extender of a case; it manages a resource of its name."""

    name: str
    verbs: Mapping[str, Script]
    config: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""
    """Its URL, if it is not the scripted server."""
    is_for_all: bool = False
    """Whether it is called for every pod."""
    is_secure: bool = False
    """Whether it is called over TLS."""

    @property
    def resource(self) -> str:
        """Return the resource that it manages."""
        return f"{DOMAIN}/{self.name}"

    def stanza(self, server_url: str) -> Json:
        """Return its part of the configuration."""
        stanza: Json = {
            "urlPrefix": self.url or f"{server_url}/{self.name}",
            "httpTimeout": TIMEOUT,
        }
        stanza |= {f"{verb}Verb": verb for verb in self.verbs}
        if "prioritize" in self.verbs:
            stanza["weight"] = 1
        if not self.is_for_all:
            managed = {"name": self.resource, "ignoredByScheduler": True}
            stanza["managedResources"] = [managed]
        return stanza | dict(self.config)


@dataclass(frozen=True, slots=True)
class Case:
    """Some extenders, and a pod for which they are called."""

    name: str
    extenders: Sequence[Extender]
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the pod's spec."""
    in_process: Sequence[Json] = ()
    """Pods that are already bound."""
    in_short: bool = True
    until: str = "settled"
    """The end of the case: the pod is `settled`, bound or rejected; it is `bound` by any attempt;
    it is bound, and that is `hidden` from the scheduler."""


# -- filter ----------------------------------------------------------------------------------------

ONE = b'{"NodeNames":["node-b"]}'
CAPABLE = {"nodeCacheCapable": True}


def filtering(name: str, script: Script, *, in_short: bool = True, **config: Any) -> list[Case]:
    """Return a case for each setting of nodeCacheCapable."""
    made = []
    for suffix, capable in (("names", True), ("nodes", False)):
        label = f"{name}-{suffix}"
        extender = Extender(label, {"filter": script}, {"nodeCacheCapable": capable, **config})
        made.append(Case(label, [extender], in_short=in_short))
    return made


def wrong(name: str, script: Script, *, in_short: bool = True, **config: Any) -> list[Case]:
    """Return a case of a failing filter, and one of an ignorable extender."""
    hard = Extender(name, {"filter": script}, {**CAPABLE, **config})
    soft = Extender(f"{name}-ignorable", {"filter": script}, {**hard.config, "ignorable": True})
    return [Case(hard.name, [hard], in_short=in_short), Case(soft.name, [soft], in_short=False)]


def filter_cases() -> list[Case]:
    """Return the cases of filtering."""
    return [
        *filtering("keeps-one", keeps("node-c", FailedNodes={"node-a": "busy"})),
        *filtering("keeps-none", rejects_all),
        *filtering("drops-silently", keeps()),
        *filtering("empty-object", responds({}), in_short=False),
        *filtering("null", responds(None), in_short=False),
        *filtering("rejects-some", keeps("node-d", FailedAndUnresolvableNodes={"node-a": "x"})),
        *filtering("has-an-error", responds({"Error": "the extender is tired"})),
        *wrong("unknown-name", responds({"NodeNames": ["node-a", "node-x"]})),
        *wrong("lower-case", uses_other_case),
        *wrong("text-after", responds(ONE + b" and more")),
        Case(
            "unknown-node-object",
            [Extender("unknown-node-object", {"filter": returns_unknown_node})],
        ),
        Case("no-filter", [Extender("no-filter", {"prioritize": scores(node_d=9)}, CAPABLE)]),
    ]


def fault_cases() -> list[Case]:
    """Return the cases of extenders that fail."""
    whole, part = head(len(ONE)) + ONE, head(len(ONE) + 40) + ONE
    dead = Extender("dead-port", {"filter": keeps_all}, CAPABLE, url="http://127.0.0.1:1/dead")
    ignored = Extender(
        "ignored-dead-port",
        {"filter": keeps_all},
        {**CAPABLE, "ignorable": True},
        url="http://127.0.0.1:1/dead",
    )
    return [
        Case(dead.name, [dead]),
        Case(ignored.name, [ignored]),
        *wrong("code-500", responds(b"oh no", 500)),
        *wrong("code-404", responds(ONE, 404), in_short=False),
        *wrong("code-204", sends(b"HTTP/1.1 204 No Content\r\n\r\n"), in_short=False),
        *wrong("silent", is_silent, httpTimeout=SHORT_TIMEOUT),
        *wrong(
            "silent-in-body",
            sends_and_waits(part[:-9]),
            in_short=False,
            httpTimeout=SHORT_TIMEOUT,
        ),
        *wrong("silent-after-object", sends_and_waits(head(None) + chunk(ONE))),
        *wrong("closes", closes),
        *wrong("resets", resets, in_short=False),
        *wrong("half-head", sends(whole.partition(b"Content-Length")[0]), in_short=False),
        *wrong("half-body", sends(head(len(ONE)) + ONE[:10])),
        *wrong("short-body", sends(part), in_short=False),
        *wrong("half-chunked", sends(head(None) + chunk(ONE[:9]))),
        *wrong("empty", responds(b"")),
        *wrong("not-http", sends(b"hello, this is not HTTP\r\n\r\n")),
        *wrong("tls-bytes", sends(b"\x16\x03\x01nonsense\r\n\r\n"), in_short=False),
        *wrong("wrong-version", sends(b"HTTQ/1.1 200 OK\r\n\r\n"), in_short=False),
        *wrong("not-json", responds(b"<html>502 Bad Gateway</html>")),
        *wrong("cut-json", responds(ONE[:-3]), in_short=False),
        *wrong("wrong-type", responds({"NodeNames": "node-b"})),
        *wrong("wrong-element", responds({"NodeNames": ["node-b", 3]}), in_short=False),
        *wrong("wrong-map", responds({"NodeNames": ["node-b"], "FailedNodes": {"a": 1}})),
        *wrong("a-list", responds([1]), in_short=False),
        *wrong("bad-literal", responds(b'{"NodeNames": nope}'), in_short=False),
        *wrong("bad-escape", responds(b'{"Error": "\\x"}'), in_short=False),
        *wrong("redirected", redirects, in_short=False),
        Case(
            "works-the-second-time",
            [
                Extender(
                    "works-the-second-time",
                    {"filter": first_then(responds(b"", 503), keeps("node-b"))},
                    CAPABLE,
                )
            ],
            until="bound",
        ),
    ]


# -- prioritize ------------------------------------------------------------------------------------


def scoring(name: str, script: Script, *, in_short: bool = True, **config: Any) -> list[Case]:
    """Return a case with names, and one with whole nodes."""
    named = Extender(name, {"prioritize": script}, {**CAPABLE, "weight": 5, **config})
    whole = Extender(f"{name}-nodes", {"prioritize": script}, {"weight": 5, **config})
    return [Case(named.name, [named], in_short=in_short), Case(whole.name, [whole], in_short=False)]


def prioritize_cases() -> list[Case]:
    """Return the cases of scoring."""
    second = responds({}, 500)
    chain = [
        Extender("chain-one", {"filter": keeps("node-d", "node-b", "node-a")}, CAPABLE),
        Extender("chain-two", {"filter": keeps("node-a", "node-b"), "prioritize": second}),
        Extender("chain-three", {"prioritize": scores(node_b=3, node_d=10)}, CAPABLE),
        Extender(
            "chain-four",
            {"filter": keeps("node-b"), "prioritize": scores(node_a=9)},
            {**CAPABLE, "ignorable": True},
        ),
    ]
    tug = [
        Extender("tug-one", {"prioritize": scores(node_a=10, node_c=2)}, {"weight": 2}),
        Extender("tug-two", {"prioritize": scores(node_c=7, node_d=1)}, {"weight": 3}),
    ]
    alone = {"filter": keeps("node-c"), "prioritize": scores(node_a=10)}
    return [
        *scoring("likes-one", scores(node_c=10)),
        *scoring("dislikes", scores(node_a=-100, node_b=-100, node_d=-100)),
        *scoring("far-off", scores(node_a=4000), in_short=False),
        *scoring("overflow", scores(node_d=2**62, node_a=2**58), in_short=False),
        *scoring("no-list", responds({"Host": "node-a", "Score": 10})),
        *scoring("a-fraction", responds([{"Host": "node-a", "Score": 7.5}]), in_short=False),
        *scoring(
            "twice", responds([{"Host": "node-b", "Score": 40}, {"Host": "node-b", "Score": 40}])
        ),
        *scoring("unknown-host", scores(node_x=10, node_b=10)),
        *scoring("lower-case-scores", responds([{"host": "node-d", "score": 10}])),
        Case("chain", chain),
        Case("tug", tug),
        Case("alone", [Extender("alone", alone, CAPABLE)]),
    ]


# -- preempt ---------------------------------------------------------------------------------------


def _resident(name: str, node: str, priority: str) -> Json:
    return {
        "metadata": {"name": name, "labels": {"app": name.rpartition("-")[0]}},
        "spec": {
            "nodeName": node,
            "priorityClassName": priority,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1800m"}}}
            ],
        },
    }


def _full() -> list[Json]:
    return [
        _resident(f"old-{letter}{number}", f"node-{letter}", priority)
        for letter in "abcd"
        for number, priority in enumerate(("low", "middle"))
    ]


def preempting(name: str, script: Script, *, in_short: bool = True, **config: Any) -> list[Case]:
    """Return a case for each setting of nodeCacheCapable."""
    made = []
    for suffix, capable in (("names", True), ("pods", False)):
        label = f"{name}-{suffix}"
        extender = Extender(label, {"preempt": script}, {"nodeCacheCapable": capable, **config})
        made.append(_preemption(label, [extender], in_short=in_short and capable))
    return made


def _preemption(name: str, extenders: Sequence[Extender], *, in_short: bool = True) -> Case:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    pod = {"priorityClassName": "high", "containers": [container]}
    return Case(name, extenders, pod, _full(), in_short)


def preempt_cases() -> list[Case]:
    """Return the cases of preemption."""
    pair = [
        Extender("pair-one", {"preempt": frees("node-b", "node-c")}, CAPABLE),
        Extender("pair-two", {"preempt": frees("node-c", "node-d")}),
    ]
    soft = {"ignorable": True}
    return [
        *preempting("frees-one", frees("node-c")),
        *preempting("costs-more", costs_more),
        *preempting("frees-none", responds({"NodeNameToMetaVictims": {}})),
        *preempting("no-map", responds({}), in_short=False),
        *preempting("unknown-victim", returns_unknown_victim),
        *preempting("unknown-node", responds({"NodeNameToMetaVictims": {"node-x": {"Pods": []}}})),
        *preempting("no-victims", responds({"NodeNameToMetaVictims": {"node-b": {"Pods": []}}})),
        *preempting("some-without", without_victims, ignorable=True),
        *preempting("preempt-500", responds(b"", 500)),
        *preempting("preempt-json", responds(b"["), in_short=False),
        _preemption("pair", pair),
        _preemption(
            "ignored-and-called",
            [
                Extender(
                    "ignored-and-called", {"preempt": responds(b"", 500)}, {**CAPABLE, **soft}
                ),
                Extender("called-after", {"preempt": frees("node-a")}, CAPABLE),
            ],
        ),
        _preemption(
            "rejected-but-resolvable",
            [
                Extender(
                    "rejected-but-resolvable",
                    {"filter": keeps_all, "preempt": frees("node-d")},
                    CAPABLE,
                )
            ],
        ),
    ]


# -- groups ----------------------------------------------------------------------------------------

Binder: TypeAlias = Callable[[Json], None]


def bind_cases(bind: Binder) -> list[Case]:
    """Return the cases of binding; only one extender may bind."""
    scripts: dict[str, Script] = {}

    def script(exchange: Exchange) -> None:
        name = exchange.json["PodName"].partition(".")[0]
        scripts[name](exchange)

    def binds(exchange: Exchange) -> None:
        bind(exchange.json)
        exchange.answer({"Error": ""})

    def binds_and_fails(exchange: Exchange) -> None:
        bind(exchange.json)
        exchange.answer(b"", 500)

    scripts["bind-works"] = binds
    scripts["bind-rejects"] = responds({"Error": "no room at the inn"})
    scripts["bind-500"] = responds(b"", 500)
    scripts["bind-silent"] = is_silent
    scripts["bind-json"] = responds(b"what?")
    scripts["bind-second-time"] = first_then(responds({"Error": "not yet"}), binds)
    scripts["bind-hidden"] = binds_and_fails
    until = {"bind-second-time": "bound", "bind-hidden": "hidden"}
    binder = Extender(
        "binder",
        {"bind": script, "filter": keeps("node-b", "node-c")},
        {**CAPABLE, "httpTimeout": "3s"},
    )
    return [Case(name, [binder], until=until.get(name, "settled")) for name in scripts]


def for_all_cases() -> list[Case]:
    """Return the cases of extenders for every pod; an ignorable one is listed first."""
    listed = [
        Extender(
            "all-ignorable",
            {
                "filter": keeps("node-a", "node-b", "node-c"),
                "bind": responds({"Error": "not today"}),
            },
            {**CAPABLE, "ignorable": True},
            is_for_all=True,
        ),
        Extender(
            "all-whole",
            {"filter": keeps_all, "prioritize": scores(node_c=10)},
            {"weight": 9},
            is_for_all=True,
        ),
        Extender(
            "all-secure",
            {"filter": keeps_all},
            {**CAPABLE, "enableHTTPS": True},
            is_for_all=True,
            is_secure=True,
        ),
    ]
    return [Case("for-all", listed)]


def trusted_cases(files: CertificateFiles) -> list[Case]:
    """Return a case of an extender with certificates on both sides."""
    tls_config = {
        "caFile": str(files.authority),
        "certData": base64.b64encode(files.authority.read_bytes()).decode(),
        "keyData": base64.b64encode(files.authority_key.read_bytes()).decode(),
        "serverName": "localhost",
    }
    listed = [
        Extender(
            "trusted",
            {"filter": keeps("node-b"), "prioritize": scores(node_b=1)},
            {**CAPABLE, "enableHTTPS": True, "tlsConfig": tls_config},
            is_for_all=True,
            is_secure=True,
        )
    ]
    return [Case("trusted", listed)]


def untrusted_cases() -> list[Case]:
    """Return a case of a server with an untrusted certificate."""
    listed = [
        Extender("untrusted", {"filter": keeps_all}, CAPABLE, is_for_all=True, is_secure=True)
    ]
    return [Case("untrusted", listed)]
