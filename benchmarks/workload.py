"""Workloads and clusters, read from YAML.

Operations are those of scheduler_perf, with counts per node: one file serves every size.
Upstream: test/integration/scheduler_perf/operations.go
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

HERE = Path(__file__).resolve().parent


class Variable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `${name}` in the i-th object: a counter, or a seeded choice."""

    start: int = 0
    step: int = 1
    modulo: int = 0
    """The number of distinct values; 0: one per object."""
    choices: tuple[Any, ...] = ()
    per_node: bool = msgspec.field(default=False, name="perNode")
    """Count nodes instead of objects."""


class Op(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One operation: create objects from one template."""

    opcode: str
    """createNodes, createPods or createObjects."""
    template: dict[str, Any] = {}
    count: int = 0
    count_per_node: float = 0
    bound: bool = False
    """The pods are bound to the nodes in turn."""
    nominated: bool = False
    """The pods are pending and nominated to the nodes in turn."""
    collect_metrics: bool = False
    """The pods are pending, and form the measured burst."""
    variables: dict[str, Variable] = {}

    def count_at(self, node_count: int) -> int:
        """Return the number of objects in a cluster with a number of nodes."""
        return self.count or round(self.count_per_node * node_count)


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A cluster, additional objects, and the burst of pods to decide on."""

    title: str
    cluster: str
    ops: tuple[Op, ...]
    name: str = ""
    floor: int = 0
    """The required decisions per second at 5,000 nodes; 0 if none is set."""
    config: dict[str, Any] | None = None
    user_plugins: tuple[str, ...] = ()
    """Classes of `benchmarks.user_plugins` in the configuration."""
    adaptive_sampling: bool = False
    """Let the configuration limit the evaluated nodes; otherwise all are evaluated."""
    expect: str = "placed"
    """The expected outcome of every pod: placed, preempting or unschedulable."""


def workload_names() -> list[str]:
    """Return the names of all workloads, sorted."""
    return sorted(path.stem for path in (HERE / "workloads").glob("*.yaml"))


def load_workload(name: str) -> Workload:
    """Return a workload by its name."""
    path = HERE / "workloads" / f"{name}.yaml"
    if not path.exists():
        raise SystemExit(f"no workload {name!r}: known are {', '.join(workload_names())}")
    workload = msgspec.convert(yaml.safe_load(path.read_text()), Workload)
    return msgspec.structs.replace(workload, name=name)


def load_cluster(name: str) -> tuple[Op, ...]:
    """Return the operations that create a cluster."""
    document = yaml.safe_load((HERE / "clusters" / f"{name}.yaml").read_text())
    return msgspec.convert(document["ops"], tuple[Op, ...])


def with_nominated(workload: Workload, count: int) -> Workload:
    """Return the workload with additional nominated pods of high priority."""
    if not count:
        return workload
    spec = {"priority": 100, "containers": [{"resources": {"requests": {"cpu": "100m"}}}]}
    nominee = Op(
        opcode="createPods",
        nominated=True,
        count=count,
        template={"metadata": {"name": "nominated-by-option-${i}"}, "spec": spec},
    )
    title = f"{workload.title}; {count:,} nominated"
    return msgspec.structs.replace(workload, ops=(nominee, *workload.ops), title=title)
