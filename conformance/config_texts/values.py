"""Random parts of configuration documents, mostly valid.

Owns one generator per part of the document. Never writes text: writing does.
Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go
"""

import random
from collections.abc import Callable
from typing import Any

from conformance.config_texts.vocabulary import (
    API_VERSION,
    DURATIONS,
    FOREIGN,
    IN_TREE,
    KIND,
    LABELS,
    POINTS,
    SUITED,
)


def maybe(rng: random.Random, chance: float) -> bool:
    """Return True with a probability."""
    return rng.random() < chance


def some(rng: random.Random, items: list[str], low: int, high: int) -> list[str]:
    """Return a few items, sometimes with a duplicate."""
    picked = rng.sample(items, min(len(items), rng.randint(low, high)))
    if picked and maybe(rng, 0.08):
        picked.append(rng.choice(picked))
    return picked


def integer(rng: random.Random, good: tuple[int, int]) -> Any:
    """Return a number, mostly in the valid range."""
    if maybe(rng, 0.7):
        return rng.randint(*good)
    unusual = (0, -1, 1, good[0] - 1, good[1] + 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, 1.5, 2.0)
    return rng.choice([*unusual, None, "5", True, [], {}])


def plain_int(rng: random.Random, good: tuple[int, int]) -> int:
    """Return a number of the right type, mostly in the valid range."""
    return rng.randint(*good) if maybe(rng, 0.75) else rng.choice((0, -1, good[1] + 1, 400, -7))


def duration(rng: random.Random) -> Any:
    """Return a duration, mostly a valid one."""
    if maybe(rng, 0.8):
        return rng.choice(DURATIONS[:17])
    return rng.choice([*DURATIONS, 5, None, True, [], {}, 1.5])


def text(rng: random.Random) -> Any:
    """Return a string, rarely something else."""
    if maybe(rng, 0.9):
        return rng.choice(
            ["a", "x-1", "my-scheduler", "", "yes", "1", "1e3", "null", "0x1", "é", "a b"]
        )
    return rng.choice([None, 5, True, [], {}, 1.5])


def plugin(rng: random.Random, point: str, *, tidy: bool) -> dict[str, Any]:
    """Return one entry of a plugin set."""
    names = SUITED[point].split() if tidy or maybe(rng, 0.8) else IN_TREE + FOREIGN
    entry: dict[str, Any] = {"name": rng.choice(names)}
    if maybe(rng, 0.4):
        entry["weight"] = rng.choice((0, 1, 2, 3, 5, 100)) if tidy else integer(rng, (0, 100))
    if not tidy and maybe(rng, 0.03):
        entry["weight"] = rng.choice((2147483647, -1, -100, -2147483648))
    return entry


def plugin_set(rng: random.Random, point: str, *, tidy: bool) -> Any:
    """Return a plugin set of an extension point."""
    if not tidy and maybe(rng, 0.03):
        return rng.choice((None, {}, [], "x", 5))
    out: dict[str, Any] = {}
    if maybe(rng, 0.7):
        entries = [plugin(rng, point, tidy=tidy) for _ in range(rng.randint(0, 4))]
        if tidy:
            entries = list({entry["name"]: entry for entry in entries}.values())
        out["enabled"] = entries
    if maybe(rng, 0.5):
        names = [*SUITED[point].split(), *(IN_TREE if maybe(rng, 0.3) else [])]
        star = ["*"] if maybe(rng, 0.15 if point in ("bind", "queueSort") else 0.3) else []
        out["disabled"] = [{"name": name} for name in star + some(rng, names, 0, 3)]
    return out


def plugins(rng: random.Random, *, tidy: bool = False) -> dict[str, Any]:
    """Return a plugins object."""
    points = rng.sample(POINTS, rng.randint(1, 5))
    return {point: plugin_set(rng, point, tidy=tidy) for point in points}


def shape(rng: random.Random) -> list[dict[str, Any]]:
    """Return a scoring function."""
    count = rng.choice((0, 1, 2, 2, 3, 4))
    marks = sorted(rng.randint(0, 100) for _ in range(count))
    points: list[dict[str, Any]] = [
        {"utilization": mark, "score": plain_int(rng, (0, 10))} for mark in marks
    ]
    if points and maybe(rng, 0.2):
        rng.choice(points)[rng.choice(("utilization", "score"))] = integer(rng, (0, 100))
    return points


def resources(rng: random.Random) -> list[dict[str, Any]]:
    """Return weighted resources."""
    out: list[dict[str, Any]] = []
    for _ in range(rng.randint(0, 3)):
        entry: dict[str, Any] = {"name": rng.choice(LABELS[:4] if maybe(rng, 0.8) else LABELS)}
        if maybe(rng, 0.6):
            entry["weight"] = rng.choice((1, 1, 1, 2, 50, 100, 101, 0, -1, 400))
        out.append(entry)
    return out


def requirement(rng: random.Random, *, fields: bool) -> dict[str, Any]:
    """Return one expression of a node selector term."""
    operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equals", "", "in")
    out: dict[str, Any] = {
        "key": "metadata.name" if fields and maybe(rng, 0.8) else rng.choice(LABELS),
        "operator": rng.choice(operators[:6] if maybe(rng, 0.85) else operators),
    }
    if maybe(rng, 0.7):
        values = ("a", "b", "5", "-3", "x y", "", "a" * 64, "node-1", "1.5", "007", "+5")
        out["values"] = [rng.choice(values) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    return out


def term(rng: random.Random) -> dict[str, Any]:
    """Return a node selector term."""
    out: dict[str, Any] = {}
    if maybe(rng, 0.8):
        out["matchExpressions"] = [requirement(rng, fields=False) for _ in range(rng.randint(0, 2))]
    if maybe(rng, 0.25):
        out["matchFields"] = [requirement(rng, fields=True) for _ in range(rng.randint(0, 2))]
    return out


def affinity(rng: random.Random) -> Any:
    """Return an added node affinity."""
    out: dict[str, Any] = {}
    if maybe(rng, 0.7):
        terms: Any = [term(rng) for _ in range(rng.randint(0, 2))]
        out["requiredDuringSchedulingIgnoredDuringExecution"] = (
            {"nodeSelectorTerms": terms} if maybe(rng, 0.93) else rng.choice(({}, None, terms))
        )
    if maybe(rng, 0.5):
        out["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice((1, 50, 100, 0, -1, 101)), "preference": term(rng)}
            for _ in range(rng.randint(0, 2))
        ]
    return out if maybe(rng, 0.95) else None


def constraint(rng: random.Random) -> dict[str, Any]:
    """Return a default topology spread constraint."""
    out: dict[str, Any] = {
        "maxSkew": plain_int(rng, (1, 5)),
        "topologyKey": rng.choice(("zone", "rack", "kubernetes.io/hostname", *LABELS[-6:])),
        "whenUnsatisfiable": rng.choice(
            ("DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway", "Sometimes", "")
        ),
    }
    extra = {
        "labelSelector": {"matchLabels": {"a": "b"}},
        "minDomains": 2,
        "nodeAffinityPolicy": "Honor",
        "nodeTaintsPolicy": "Ignore",
        "matchLabelKeys": ["app"],
        "maxSkews": 1,
    }
    out.update({key: value for key, value in extra.items() if maybe(rng, 0.06)})
    if maybe(rng, 0.08):
        out.pop(rng.choice(list(out)))
    return out


def strategy(rng: random.Random) -> dict[str, Any]:
    """Return a scoring strategy."""
    kinds = (
        "LeastAllocated",
        "MostAllocated",
        "RequestedToCapacityRatio",
        "RequestedToCapacityRatio",
    )
    kind = (
        rng.choice(kinds) if maybe(rng, 0.9) else rng.choice(("", "Least", "<x>", "leastAllocated"))
    )
    out: dict[str, Any] = {"type": kind} if maybe(rng, 0.93) else {}
    if maybe(rng, 0.6):
        out["resources"] = resources(rng)
    if maybe(rng, 0.85 if kind == "RequestedToCapacityRatio" else 0.08):
        out["requestedToCapacityRatio"] = (
            {"shape": shape(rng)} if maybe(rng, 0.9) else rng.choice(({}, None))
        )
    return out


ARGS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "DefaultPreemption": lambda rng: {
        "minCandidateNodesPercentage": plain_int(rng, (0, 100)),
        "minCandidateNodesAbsolute": plain_int(rng, (0, 300)),
    },
    "DynamicResources": lambda rng: {
        "filterTimeout": duration(rng),
        "bindingTimeout": duration(rng),
    },
    "InterPodAffinity": lambda rng: {
        "hardPodAffinityWeight": plain_int(rng, (0, 100)),
        "ignorePreferredTermsOfExistingPods": rng.choice((True, False, False, None)),
    },
    "NodeAffinity": lambda rng: {"addedAffinity": affinity(rng)},
    "NodeResourcesBalancedAllocation": lambda rng: {"resources": resources(rng)},
    "NodeResourcesFit": lambda rng: {
        "ignoredResources": some(rng, LABELS, 0, 2),
        "ignoredResourceGroups": some(rng, ["example.com", "a.b", *LABELS], 0, 2),
        "scoringStrategy": strategy(rng),
    },
    "PodTopologySpread": lambda rng: {
        "defaultConstraints": [constraint(rng) for _ in range(rng.randint(0, 3))],
        "defaultingType": rng.choice(("System", "List", "List", "list", "")),
    },
    "VolumeBinding": lambda rng: {
        "bindTimeoutSeconds": plain_int(rng, (0, 1000)),
        "shape": shape(rng),
    },
}


def plugin_config(rng: random.Random) -> dict[str, Any]:
    """Return one entry of pluginConfig."""
    name = rng.choice(list(ARGS))
    if maybe(rng, 0.12):
        name = rng.choice(
            ["NodePorts", "NodeResourcesFitArgs", "PrioritySort", *FOREIGN, "DefaultBinder"]
        )
    entry: dict[str, Any] = {"name": name}
    if maybe(rng, 0.04):
        return entry
    make = ARGS.get(name)
    args = make(rng) if make else {"b": 1, "a": [1.5, None, "x"], "c": {"z": True}}
    args = {key: value for key, value in args.items() if maybe(rng, 0.7)}
    if maybe(rng, 0.3):
        args["kind"] = f"{name}Args"
    if maybe(rng, 0.3):
        args["apiVersion"] = API_VERSION
    if maybe(rng, 0.06):
        key, value = rng.choice(
            (
                ("kind", rng.choice([*(f"{n}Args" for n in ARGS), KIND, "Nope", "", 5])),
                (
                    "apiVersion",
                    rng.choice(
                        (
                            "v1",
                            "a/b/c",
                            f"{API_VERSION}beta3",
                            "",
                            1,
                            "kubescheduler.config.k8s.io/",
                            "x/v1",
                        )
                    ),
                ),
                ("unknownField", 1),
                ("Kind", "x"),
            )
        )
        args[key] = value
    entry["args"] = args if maybe(rng, 0.96) else rng.choice((None, {}, [], "x", 5, True, [1]))
    return entry


def profile(rng: random.Random, *, tidy: bool = False) -> dict[str, Any]:
    """Return a profile."""
    out: dict[str, Any] = {}
    if maybe(rng, 0.6):
        out["schedulerName"] = rng.choice(
            ("default-scheduler", "batch", "my-scheduler", "a", "yes", "1e3")
        )
    if maybe(rng, 0.2):
        out["percentageOfNodesToScore"] = plain_int(rng, (0, 100))
    if maybe(rng, 0.5):
        out["plugins"] = plugins(rng, tidy=tidy or maybe(rng, 0.6))
    if maybe(rng, 0.4):
        out["pluginConfig"] = [plugin_config(rng) for _ in range(rng.randint(0, 3))]
    return out


def extender(rng: random.Random) -> dict[str, Any]:
    """Return an extender."""
    out: dict[str, Any] = {
        "urlPrefix": rng.choice(("http://127.0.0.1:9000/api", "https://x/", "", "http://[::1]:80"))
    }
    choices: dict[str, Callable[[], Any]] = {
        "filterVerb": lambda: "filter",
        "preemptVerb": lambda: "preempt",
        "prioritizeVerb": lambda: "rank",
        "bindVerb": lambda: "bind",
        "weight": lambda: rng.choice((1, 3, 5, 100, 0, -1)),
        "enableHTTPS": lambda: rng.choice((True, False)),
        "httpTimeout": lambda: duration(rng),
        "nodeCacheCapable": lambda: rng.choice((True, False)),
        "ignorable": lambda: rng.choice((True, False)),
        "managedResources": lambda: [
            {"name": rng.choice(LABELS), "ignoredByScheduler": rng.choice((True, False))}
            if maybe(rng, 0.5)
            else {"name": rng.choice(("example.com/gpu", "foo.bar/baz", "acme.com/card"))}
            for _ in range(rng.randint(0, 3))
        ],
        "tlsConfig": lambda: tls(rng),
    }
    for key, make in choices.items():
        if maybe(rng, 0.1 if key == "tlsConfig" else 0.35):
            out[key] = make()
    if "prioritizeVerb" in out and maybe(rng, 0.7):
        out["weight"] = rng.randint(1, 9)
    return out


def tls(rng: random.Random) -> dict[str, Any]:
    """Return the TLS part of an extender."""
    not_pem = rng.choice(
        (
            "aGVsbG8=",
            "",
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            "!!",
            "aGVsbG8",
            "YQ==",
        )
    )
    key = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCkFBQUEKLS0tLS1FTkQgUFJJVkFURSBLRVktLS0tLQo="
    values: dict[str, Any] = {
        "insecure": rng.choice((True, False)),
        "serverName": "x.example",
        "certFile": rng.choice(("/nope/cert.pem", "/etc", "")),
        "keyFile": rng.choice(("/nope/key.pem", "/etc/hostname")),
        "caFile": rng.choice(("/nope/ca.pem", "/etc/hostname")),
        "certData": rng.choice((not_pem, key)),
        "keyData": rng.choice((not_pem, key)),
        "caData": rng.choice((not_pem, key)),
    }
    return {name: value for name, value in values.items() if maybe(rng, 0.3)}


def base(rng: random.Random, **fields: Any) -> dict[str, Any]:
    """Return a document with valid metadata and some fields."""
    head = [("apiVersion", API_VERSION), ("kind", KIND)]
    if maybe(rng, 0.2):
        head.reverse()
    return {**dict(head), **fields}


def leader_election(rng: random.Random) -> dict[str, Any]:
    """Return a leader election block."""
    values: dict[str, Any] = {
        "leaderElect": rng.choice((True, True, False, None)),
        "leaseDuration": duration(rng),
        "renewDeadline": duration(rng),
        "retryPeriod": duration(rng),
        "resourceLock": rng.choice(("leases", "leases", "endpointsleases", "configmaps", "")),
        "resourceName": text(rng),
        "resourceNamespace": text(rng),
    }
    return {name: value for name, value in values.items() if maybe(rng, 0.4)}


def top_fields(rng: random.Random) -> dict[str, Any]:
    """Return scalar fields of the root."""
    values: dict[str, Any] = {
        "parallelism": integer(rng, (1, 64)),
        "percentageOfNodesToScore": integer(rng, (0, 100)),
        "podInitialBackoffSeconds": integer(rng, (1, 5)),
        "podMaxBackoffSeconds": integer(rng, (5, 300)),
        "enableProfiling": rng.choice((True, False, None, "x")),
        "enableContentionProfiling": rng.choice((True, False, None)),
        "delayCacheUntilActive": rng.choice((True, False, None)),
        "clientConnection": {
            name: value
            for name, value in {
                "kubeconfig": "/etc/kubernetes/scheduler.conf",
                "acceptContentTypes": text(rng),
                "contentType": text(rng),
                "qps": rng.choice((50, 0, -1, 0.1, 12.5, 1e9, 1e39, "x", 33.333333, None, 1e-3)),
                "burst": integer(rng, (0, 200)),
            }.items()
            if maybe(rng, 0.5)
        },
    }
    return {name: value for name, value in values.items() if maybe(rng, 0.35)}
