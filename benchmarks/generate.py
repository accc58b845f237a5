"""Generates the objects of a workload: one JSON line each from (workload, node count, seed).

The same lines feed kubesched and the oracle; the same seed gives the same bytes.
Upstream: test/integration/scheduler_perf/executor.go
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from benchmarks.stored import Document, stored_node, stored_object, stored_pod
from benchmarks.workload import Op, Variable, Workload, load_cluster
from kubesched.kit.rng import RandomStream

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# In a template `${name}` is text within a string; a string that is `#{name}` becomes a number.
_PLACE = re.compile(r'"#\{(\w+)\}"|\$\{(\w+)\}')

Filler = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Line:
    """One object: its kind, its JSON, and whether it belongs to the burst."""

    kind: str
    data: bytes
    measured: bool = False


class Template:
    """A document with placeholders, parsed once."""

    def __init__(self, document: Document) -> None:
        self.kind: str = document["kind"]
        text = msgspec.json.encode(document).decode()
        self._literals: list[str] = []
        self.names: list[str] = []
        """The variables of the placeholders, in order."""
        end = 0
        for place in _PLACE.finditer(text):
            self._literals.append(text[end : place.start()])
            self.names.append(place.group(1) or place.group(2))
            end = place.end()
        self._literals.append(text[end:])

    def render(self, values: Iterable[str]) -> bytes:
        """Return the document with a value for each placeholder."""
        pieces = [literal + value for literal, value in zip(self._literals, values, strict=False)]
        return "".join([*pieces, self._literals[-1]]).encode()


@dataclass(slots=True)
class Maker:
    """Makes the objects of a cluster and of its workload; names and uids never repeat."""

    node_count: int
    seed: int = 0
    pods_per_node: int | None = None
    """Bound pods per node in the cluster; None: the number in the cluster's file."""
    _uids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def cluster(self, name: str) -> Iterator[Line]:
        """Yield nodes, bound pods and the other objects of the cluster."""
        for op in load_cluster(name):
            if op.bound and self.pods_per_node is not None:
                op = msgspec.structs.replace(op, count_per_node=self.pods_per_node)  # noqa: PLW2901
            yield from self.run(op)

    def workload(self, workload: Workload, burst: int | None = None) -> Iterator[Line]:
        """Yield the objects of a workload, the burst last; `burst` limits its pods."""
        for op in sorted(workload.ops, key=lambda op: op.collect_metrics):
            lines = self.run(op)
            yield from itertools.islice(lines, burst) if op.collect_metrics else lines

    def run(self, op: Op) -> Iterator[Line]:
        """Yield the objects of one operation."""
        template = Template(_document(op))
        fillers = self._fillers(op)
        count = self.node_count if op.opcode == "createNodes" else op.count_at(self.node_count)
        for i in range(count):
            data = template.render([fillers[name](i) for name in template.names])
            yield Line(template.kind, data, op.collect_metrics)

    def _fillers(self, op: Op) -> dict[str, Filler]:
        count = self.node_count
        fillers: dict[str, Filler] = {
            "i": lambda i: f"{i:06d}",
            "uid": lambda i: _uid(self.seed, next(self._uids)),
            "suffix": _suffix,
            "node": lambda i: f"node-{i % count:06d}",
            "started": lambda i: f"2026-11-{1 + i % 28:02d}T{i % 24:02d}:00:{i % 60:02d}Z",
        }
        for name, variable in op.variables.items():
            fillers[name] = self._counter(name, variable)
        return fillers

    def _counter(self, name: str, variable: Variable) -> Filler:
        node_count = self.node_count
        if variable.choices:
            rng = RandomStream(self.seed, name)
            texts = [str(choice) for choice in variable.choices]
            return lambda _i: texts[rng.below(len(texts))]
        start, step, modulo = variable.start, variable.step, variable.modulo

        def value(i: int) -> str:
            number = i // node_count if variable.per_node else i
            return str(start + step * (number % modulo if modulo else number))

        return value


def burst_of(lines: Iterable[Line]) -> tuple[list[Line], list[Line]]:
    """Return the other objects of the workload, and the burst."""
    objects = list(lines)
    return [line for line in objects if not line.measured], [
        line for line in objects if line.measured
    ]


def _document(op: Op) -> Document:
    if op.opcode == "createNodes":
        return stored_node(op.template)
    if op.opcode == "createPods":
        return stored_pod(op.template, bound=op.bound, nominated=op.nominated)
    if op.opcode == "createObjects":
        return stored_object(op.template)
    raise ValueError(f"unknown opcode {op.opcode!r}")


def _uid(seed: int, number: int) -> str:
    return f"{seed:08x}-0000-4000-8000-{number:012x}"


def _suffix(number: int) -> str:
    """Return the five-character suffix of a generated name."""
    letters: list[str] = []
    number = number * 7_368_787 + 12_345  # Spread, so that consecutive numbers differ.
    for _ in range(5):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)
