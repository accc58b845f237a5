"""Memory after a simulated week of churn.

Rollouts, Jobs and StatefulSets replace pods under new names and labels, an autoscaler replaces
nodes. The number of pods and nodes stays the same, so a table that grows keeps deleted objects.
"""

import argparse
import gc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.drain import Drain, build_profiles  # noqa: E402
from benchmarks.generate import Template  # noqa: E402
from benchmarks.stored import Document, stored_node, stored_pod  # noqa: E402
from benchmarks.tables import table_sizes  # noqa: E402
from benchmarks.workload import Workload  # noqa: E402
from kubesched.api.decode import decode_as  # noqa: E402
from kubesched.api.node import Node  # noqa: E402
from kubesched.api.pod import Pod  # noqa: E402
from kubesched.attempt.request import Search  # noqa: E402
from kubesched.cache.cache import Cache  # noqa: E402
from kubesched.kit.rng import RandomStream  # noqa: E402
from kubesched.snapshot.pod_info import PodInfo  # noqa: E402

# A table may hold as many dead entries as live ones, plus some, before it is cleaned up.
DEAD_MAX = 2_048
# Tables with a fixed bound, regardless of their initial size.
BOUNDED = {"cache._cluster.log._entries": 2 * 65_536}
# Limits of resident memory over the second half of the week: total growth, and slope per part.
RESIDENT, RESIDENT_GROWTH_MAX, SLOPE_MAX = "resident MB", 1.1, 0.02
ROLLOUT_LENGTH = 50
SHOWN_MIN, SHOWN_DEPTH = 100, 3


def _pod(labels: Document, owner: str, image: str, **spec: object) -> Document:
    metadata = {
        "name": "${name}",
        "labels": labels,
        "ownerReferences": [
            {"kind": owner, "name": "${group}", "uid": "${group}", "controller": True}
        ],
    }
    container = {"image": image, "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


# The owners of replaced pods with their percentage: Deployments roll out, Jobs come and go,
# StatefulSets grow and shrink.
KINDS: tuple[tuple[int, Document], ...] = (
    (
        60,
        _pod(
            {"app": "${group}", "pod-template-hash": "${rollout}"},
            "ReplicaSet",
            "registry.example.com/app:${rollout}",
        ),
    ),
    (
        25,
        _pod(
            {
                "batch.kubernetes.io/job-name": "${name}",
                "batch.kubernetes.io/controller-uid": "${uid}",
            },
            "Job",
            "registry.example.com/job:v1",
        ),
    ),
    (
        15,
        _pod(
            {"app": "${group}", "statefulset.kubernetes.io/pod-name": "${name}"},
            "StatefulSet",
            "registry.example.com/set:v1",
            affinity={
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "podAffinityTerm": {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {"matchLabels": {"app": "${group}"}},
                            },
                        }
                    ]
                }
            },
        ),
    ),
)
NODE: Document = {
    "metadata": {
        "name": "${name}",
        "labels": {
            "kubernetes.io/hostname": "${name}",
            "topology.kubernetes.io/zone": "${zone}",
            "example.com/launched": "${uid}",
        },
    },
    "spec": {
        "taints": [{"key": "example.com/launched", "value": "${uid}", "effect": "PreferNoSchedule"}]
    },
    "status": {
        "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
        "images": [{"names": ["registry.example.com/base:${uid}"], "sizeBytes": 100000000}],
    },
}


@dataclass(slots=True)
class World:
    """A cluster whose pods and nodes are replaced one by one."""

    node_count: int
    pods_per_node: int
    seed: int = 1
    cache: Cache = field(default_factory=Cache)
    placed: list[list[str]] = field(default_factory=list)
    """The uids of the pods of each node, by the node's place."""
    nodes: list[str] = field(default_factory=list)
    serial: int = 0
    decisions: int = 0
    _rng: RandomStream = field(init=False)
    _drain: Drain = field(init=False)
    _node: Template = field(init=False)
    _kinds: list[tuple[Template, Template]] = field(init=False)

    def __post_init__(self) -> None:
        self._rng = RandomStream(self.seed, "churn")
        profiles = build_profiles(Workload(title="churn", cluster="", ops=()))
        self._drain = Drain(self.cache, profiles, Search(all_nodes=True))
        self._node = Template(stored_node(NODE))
        self._kinds = []
        for share, pod in KINDS:
            bound = Template(stored_pod(pod, bound=True, nominated=False))
            waiting = Template(stored_pod(pod, bound=False, nominated=False))
            self._kinds += [(bound, waiting)] * share
        for place in range(self.node_count):
            self.nodes.append("")
            self.placed.append([])
            self._launch(place)
            for _ in range(self.pods_per_node):
                self._start(place)

    def replace_pod(self, *, decide: bool) -> None:
        """Replace a pod by another one, on the same node or where the scheduler places it."""
        place = self._rng.below(self.node_count)
        if self.placed[place]:
            self._end(self.placed[place].pop(self._rng.below(len(self.placed[place]))))
            self._start(place, decide=decide)

    def replace_node(self) -> None:
        """Replace a node and its pods."""
        place = self._rng.below(self.node_count)
        leaving, self.placed[place] = self.placed[place], []
        for uid in leaving:
            self._end(uid)
        self.cache.remove_node(self.nodes[place])
        self._launch(place)
        for _ in leaving:
            self._start(place)

    def table_sizes(self) -> dict[str, int]:
        """Return the number of entries in the tables and in the caches of plugins and framework."""
        return table_sizes(cache=self.cache, profiles=self._drain.built.profiles)

    def _launch(self, place: int) -> None:
        self.serial += 1
        name = self.nodes[place] = f"node-{self.serial}"
        values = {"name": name, "zone": f"zone-{place % 5}", "i": str(self.serial)}
        data = self._fill(self._node, values)
        self.cache.add_node(decode_as(Node, data), data)

    def _start(self, place: int, *, decide: bool = False) -> None:
        self.serial += 1
        bound, waiting = self._kinds[self._rng.below(len(self._kinds))]
        values = {
            "name": f"pod-{self.serial}",
            "group": f"group-{self._rng.below(300)}",
            "rollout": f"r{self.serial // ROLLOUT_LENGTH}",
            "node": self.nodes[place],
        }
        if decide:
            pod = self._info(waiting, values)
            self._drain.decide(pod)
            self.decisions += 1
            place = self.nodes.index(self._drain.last_host)
            values["node"] = self.nodes[place]
        pod = self._info(bound, values)
        self.cache.add_pod(pod)
        self.placed[place].append(pod.uid)

    def _end(self, uid: str) -> None:
        # Of a pod that leaves, only the uid is read.
        self.cache.remove_pod(cast("PodInfo", SimpleNamespace(uid=uid)))

    def _info(self, template: Template, values: dict[str, str]) -> PodInfo:
        data = self._fill(template, values)
        return self.cache.pod_info(decode_as(Pod, data), data)

    def _fill(self, template: Template, values: dict[str, str]) -> bytes:
        fixed = {
            "uid": f"uid-{self.serial}",
            "suffix": f"{self.serial:05d}",
            "started": "2026-11-01T08:00:00Z",
        }
        return template.render([values.get(name) or fixed[name] for name in template.names])


def simulate(world: World, options: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Yield the sizes at the beginning and after each part of the week."""
    yield measured(world)
    for part in range(1, options.parts + 1):
        node_share = _share(options.node_replacements, part, options.parts)
        for i in range(_share(options.pod_replacements, part, options.parts)):
            world.replace_pod(decide=bool(options.decide_every) and i % options.decide_every == 0)
        for _ in range(node_share):
            world.replace_node()
        yield measured(world)


def measured(world: World) -> dict[str, float]:
    """Return table sizes and resident memory after a garbage collection."""
    gc.collect()
    return {**world.table_sizes(), RESIDENT: machine.resident_mb()}


def grown_too_much(samples: Sequence[dict[str, float]]) -> list[str]:
    """Return the tables that kept too many deleted objects, and memory if it grows.

    Caches fill up first: tables are compared with the end of the first part, memory with the middle
    of the week, when the change log and the budgets of kept verdicts and counts are full. From then
    on, memory must neither be much larger at the end, nor rise part by part. The profiles' caches
    have a budget in bytes, and are part of the resident memory.

    Args:
        samples: the sizes at the beginning and after each part.
    """
    first, last = samples[1], samples[-1]
    allowed = {
        name: max(2 * first.get(name, 0) + DEAD_MAX, BOUNDED.get(name, 0))
        for name in last
        if name.startswith("cache.")
    }
    grown = [name for name, size_max in allowed.items() if last[name] > size_max]
    resident = [sample[RESIDENT] for sample in samples[len(samples) // 2 :]]
    if resident[-1] > max(resident[0], 1) * RESIDENT_GROWTH_MAX or slope(resident) > SLOPE_MAX:
        grown.append(RESIDENT)
    return grown


def slope(values: Sequence[float]) -> float:
    """Return the fitted rise per value, as a share of the last value."""
    if len(values) < 2:
        return 0.0
    rise, _ = np.polyfit(np.arange(len(values)), np.array(values), 1)
    return float(rise) / values[-1]


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate and print a table of sizes; with --check, return 1 if a table keeps growing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods-per-node", type=int, default=20)
    parser.add_argument("--pod-replacements", type=int, default=50_000)
    parser.add_argument("--node-replacements", type=int, default=3_000)
    parser.add_argument(
        "--decide-every", type=int, default=10, metavar="N", help="schedule every Nth pod; 0: none"
    )
    parser.add_argument(
        "--parts", type=int, default=7, help="parts of the week; print the sizes after each"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="fail if a table keeps growing")
    parser.add_argument("--all", action="store_true", help="show every table")
    options = parser.parse_args(argv)
    world = World(options.nodes, options.pods_per_node, options.seed)
    samples = list(simulate(world, options))
    table = Table("after part", *(str(part) for part in range(len(samples))), pad_edge=False)
    grown = grown_too_much(samples)
    for name, last in samples[-1].items():
        has_risen = name.count(".") <= SHOWN_DEPTH and last > max(
            samples[0].get(name, 0), SHOWN_MIN
        )
        if options.all or name in grown or has_risen or name == RESIDENT:
            table.add_row(name, *(f"{sample.get(name, 0):,.0f}" for sample in samples))
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    late = slope([sample[RESIDENT] for sample in samples[len(samples) // 2 :]])
    console.print(f"{world.decisions:,} decisions. {machine.description()}")
    console.print(f"Resident memory over the second half: {late:+.1%} per part")
    if grown:
        console.print(f"keeps deleted objects: {', '.join(grown)}")
    return int(options.check and bool(grown))


def _share(total: int, part: int, parts: int) -> int:
    return total * part // parts - total * (part - 1) // parts


if __name__ == "__main__":
    sys.exit(main())
