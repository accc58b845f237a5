"""Cost of an out-of-tree plugin per decision: one node at a time, and as columns.

Schedules the same burst without a plugin and with each of four, inside the sandbox, with all nodes
evaluated. The variants alternate, so that other load affects all of them; limits apply to CPU time.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.drain import Drained  # noqa: E402
from benchmarks.session import Session  # noqa: E402
from benchmarks.workload import Workload, load_workload  # noqa: E402

LIMIT_NODES = 5_000
"""The number of nodes for which the limits apply."""
VARIANTS = {
    "": ("no plugin", None),
    "NotOnSpot": ("a filter, one node at a time", 15.0),
    "PreferLarge": ("a score, one node at a time", 15.0),
    "NotOnSpotColumns": ("the same filter as columns", 0.3),
    "PreferLargeColumns": ("the same score as columns", 0.3),
}
"""By plugin: its description, and the maximum of milliseconds it adds to a decision."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of decisions with one plugin or none: medians over the runs, in milliseconds."""

    plugin: str
    p50_ms: float
    cpu_ms: float
    """Processor time, which other load does not affect."""
    without: "Cost | None" = None

    @property
    def added_ms(self) -> float:
        """Return the time that the plugin adds to a decision."""
        return self.p50_ms - self.without.p50_ms if self.without else 0.0

    @property
    def added_cpu_ms(self) -> float:
        """Return the processor time that the plugin adds."""
        return self.cpu_ms - self.without.cpu_ms if self.without else 0.0

    @property
    def limit_ms(self) -> float | None:
        """Return the maximum of the added time."""
        return VARIANTS[self.plugin][1]

    @property
    def is_over(self) -> bool:
        """Return whether the added processor time exceeds the limit."""
        return self.limit_ms is not None and self.added_cpu_ms > self.limit_ms


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; return 1 if a plugin exceeds its limit."""
    options = arguments(argv)
    costs = measure(options)
    sys.stdout.write(table(costs, options.nodes))
    sys.stdout.write(
        f"\nMedians of {options.runs} runs, {options.nodes:,} nodes. {machine.description()}.\n"
    )
    return 1 if options.nodes == LIMIT_NODES and any(cost.is_over for cost in costs) else 0


def measure(options: argparse.Namespace) -> list[Cost]:
    """Return the cost of each variant."""
    session = Session(options.nodes, seconds_max=options.seconds, burst=options.burst)
    workload = load_workload(options.workload)
    runs: dict[str, list[Drained]] = {plugin: [] for plugin in VARIANTS}
    for _ in range(options.runs):
        for plugin in VARIANTS:
            runs[plugin] += session.runs(with_plugin(workload, plugin), 1)
    for plugin, own in runs.items():
        assert all(run.placed == run.decided for run in own), f"every pod fits: {plugin}"
    without = cost_of("", runs[""], None)
    return [without, *(cost_of(plugin, runs[plugin], without) for plugin in VARIANTS if plugin)]


def cost_of(plugin: str, runs: Sequence[Drained], without: Cost | None) -> Cost:
    """Return the medians of some runs."""
    return Cost(
        plugin,
        p50_ms=median(run.p50_us for run in runs) / 1e3,
        cpu_ms=median(1e3 / run.cpu_rate for run in runs),
        without=without,
    )


def with_plugin(workload: Workload, plugin: str) -> Workload:
    """Return a workload whose profile also has a plugin."""
    if not plugin:
        return workload
    enabled = {"multiPoint": {"enabled": [{"name": plugin}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": enabled}],
    }
    return msgspec.structs.replace(workload, config=config, user_plugins=(plugin,))


def table(costs: Sequence[Cost], node_count: int) -> str:
    """Return the costs as a Markdown table."""
    lines = [
        f"| at {node_count:,} nodes, ms a decision | wall | CPU | added wall | added CPU | limit |",
        "|---|---|---|---|---|---|",
    ]
    for cost in costs:
        limit = (
            "–" if cost.limit_ms is None else f"{cost.limit_ms:g} {'✗' if cost.is_over else '✓'}"
        )
        added = ("–", "–")
        if cost.without:
            added = (f"{cost.added_ms:.3f}", f"{cost.added_cpu_ms:.3f}")
        title = VARIANTS[cost.plugin][0]
        figures = f"{cost.p50_ms:.3f} | {cost.cpu_ms:.3f} | {added[0]} | {added[1]}"
        lines.append(f"| {title} | {figures} | {limit} |")
    return "\n".join(lines) + "\n"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=LIMIT_NODES)
    parser.add_argument("--workload", default="one-template")
    parser.add_argument("--runs", type=int, default=5, help="runs of each variant")
    parser.add_argument("--seconds", type=float, default=5, help="maximum duration of a run")
    parser.add_argument("--burst", type=int, default=1_000, help="maximum of decisions per run")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
