"""Generated configuration files, realistic and hostile.

Owns the families of texts and the seeded choice among them. Never has expected results: they come
from kube-scheduler's own code, through the oracle.
Upstream: pkg/scheduler/apis/config
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from conformance.config_texts.values import (
    ARGS,
    base,
    extender,
    leader_election,
    maybe,
    plugin_config,
    plugins,
    profile,
    some,
    top_fields,
)
from conformance.config_texts.vocabulary import AMBIGUOUS_SCALARS, API_VERSION, KIND
from conformance.config_texts.writing import Raw, write, yaml_text


def config_cases(seed: int, count: int) -> Iterator[dict[str, str]]:
    """Yield `count` cases `{"id", "text"}`, the same ones for the same seed."""
    for index in range(count):
        rng = random.Random(f"{seed}/{index}")
        family = rng.choices(list(FAMILIES), [weight for weight, _ in FAMILIES.values()])[0]
        text = FAMILIES[family][1](rng)
        yield {"id": f"{family}-{seed}-{index}", "text": text}


def minimal(rng: random.Random) -> str:
    """A few valid root fields."""
    return write(rng, base(rng, **top_fields(rng)))


def meta(rng: random.Random) -> str:
    """Wrong, missing or unusual apiVersion and kind."""
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
    """Unknown fields everywhere."""
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
    """Values of the wrong type everywhere."""
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


def ambiguous_scalars(rng: random.Random) -> str:
    """YAML scalars whose meaning depends on the reader."""
    document = base(
        rng,
        profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 5}],
        leaderElection={},
        clientConnection={},
    )
    scalar = Raw(rng.choice(AMBIGUOUS_SCALARS).replace("&", " "))
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
    place[key] = scalar
    if maybe(rng, 0.15):
        place[rng.choice(AMBIGUOUS_SCALARS).replace("&", " ")] = 1
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
        (
            "profiles:\n- schedulerName: a\n  plugins: &p\n    score: {disabled: [{name: '*'}]}\n"
            "- schedulerName: b\n  plugins: *p\n"
        ),
        (
            "profiles:\n- schedulerName: a\n  pluginConfig: &c\n  - name: InterPodAffinity\n"
            "    args: {hardPodAffinityWeight: 5}\n- schedulerName: b\n  pluginConfig: *c\n"
        ),
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
    """Texts with the typical errors of editors, templates and tools."""
    good = write(rng, base(rng, **top_fields(rng), profiles=[profile(rng, tidy=True)]))
    at = rng.randrange(max(1, len(good)))
    lines = good.splitlines()
    row = rng.randrange(max(1, len(lines)))
    mistakes: tuple[Callable[[], str], ...] = (
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
    return rng.choice(mistakes)()


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
    """All of it together, as in real files."""
    document = base(rng, profiles=[profile(rng, tidy=True) for _ in range(rng.randint(1, 3))])
    for index, entry in enumerate(document["profiles"]):
        entry["schedulerName"] = ("default-scheduler", "batch", "no-scoring-scheduler")[index]
    if maybe(rng, 0.4):
        document["leaderElection"] = {"leaderElect": rng.choice((True, False))}
    if maybe(rng, 0.2):
        document["extenders"] = [extender(rng)]
    return write(rng, document)


def mutated(rng: random.Random) -> str:
    """Any other text with a few typing errors."""
    _, make = FAMILIES[rng.choice([name for name in FAMILIES if name != "slip"])]
    text = make(rng)
    for _ in range(rng.randint(1, 3)):
        text = slip(rng, text)
    return text


def slip(rng: random.Random, text: str) -> str:
    """Change one place of a text."""
    at = rng.randrange(len(text) + 1)
    to = min(len(text), at + rng.randint(1, 12))
    lines = text.split("\n")
    row, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(7):
        case 0:
            return text[:at] + text[to:]
        case 1:
            return text[:at] + rng.choice(" \n:-{}[],'\"#|>&*!%@?~.0aZé\t") + text[at:]
        case 2:
            return text[:at] + text[at:to] + text[at:]
        case 3:
            lines[row], lines[other] = lines[other], lines[row]
        case 4:
            lines.insert(other, lines[row])
        case 5:
            lines[row] = " " * rng.choice((1, 2, 4)) + lines[row]
        case _:
            key, colon, value = lines[row].partition(": ")
            style = rng.choice(("|", ">", "|-", ">+", "|2", "'", '"'))
            lines[row] = f"{key}: {style}{colon and chr(10)}    {value}" if colon else lines[row]
    return "\n".join(lines)


FAMILIES: dict[str, tuple[int, Callable[[random.Random], str]]] = {
    "min": (6, minimal),
    "meta": (6, meta),
    "strict": (8, strict),
    "type": (10, wrong_types),
    "scalar": (8, ambiguous_scalars),
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
    "slip": (14, mutated),
}
