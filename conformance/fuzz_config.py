"""Generated configuration files, realistic and hostile, and their comparison with upstream.

Owns the seeded generator of configuration texts and the loop that asks the oracle about them.
Never says what a text should give: only kube-scheduler's own code does.
Upstream: pkg/scheduler/apis/config
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

IN_TREE = [
    "DynamicResources",
    "ImageLocality",
    "TaintToleration",
    "NodeName",
    "NodePorts",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "PodTopologySpread",
    "NodeUnschedulable",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
    "NodeVolumeLimits",
    "InterPodAffinity",
    "PrioritySort",
    "DefaultBinder",
    "DefaultPreemption",
    "SchedulingGates",
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
]
FOREIGN = [
    "Coscheduling",
    "EBSLimits",
    "GCEPDLimits",
    "CinderLimits",
    "AzureDiskLimits",
    "SelectorSpread",
    "Gang",
]
POINTS = [
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "multiPoint",
    "placementGenerate",
    "placementScore",
]
SUITED = {
    "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption GangScheduling",
    "queueSort": "PrioritySort",
    "preFilter": "NodeAffinity NodePorts NodeResourcesFit VolumeBinding InterPodAffinity",
    "filter": "NodeName NodePorts TaintToleration NodeResourcesFit VolumeZone NodeUnschedulable",
    "postFilter": "DynamicResources DefaultPreemption",
    "preScore": "TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread",
    "score": "ImageLocality TaintToleration NodeAffinity NodeResourcesFit InterPodAffinity",
    "reserve": "VolumeBinding DynamicResources",
    "permit": "GangScheduling",
    "preBind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
    "postBind": "NodePorts",
    "multiPoint": " ".join(IN_TREE),
    "placementGenerate": "TopologyPlacementGenerator",
    "placementScore": "NodeResourcesFit PodGroupPodsCount",
}
DURATIONS = [
    "15s",
    "10s",
    "2s",
    "1m",
    "1h30m",
    "250ms",
    "0.5s",
    "1.5h",
    "0",
    "0s",
    "-3s",
    "+4s",
    "100us",
    "3ns",
    "1h2m3.5s",
    "25s",
    ".5s",
    "1.s",
    "16s",
    "5",
    "5x",
    "abc",
    "1d",
    "1e3s",
    "1m1",
    "9223372036854775807ns",
    "9223372036854775808ns",
    "1s1",
    "s",
    ".",
    "-",
    "+",
    "1µs",
    "3000000h",
    "2562047h47m16.854775807s",
    "2562047h47m16.854775808s",
    "1.0000000000000000001s",
    "0.1ns",
    "1S",
]
LABELS = [
    "cpu",
    "memory",
    "example.com/gpu",
    "nvidia.com/gpu",
    "kubernetes.io/x",
    "requests.cpu",
    "a/b",
    "a/b/c",
    "/x",
    "x/",
    "-bad",
    "bad-",
    "my_name",
    "UPPER.com/x",
    "example.com/",
    "ephemeral-storage",
    "hugepages-2Mi",
    "foo.bar/baz",
    "requests.example.com/x",
    "x.kubernetes.io/y",
] + ["", "my rack", "a" * 64, "b" * 254 + "/x", "é", 'quo"te', "<b>", "example.com/" + "c" * 63]
ODD_SCALARS = [
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "Yes",
    "NO",
    "True",
    "FALSE",
    "~",
    "null",
    "Null",
    "0x1F",
    "017",
    "08",
    "0b11",
    "0o17",
    "1_000",
    "1e3",
    "1e-3",
    "1.0",
    "1.",
    ".5",
    "-.5",
    "+1",
    "+1.5",
    "-0",
    "0.0",
    ".inf",
    "-.inf",
    ".nan",
    ".NaN",
    "1e400",
    "1:30",
    "190:20:30",
    "2001-01-01",
    "2001-01-01T10:00:00Z",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    "4294967296",
    "2147483648",
    "-2147483649",
    "99999999999999999999999",
    "12.5",
    "1e2",
    "0x",
    "0b",
    "1__0",
    "_1",
    "-",
    "+",
    ".",
    "..",
    "...",
    "!!str&x",
    "!!int&7",
    "!!float&3",
    "!!bool&yes",
    "!!null&",
    "!!binary&aGk=",
    "!!binary&***",
    "!foo&x",
    "!!int&x",
    "!!float&1.5",
    "!!timestamp&2001-01-01",
    "!&5",
    "'5'",
    '"5"',
    "''",
    '""',
    "'true'",
    '"a\\tb"',
    '"\\u00e9"',
    '"\\x41"',
    "=x",
]


class Raw(NamedTuple):
    """A scalar written as it stands."""

    text: str


class Doc(NamedTuple):
    """A generated document and the family it belongs to."""

    family: str
    text: str


def config_cases(seed: int, count: int) -> Iterator[dict[str, str]]:
    """Yield `count` cases `{"id", "text"}`, the same ones for the same seed."""
    for index in range(count):
        rng = random.Random(f"{seed}/{index}")
        family = rng.choices(list(FAMILIES), [weight for weight, _ in FAMILIES.values()])[0]
        text = FAMILIES[family][1](rng)
        yield {"id": f"{family}-{seed}-{index}", "text": text}


# Values ---------------------------------------------------------------------------------------


def maybe(rng: random.Random, chance: float) -> bool:
    """Say yes with the given chance."""
    return rng.random() < chance


def some(rng: random.Random, items: list[str], low: int, high: int) -> list[str]:
    """Return a few items, now and then one of them twice."""
    picked = rng.sample(items, min(len(items), rng.randint(low, high)))
    if picked and maybe(rng, 0.08):
        picked.append(rng.choice(picked))
    return picked


def integer(rng: random.Random, good: tuple[int, int]) -> Any:
    """Return a number, mostly in the good range."""
    if maybe(rng, 0.7):
        return rng.randint(*good)
    odd = (0, -1, 1, good[0] - 1, good[1] + 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, 1.5, 2.0)
    return rng.choice([*odd, None, "5", True, [], {}])


def plain_int(rng: random.Random, good: tuple[int, int]) -> int:
    """Return a number of the right type, mostly in the good range."""
    return rng.randint(*good) if maybe(rng, 0.75) else rng.choice((0, -1, good[1] + 1, 400, -7))


def duration(rng: random.Random) -> Any:
    """Return a duration, mostly a valid one."""
    if maybe(rng, 0.8):
        return rng.choice(DURATIONS[:17])
    return rng.choice([*DURATIONS, 5, None, True, [], {}, 1.5])


def text(rng: random.Random) -> Any:
    """Return a string, or seldom something else."""
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
    for key, value in extra.items():
        if maybe(rng, 0.06):
            out[key] = value
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
    args = ARGS.get(name, lambda _: {"b": 1, "a": [1.5, None, "x"], "c": {"z": True}})(rng)
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
    """Return a document with the right meta data and the given fields."""
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


# Writing --------------------------------------------------------------------------------------


def write(rng: random.Random, document: Any) -> str:
    """Return a document as YAML or JSON, in one of many styles."""
    if maybe(rng, 0.25) and not has_raw(document):
        indent = rng.choice((None, None, 2, 4))
        return json.dumps(document, indent=indent, ensure_ascii=maybe(rng, 0.5)) + rng.choice(
            ("", "\n")
        )
    return yaml_text(rng, document)


def has_raw(value: Any) -> bool:
    """Say whether a value can be written in YAML only."""
    if isinstance(value, Raw):
        return True
    if isinstance(value, dict):
        return any(has_raw(item) for item in value.values())
    return isinstance(value, list) and any(has_raw(item) for item in value)


def yaml_text(rng: random.Random, document: Any) -> str:
    """Return a document as block YAML with some flow parts, comments and quotes."""
    lines = block(rng, document, 0, rng.choice((0, 2)))
    if maybe(rng, 0.15):
        lines.insert(rng.randrange(len(lines) + 1), "# a comment")
    if maybe(rng, 0.1):
        lines.insert(0, "---")
    return "\n".join(lines) + rng.choice(("\n", "\n", "\n", "", "\n\n"))


def block(rng: random.Random, value: Any, depth: int, list_indent: int) -> list[str]:
    """Return the lines of a block mapping or sequence."""
    pad = " " * depth
    if isinstance(value, dict) and value:
        lines: list[str] = []
        for key, item in value.items():
            name = key if maybe(rng, 0.9) else json.dumps(key)
            if is_inline(rng, item):
                lines.append(f"{pad}{name}: {flow(rng, item)}".rstrip())
                continue
            deeper = depth + (list_indent if isinstance(item, list) else 2)
            lines += [f"{pad}{name}:", *block(rng, item, deeper, list_indent)]
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            if is_inline(rng, item):
                lines.append(f"{pad}- {flow(rng, item)}")
            else:
                inner = block(rng, item, depth + 2, list_indent)
                lines += [pad + "- " + inner[0][depth + 2 :], *inner[1:]]
        return lines
    return [pad + flow(rng, value)]


def is_inline(rng: random.Random, value: Any) -> bool:
    """Say whether to write a value on one line."""
    return not isinstance(value, dict | list) or not value or maybe(rng, 0.12)


def flow(rng: random.Random, value: Any) -> str:
    """Return a value in flow style."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(rng, item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(rng, item) for item in value) + "]"
    if isinstance(value, str):
        return scalar(rng, value)
    if value is None:
        return rng.choice(("null", "~", "null"))
    return json.dumps(value)


def scalar(rng: random.Random, value: str) -> str:
    """Return a string, quoted unless it is surely read back as it is."""
    simple = value and all(c.isalnum() or c in "-/." for c in value) and value[0].isalpha()
    if simple and value.lower() not in (
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "null",
        "true",
        "false",
    ):
        if maybe(rng, 0.85):
            return value
    if maybe(rng, 0.3) and "'" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False)


# Families -------------------------------------------------------------------------------------


def minimal(rng: random.Random) -> str:
    """A few root fields, nothing wrong on purpose."""
    return write(rng, base(rng, **top_fields(rng)))


def meta(rng: random.Random) -> str:
    """Wrong, missing or odd apiVersion and kind."""
    versions = [
        API_VERSION,
        "kubescheduler.config.k8s.io/v1beta2",
        "kubescheduler.config.k8s.io/v1beta3",
        "v1",
        "",
        "/",
        "a/b/c",
        "kubescheduler.config.k8s.io/",
        "/v1",
        None,
        1,
        True,
        ["x"],
        {"a": 1},
        "componentconfig/v1alpha1",
        "kubescheduler.config.k8s.io/V1",
        "kubescheduler.config.k8s.io/v1 ",
    ]
    kinds = [
        KIND,
        "KubeSchedulerconfiguration",
        "Pod",
        "",
        None,
        5,
        "List",
        *(f"{name}Args" for name in ARGS),
    ]
    document: dict[str, Any] = {}
    if maybe(rng, 0.85):
        document[
            rng.choice(("apiVersion", "apiVersion", "apiVersion", "apiversion", "APIVersion"))
        ] = rng.choice(versions) if maybe(rng, 0.6) else API_VERSION
    if maybe(rng, 0.85):
        document[rng.choice(("kind", "kind", "kind", "Kind", "KIND"))] = (
            rng.choice(kinds) if maybe(rng, 0.6) else KIND
        )
    if maybe(rng, 0.3):
        document["profiles"] = [profile(rng, tidy=True)]
    if maybe(rng, 0.1):
        return write(rng, rng.choice(([document], "text", 5, None, True, [], {})))
    return write(rng, document)


def strict(rng: random.Random) -> str:
    """Unknown fields in every place."""
    document = base(rng, **top_fields(rng), profiles=[profile(rng, tidy=True)], leaderElection={})
    names = (
        "healthzBindAddress",
        "metricsBindAddress",
        "algorithmSource",
        "schedulername",
        "Name",
        "Enabled",
        "weigth",
        "unreserve",
        "args",
        "",
        "a.b",
        'q"x',
        "é",
        "<<x",
    )
    for _ in range(rng.randint(1, 4)):
        places: list[dict[str, Any]] = []
        collect(document, places)
        rng.choice(places)[rng.choice(names)] = rng.choice(
            (1, "x", None, {"a": {"b": 1}}, [1], True)
        )
    return write(rng, document)


def collect(value: Any, places: list[dict[str, Any]]) -> None:
    """Gather every mapping of a document."""
    if isinstance(value, dict):
        places.append(value)
        for item in value.values():
            collect(item, places)
    elif isinstance(value, list):
        for item in value:
            collect(item, places)


def wrong_types(rng: random.Random) -> str:
    """Values of the wrong type in every place."""
    document = base(
        rng,
        **top_fields(rng),
        profiles=[profile(rng, tidy=True)],
        leaderElection=leader_election(rng),
    )
    if maybe(rng, 0.4):
        document["extenders"] = [extender(rng)]
    for _ in range(rng.randint(1, 2)):
        places: list[dict[str, Any]] = []
        collect(document, places)
        place = rng.choice(places)
        keys = [key for key in place if key not in ("apiVersion", "kind")] or list(place)
        if keys:
            place[rng.choice(keys)] = rng.choice(
                (
                    1,
                    1.5,
                    "x",
                    None,
                    {},
                    {"a": 1},
                    [],
                    [1],
                    ["x"],
                    [{}],
                    True,
                    -5,
                    "5",
                    [None],
                    [[]],
                    1e30,
                )
            )
    return write(rng, document)


def odd_scalars(rng: random.Random) -> str:
    """YAML scalars whose meaning depends on the reader."""
    document = base(
        rng,
        profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 5}],
        leaderElection={},
        clientConnection={},
    )
    odd = Raw(rng.choice(ODD_SCALARS).replace("&", " "))
    place, key = rng.choice(
        (
            (document, "parallelism"),
            (document, "percentageOfNodesToScore"),
            (document, "podMaxBackoffSeconds"),
            (document, "enableProfiling"),
            (document, "delayCacheUntilActive"),
            (document["profiles"][0], "schedulerName"),
            (document["clientConnection"], "qps"),
            (document["clientConnection"], "burst"),
            (document["clientConnection"], "kubeconfig"),
            (document["leaderElection"], "resourceName"),
            (document["leaderElection"], "leaseDuration"),
            (document["leaderElection"], "leaderElect"),
        )
    )
    place[key] = odd
    if maybe(rng, 0.15):
        place[rng.choice(ODD_SCALARS).replace("&", " ")] = 1
    return yaml_text(rng, document)


def repeated(rng: random.Random) -> str:
    """Repeated keys, in YAML and JSON."""
    document = base(
        rng,
        **top_fields(rng),
        profiles=[profile(rng, tidy=True)],
        leaderElection=leader_election(rng),
    )
    if maybe(rng, 0.5):
        lines = yaml_text(rng, document).splitlines()
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(lines))
            if lines[at].rstrip().endswith(":"):
                continue
            lines.insert(
                rng.randrange(at, len(lines)) + 1 if maybe(rng, 0.4) else at + 1, lines[at]
            )
        return "\n".join(lines) + "\n"
    out = json.dumps(document)
    parts = out[1:-1].split(", ")
    parts.insert(rng.randrange(len(parts)), rng.choice(parts))
    return "{" + ", ".join(parts) + "}"


def anchors(rng: random.Random) -> str:
    """Anchors, aliases and merge keys."""
    head = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
    bodies = (
        "profiles:\n- &p\n  schedulerName: a\n- <<: *p\n  schedulerName: b\n",
        "profiles:\n- &p\n  percentageOfNodesToScore: 5\n  schedulerName: a\n- {<<: *p}\n",
        "profiles:\n- schedulerName: a\n  plugins: &p\n    score: {disabled: [{name: '*'}]}\n- schedulerName: b\n  plugins: *p\n",
        "profiles:\n- schedulerName: a\n  pluginConfig: &c\n  - name: InterPodAffinity\n    args: {hardPodAffinityWeight: 5}\n- schedulerName: b\n  pluginConfig: *c\n",
        "leaderElection: &l {leaderElect: true}\nclientConnection: *l\n",
        "parallelism: *nope\n",
        "profiles: &x\n- *x\n",
        "parallelism: &n 7\npodMaxBackoffSeconds: *n\n",
        "<<: {parallelism: 3}\nparallelism: 4\n",
        "<<: [{parallelism: 3}, {percentageOfNodesToScore: 4}]\n",
        "<<: [{parallelism: 3}, {parallelism: 4}]\n",
        "<<: 5\n",
        "<<: [5]\n",
        "'<<': {parallelism: 3}\n",
        "!!merge <<: {parallelism: 3}\n",
        "leaderElection:\n  <<: {leaderElect: false}\n  resourceName: x\n",
        "? parallelism\n: 5\n",
        "? {a: b}\n: 5\n",
        "? [a]\n: 5\n",
        "~: 5\n",
        "1: 5\n",
        "true: 5\n",
        "1.5: 5\n",
        "'a': 1\n\"a\": 2\n",
        "18446744073709551615: {a: b}\n",
        "1: a\n1: b\n",
        "yes: a\ntrue: b\n",
        "1.5: a\n1.5: b\n",
        "~: a\nnull: b\n",
        "profiles: {{ .Values.profiles }}\n",
        "parallelism: {{ x }}\n",
        "profiles: !!seq []\n",
        "leaderElection: !!map {}\n",
        "leaderElection: !!set {leaderElect}\n",
        "leaderElection: !<tag:yaml.org,2002:map> {leaderElect: false}\n",
        "parallelism: !!int '5'\n",
        "parallelism: !!str 5\n",
        "parallelism: !local 5\n",
        "clientConnection: {kubeconfig: !!binary aGk=}\n",
    )
    return head + "".join(rng.sample(bodies, 2) if maybe(rng, 0.2) else [rng.choice(bodies)])


def syntax(rng: random.Random) -> str:
    """Texts broken as editors, templates and tools break them."""
    good = write(rng, base(rng, **top_fields(rng), profiles=[profile(rng, tidy=True)]))
    at = rng.randrange(max(1, len(good)))
    lines = good.splitlines()
    row = rng.randrange(max(1, len(lines)))
    ways: tuple[Callable[[], str], ...] = (
        lambda: good[:at],
        lambda: good[:at] + rng.choice("{}[]:,'\"#&*!|>%@`\t\\-?\x00\x07\x7f\x85é") + good[at:],
        lambda: good[:at] + good[at + 1 :],
        lambda: good.replace("\n", "\r\n"),
        lambda: good.replace("\n", "\r"),
        lambda: "\ufeff" + good,
        lambda: good.replace("  ", "\t", 1),
        lambda: good.replace("  ", "\t"),
        lambda: good + "---\n" + good,
        lambda: good + "---\n" + "{broken\n",
        lambda: "---\n" + good + "...\n" + "junk: [\n",
        lambda: "---\n---\n" + good,
        lambda: "%YAML 1.1\n---\n" + good,
        lambda: "%YAML 1.2\n---\n" + good,
        lambda: "%YAML 2.0\n---\n" + good,
        lambda: "%FOO bar\n---\n" + good,
        lambda: "%TAG !e! tag:example.com,2000:\n---\n" + good,
        lambda: "\n\n  " + good,
        lambda: "# only a comment\n",
        lambda: "",
        lambda: " \n\t\n",
        lambda: "   \n",
        lambda: "\n".join([*lines[:row], " " + (lines[row] if lines else ""), *lines[row + 1 :]]),
        lambda: "\n".join([*lines[:row], (lines[row] if lines else "")[1:], *lines[row + 1 :]]),
        lambda: "\n".join([*lines[:row], "\t" + (lines[row] if lines else ""), *lines[row + 1 :]]),
        lambda: "\n".join([*lines[:row], (lines[row] if lines else "") + ": x", *lines[row + 1 :]]),
        lambda: good.rstrip() + ",",
        lambda: good.rstrip() + " trailing",
        lambda: good.rstrip() + "}",
        lambda: good.replace('"', "'"),
        lambda: good.replace(":", "", 1),
        lambda: good.replace(": ", ":", 1),
        lambda: "{" + good + "}",
        lambda: " \v\f" + good,
        lambda: "\u00a0" + good,
        lambda: "[" * rng.choice((3, 150)) + "]" * 3,
        lambda: "a: |\n  x\n b\n",
        lambda: "a: 'x\n",
        lambda: 'a: "\\q"\n',
        lambda: 'a: "\\u12"\n',
        lambda: good + "a: >9x\n",
        lambda: good + "a: |\n    x\n  y\n",
        lambda: good + "- x\n",
        lambda: good + "key\n",
        lambda: good + "key: [a, b\n",
        lambda: good + "key: {a: b\n",
        lambda: good + "key: @x\n",
        lambda: good + "key: `x\n",
        lambda: good + "key: %x\n",
        lambda: good + "key: !<x\n",
        lambda: good + "key: &a &b x\n",
        lambda: good + "key: !!str !!int x\n",
        lambda: good + "key: & x\n",
        lambda: good + "key: * x\n",
        lambda: good + "key: ]\n",
        lambda: good + "? a\n",
        lambda: good + ": a\n",
    )
    return rng.choice(ways)()


def leader(rng: random.Random) -> str:
    """Leader election."""
    return write(rng, base(rng, leaderElection=leader_election(rng)))


def args(rng: random.Random) -> str:
    """Plugin arguments."""
    profiles = [{"pluginConfig": [plugin_config(rng) for _ in range(rng.randint(1, 3))]}]
    return write(rng, base(rng, profiles=profiles))


def points(rng: random.Random) -> str:
    """Plugin sets of one profile."""
    return write(rng, base(rng, profiles=[{"plugins": plugins(rng, tidy=maybe(rng, 0.6))}]))


def profiles(rng: random.Random) -> str:
    """Several profiles."""
    made = [profile(rng, tidy=True) for _ in range(rng.randint(0, 3))]
    if maybe(rng, 0.6):
        for index, entry in enumerate(made):
            entry["schedulerName"] = f"s{index}"
    return write(rng, base(rng, profiles=made))


def queue_sort(rng: random.Random) -> str:
    """Queue sort sets and arguments across profiles."""
    made: list[dict[str, Any]] = []
    for index in range(rng.randint(1, 3)):
        entry: dict[str, Any] = {"schedulerName": f"s{index}"}
        if maybe(rng, 0.7):
            names = some(rng, ["PrioritySort", "NodeResourcesFit", "Other"], 0, 2)
            entry["plugins"] = {
                "queueSort": {
                    "enabled": [{"name": n} for n in names]
                    if maybe(rng, 0.8)
                    else [{"name": "PrioritySort"}]
                }
            }
            if maybe(rng, 0.3):
                entry["plugins"]["queueSort"]["disabled"] = [
                    {"name": rng.choice(("*", "PrioritySort"))}
                ]
        if maybe(rng, 0.4):
            name = rng.choice(("PrioritySort", "NodeResourcesFit", "VolumeBinding"))
            entry["pluginConfig"] = [
                {"name": name, "args": rng.choice(({}, {"a": 1}, {"b": [1, "<x>"]}, None))}
            ]
        made.append(entry)
    return write(rng, base(rng, profiles=made))


def extenders(rng: random.Random) -> str:
    """Extenders."""
    document = base(rng, extenders=[extender(rng) for _ in range(rng.randint(1, 3))])
    if maybe(rng, 0.2):
        document["profiles"] = [profile(rng, tidy=True)]
    return write(rng, document)


def mixed(rng: random.Random) -> str:
    """Everything together, as real files have it."""
    document = base(rng, profiles=[profile(rng, tidy=True) for _ in range(rng.randint(1, 3))])
    for index, entry in enumerate(document["profiles"]):
        entry["schedulerName"] = ("default-scheduler", "batch", "no-scoring-scheduler")[index]
    if maybe(rng, 0.4):
        document["leaderElection"] = {"leaderElect": rng.choice((True, False))}
    if maybe(rng, 0.2):
        document["extenders"] = [extender(rng)]
    return write(rng, document)


FAMILIES: dict[str, tuple[int, Callable[[random.Random], str]]] = {
    "min": (6, minimal),
    "meta": (6, meta),
    "strict": (8, strict),
    "type": (10, wrong_types),
    "scalar": (8, odd_scalars),
    "dup": (5, repeated),
    "anchor": (5, anchors),
    "syntax": (10, syntax),
    "leader": (6, leader),
    "args": (14, args),
    "points": (12, points),
    "profiles": (8, profiles),
    "queue": (4, queue_sort),
    "ext": (8, extenders),
    "mixed": (8, mixed),
}
