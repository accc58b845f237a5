"""How the cost of a decision grows with nodes, bound pods, templates and nominated pods.

One quantity grows while the others stay. Prints a table.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.report import RESULTS  # noqa: E402
from benchmarks.results import put_between, today  # noqa: E402
from benchmarks.session import Figures, Session  # noqa: E402
from benchmarks.workload import Op, Workload, load_workload, with_nominated  # noqa: E402

NODES, TEMPLATES = 5_000, 300
SHORT_NODES = 200
BY_NODES = (
    "one-template",
    "templates-300",
    "every-pod-distinct",
    "hard-spread-zone",
    "affinity-zone",
    "soft-spread",
    "owned",
    "unschedulable",
    "preemption-4",
)
BY_NOMINATIONS = (*BY_NODES, "anti-affinity-host", "bound-volumes", "daemonset", "user-plugins")
BY_TEMPLATES = ("templates-300", "owned-300")


@dataclass(frozen=True, slots=True)
class Growth:
    """The growing quantity, its sizes, and the workloads."""

    title: str
    sizes: tuple[int, ...]
    workloads: tuple[str, ...]
    session: Callable[[int], Session]
    changed: Callable[[Workload, int], Workload]


def growths(node_count: int, seconds: float) -> tuple[Growth, ...]:
    """Return all measurements of a cluster with a number of nodes and 20 pods per node."""

    def with_nodes(size: int) -> Session:
        return Session(size, seconds_max=seconds)

    def with_pods(size: int) -> Session:
        return Session(node_count, seconds_max=seconds, pods_per_node=size)

    def with_same_nodes(_: int) -> Session:
        return with_nodes(node_count)

    def unchanged(workload: Workload, _: int) -> Workload:
        return workload

    nodes = (node_count // 4, node_count, 4 * node_count)
    templates = (TEMPLATES // 10, TEMPLATES, 10 * TEMPLATES)
    by_pods = tuple(name for name in BY_NODES if not name.startswith("preemption"))
    return (
        Growth("nodes", nodes, BY_NODES, with_nodes, unchanged),
        Growth("bound pods a node", (5, 20, 80), by_pods, with_pods, unchanged),
        Growth("templates", templates, BY_TEMPLATES, with_same_nodes, of_templates),
        Growth("nominated pods", (0, 1_000), BY_NOMINATIONS, with_same_nodes, with_nominated),
    )


def of_templates(workload: Workload, count: int) -> Workload:
    """Return a workload of 300 templates with `count` templates instead, each used repeatedly."""
    title = workload.title.removeprefix(f"{TEMPLATES} ")
    ops = tuple(_of_templates(op, count) for op in workload.ops)
    return msgspec.structs.replace(workload, ops=ops, title=title)


def _of_templates(op: Op, count: int) -> Op:
    variables = {
        name: msgspec.structs.replace(variable, modulo=count)
        if variable.modulo == TEMPLATES
        else variable
        for name, variable in op.variables.items()
    }
    return msgspec.structs.replace(
        op,
        variables=variables,
        count=count if op.count == TEMPLATES else op.count,
        # Each template is used several times, regardless of their number.
        count_per_node=max(op.count_per_node, 4) if op.collect_metrics else op.count_per_node,
    )


def measured(growth: Growth, runs: int) -> Iterator[tuple[str, list[Figures]]]:
    """Yield the title of each workload with its figures by size."""
    by_workload: dict[str, list[Figures]] = {name: [] for name in growth.workloads}
    for size in growth.sizes:
        session = growth.session(size)
        workloads = [growth.changed(load_workload(name), size) for name in growth.workloads]
        # Workloads of one cluster are adjacent, so that it is loaded once.
        for workload in sorted(workloads, key=lambda one: one.cluster):
            figures = Figures(workload, session.node_count, tuple(session.runs(workload, runs)))
            by_workload[workload.name].append(figures)
    for figures_by_size in by_workload.values():
        # The title without the description of the growing part.
        yield figures_by_size[0].workload.title.partition(";")[0], figures_by_size


def table(growth: Growth, runs: int) -> Iterator[str]:
    """Yield the lines of a table: microseconds of processor time per decision, by size."""
    sizes = " | ".join(f"{size:,}" for size in growth.sizes)
    first, last = growth.sizes[0], growth.sizes[-1]
    more = f"{last / first:g} times more" if first else "more"
    yield f"| µs a decision, by {growth.title} | {sizes} | {more} |"
    yield "|---|" + "---:|" * (len(growth.sizes) + 1)
    for title, figures in measured(growth, runs):
        costs = [1e6 / one.cpu_rate for one in figures]
        cells = [f"{cost:,.0f}" for cost in costs]
        yield f"| {title} | " + " | ".join(cells) + f" | {costs[-1] / costs[0]:.1f} times |"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of each workload; the median counts"
    )
    parser.add_argument("--seconds", type=float, default=2, help="maximum duration of a run")
    parser.add_argument("--short", action="store_true", help="200 nodes, one run")
    parser.add_argument("--by", default="", help="only measurements whose title contains this text")
    parser.add_argument("--write", action="store_true", help="update RESULTS.md")
    options = parser.parse_args(argv)
    nodes, runs = (SHORT_NODES, 1) if options.short else (NODES, options.runs)
    head = f"{today()}. {machine.description()}. {runs} runs of at most {options.seconds:g} s."
    sys.stdout.write(f"{head}\n")
    for growth in growths(nodes, options.seconds):
        if options.by in growth.title:
            lines = list(table(growth, runs))
            sys.stdout.write("\n".join(["", *lines, ""]))
            sys.stdout.flush()
            if options.write:
                put_between(RESULTS, f"growth by {growth.title}", [head, "", *lines])
    return 0


if __name__ == "__main__":
    sys.exit(main())
