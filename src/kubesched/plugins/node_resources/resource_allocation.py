"""The form of a scoring strategy, and how it is evaluated over a row or over columns.

A `Strategy` gives the score of one resource and how the scores of all resources are averaged. From
it derive the score of a row by its counters, of a row by resource names, of a table, and of a table
whose numbers overflow as Go's do. `ScoredResources` decides which resources count for which pod.
Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.resource_requests import CPU, MEMORY, is_scalar_resource
from kubesched.config.types import ResourceSpec
from kubesched.framework.normalize import truncated_divide
from kubesched.snapshot.expressions import Values, as_int
from kubesched.snapshot.node_columns import (
    NONZERO_LEFT,
    SMALL_BITS,
    BoolColumn,
    IntColumn,
    NodeCounters,
    ResourceMatrix,
)
from kubesched.snapshot.pod_info import Resources
from kubesched.snapshot.view import NodeRow, NodeTable

ONE_BIT = np.array(1, dtype=np.int32)
"""The shift that halves scores; as an array of their width it is faster than a Python int."""

Columns: TypeAlias = "Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]"
"""See `Strategy.of_columns`."""
RowScorer: TypeAlias = "Callable[[NodeCounters], int]"
MatrixScorer: TypeAlias = "Callable[[ResourceMatrix], NDArray[Any]]"


class ScoredRequests(NamedTuple):
    """The resources that count for one pod."""

    requests: tuple[int, ...]
    is_small: bool
    """Whether floats hold the requests, a hundred times over."""
    specs: list[tuple[str, int, bool]]
    """Name, weight, and whether pods without a request count as something."""
    names: tuple[str, ...]
    weights: tuple[int, ...]
    weight_sum: int
    kind: str | None
    """The columns all of them are read from; None if that differs."""

    @property
    def is_nonzero(self) -> bool:
        """Return whether pods without a request count as something, for each resource."""
        return self.kind == "nonzero_requested"

    @property
    def is_by_matrix(self) -> bool:
        """Return whether they are what a `ResourceMatrix` has, and floats hold the requests."""
        return self.is_small and self.kind is not None and self.names == (CPU, MEMORY)

    @property
    def resources(self) -> list[tuple[str, int, bool, int]]:
        """Return the name, weight, `is_nonzero` and request of each."""
        return [(*spec, request) for spec, request in zip(self.specs, self.requests, strict=True)]


class Allocations(NamedTuple):
    """What nodes have of the resources that count: one line per resource, one entry per node.

    Whole numbers, as floats where these hold them exactly: they divide several times as fast.
    """

    allocated: NDArray[np.float64] | NDArray[np.int64]
    requested: NDArray[np.float64] | NDArray[np.int64]
    """What is allocated, and what the pod would add."""
    allocatable: NDArray[np.float64] | NDArray[np.int64]
    """Where it is zero, the resource is left out of the node's score."""
    offered: BoolColumn | None
    """Where it is not zero; None if it is zero nowhere."""


class ScoredResources:
    """The resources a profile scores by."""

    def __init__(self, resources: Sequence[ResourceSpec], *, use_requested: bool) -> None:
        """Choose real requests, or a default for pods that request no cpu or memory."""
        self._specs = [
            (resource.name, resource.weight, not use_requested and resource.name in (CPU, MEMORY))
            for resource in resources
        ]
        self._scalars = [name for name, _, _ in self._specs if is_scalar_resource(name)]
        self._counted: dict[tuple[str, ...], ScoredRequests] = {}
        """By the extended resources that pods do not request, without requests."""

    def of_pod(self, requests: Resources) -> ScoredRequests:
        """Return those that count for a pod of these requests."""
        # An extended resource that the pod does not request does not affect where it should go.
        unrequested = tuple([name for name in self._scalars if not requests[name]])
        counted = self._counted.get(unrequested)
        if counted is None:
            counted = self._counted[unrequested] = self._without(unrequested)
        amounts = tuple(map(requests.__getitem__, counted.names))
        return counted._replace(requests=amounts, is_small=are_small(amounts))

    def _without(self, unrequested: tuple[str, ...]) -> ScoredRequests:
        specs = [spec for spec in self._specs if spec[0] not in unrequested]
        weights = tuple(weight for _, weight, _ in specs)
        kinds = {_kind(is_nonzero) for _, _, is_nonzero in specs}
        return ScoredRequests(
            requests=(),
            is_small=True,
            specs=specs,
            names=tuple(name for name, _, _ in specs),
            weights=weights,
            weight_sum=sum(weights),
            kind=kinds.pop() if len(kinds) == 1 else None,
        )


def are_small(amounts: Iterable[int]) -> bool:
    """Return whether floats hold the amounts, a hundred times over."""
    return not reduce(or_, amounts, 0) >> SMALL_BITS


def _kind(is_nonzero: bool) -> str:
    return "nonzero_requested" if is_nonzero else "requested"


def allocations(nodes: NodeTable, counted: ScoredRequests) -> Allocations:
    """Return what nodes have of the resources that count."""
    # Parity: resource_allocation.go calculateNodeAllocatableRequest, v1.36.
    dtype: type = np.float64 if counted.is_small and nodes.has_small_numbers else np.int64
    names = counted.names
    allocatable = nodes.lines("allocatable", names, dtype)
    if counted.kind is not None:
        allocated = nodes.lines(counted.kind, names, dtype)
    else:
        allocated = np.empty((len(names), len(nodes)), dtype=dtype)
        for line, (name, _, is_nonzero) in zip(allocated, counted.specs, strict=True):
            line[:] = nodes.lines(_kind(is_nonzero), (name,), dtype)[0]
    requested = np.empty_like(allocated)
    for line, before, request in zip(requested, allocated, counted.requests, strict=True):
        np.add(before, request, out=line)
    offered = None if nodes.all_offer(names) or allocatable.all() else allocatable != 0
    return Allocations(allocated, requested, allocatable, offered)


def is_by_floats(nodes: NodeTable, counted: ScoredRequests) -> bool:
    """Return whether every node offers all scored resources, in numbers that floats hold."""
    if not counted.is_small or not nodes.has_small_numbers:
        return False
    return len(counted.names) > 0 and nodes.all_offer(counted.names) and len(nodes) > 0


class _Scratch:
    """Memory for intermediate results: allocating it costs as much as using it."""

    def __init__(self) -> None:
        self._memory: NDArray[np.float64] = np.empty(0)
        self._lines = self._memory.reshape(0, 0)

    def lines(self, count: int, length: int) -> NDArray[np.float64]:
        """Return that many lines, for the use within one call."""
        if self._lines.shape != (count, length):
            size = count * length
            if len(self._memory) < size:
                self._memory = np.empty(size)
            self._lines = self._memory[:size].reshape(count, length)
        return self._lines


SCRATCH = _Scratch()


def is_by_integers(row: NodeRow, counted: ScoredRequests) -> bool:
    """Return whether plain integers give for a row what Go's, which overflow, would."""
    return counted.is_small and row.has_small_numbers


def as_table(row: NodeTable | NodeRow) -> NodeTable:
    """Return a row as a table of one, where numbers overflow as Go's do."""
    return row.view.nodes_at(np.array([row.rows], dtype=np.int64))


def percent_of(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[Any]:
    """Return `100 * part / whole` as Go divides integers; the part's array is overwritten."""
    part *= 100
    return quotient(part, whole)


def quotient(dividend: NDArray[Any], divisor: Values) -> NDArray[Any]:
    """Divide as Go divides integers; the dividend's array is overwritten.

    Floats stand for integers that are not negative, and give quotients that int32 holds.
    """
    if dividend.dtype == np.float64:
        # A quotient of integers that floats hold is never rounded up to the next integer.
        np.divide(dividend, divisor, out=dividend)
        return dividend.astype(np.int32)
    if dividend.dtype == np.int32:
        return dividend // divisor
    return truncated_divide(dividend, divisor)


class Strategy(NamedTuple):
    """How well nodes are used: the score of one resource, from which all else is derived.

    Both forms get what would be requested and what is allocatable, which is never zero.
    """

    of_row: Callable[[int, int], int]
    """The score by plain integers, none of which is large."""
    of_columns: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    """The same by columns of floats or int64; `requested` may be overwritten."""
    leaves_out_zeros: bool = False
    """Whether a resource that scores nothing does not weigh either, and means are rounded."""
    of_left: Callable[[NDArray[np.float64], ScoredRequests, bool], NDArray[np.int32]] | None = None
    """A quicker form of the mean, for nodes that offer every resource. It takes the percentages
    that are left with the pod, which it may overwrite, and whether some may be negative."""

    def scores(self, nodes: NodeTable | NodeRow, counted: ScoredRequests) -> Values:
        """Return the score of each node; of a row, one number."""
        if isinstance(nodes, NodeRow):
            if is_by_integers(nodes, counted):
                return self._mean_of_row(nodes, counted)
            return self.scores(as_table(nodes), counted).item()
        if self.of_left is not None and is_by_floats(nodes, counted) and counted.is_nonzero:
            hundredfold = nodes.lines(NONZERO_LEFT, counted.names, np.float64)
            left = SCRATCH.lines(*hundredfold.shape)
            np.subtract(hundredfold, _hundredfold(counted), out=left)
            left /= nodes.lines("allocatable", counted.names, np.float64)
            return self.of_left(left, counted, True)
        if not counted.names:
            return np.zeros(len(nodes), dtype=np.int64)
        amounts = allocations(nodes, counted)
        mean = _rounded_mean if self.leaves_out_zeros else mean_of
        return mean(amounts, counted, self.of_columns)

    def row_rule(self, counted: ScoredRequests) -> RowScorer | None:
        """Return the score of a row by its counters; None if these lack a resource that counts."""
        if not counted.is_by_matrix or not counted.is_nonzero:
            return None
        of_row, (cpu, memory) = self.of_row, counted.requests
        cpu_weight, memory_weight = counted.weights
        weight_sum, leaves_out_zeros = counted.weight_sum, self.leaves_out_zeros

        def score(counters: NodeCounters) -> int:
            cpu_whole, memory_whole = counters.cpu_allocatable, counters.memory_allocatable
            by_cpu = by_memory = 0
            if cpu_whole:
                by_cpu = of_row(counters.cpu_nonzero + cpu, cpu_whole)
            if memory_whole:
                by_memory = of_row(counters.memory_nonzero + memory, memory_whole)
            if leaves_out_zeros:
                return _rounded_row_mean(((by_cpu, cpu_weight), (by_memory, memory_weight)))
            if cpu_whole and memory_whole:
                return (by_cpu * cpu_weight + by_memory * memory_weight) // weight_sum
            return by_cpu or by_memory

        return score

    def matrix_rule(self, counted: ScoredRequests) -> MatrixScorer | None:
        """Return the score of some rows by a matrix; None if that lacks a resource that counts."""
        of_left = self.of_left
        if of_left is None or not counted.is_by_matrix or not counted.is_nonzero:
            return None
        hundredfold = np.array(_hundredfold(counted))
        (cpu,), (memory,) = hundredfold.tolist()

        def score(matrix: ResourceMatrix) -> NDArray[np.int32]:
            left = np.subtract(matrix.hundredfold_nonzero_left, hundredfold, out=matrix.scratch)
            left /= matrix.allocatable
            lowest = matrix.lowest_left
            return of_left(left, counted, lowest[3] < cpu or lowest[4] < memory)

        return score

    def _mean_of_row(self, row: NodeRow, counted: ScoredRequests) -> int:
        of_row, scores = self.of_row, []
        offered, nonzero, taken = row.allocatable, row.nonzero_requested, row.requested
        for name, weight, is_nonzero, request in counted.resources:
            whole = offered[name]
            if whole:
                allocated = nonzero[name] if is_nonzero else taken[name]
                scores.append((of_row(allocated + request, whole), weight))
        if self.leaves_out_zeros:
            return _rounded_row_mean(scores)
        weights = sum([weight for _, weight in scores])
        return sum([score * weight for score, weight in scores]) // weights if weights else 0


def _hundredfold(counted: ScoredRequests) -> list[list[float]]:
    return [[100.0 * request] for request in counted.requests]


def _rounded_row_mean(scores: Iterable[tuple[int, int]]) -> int:
    """Return the mean of the scores that are not zero, rounded."""
    total = weights = 0
    for score, weight in scores:
        if score > 0:
            total += weight * score
            weights += weight
    mean: int = _rounded(total / max(weights, 1))
    return mean


def _rounded_mean(amounts: Allocations, counted: ScoredRequests, of_columns: Columns) -> IntColumn:
    _, requested, allocatable, offered = amounts
    if offered is not None:
        allocatable = np.where(offered, allocatable, 1)
    total = weights = np.zeros(requested.shape[1], dtype=np.int64)
    for line, weight in enumerate(counted.weights):
        scores = of_columns(requested[line], allocatable[line])
        has_weight = scores > 0 if offered is None else offered[line] & (scores > 0)
        total = total + weight * np.where(has_weight, scores, 0)
        weights = weights + weight * has_weight
    means: IntColumn = _rounded(total / np.maximum(weights, 1))
    return means


def _rounded(means: Values) -> Values:
    # Go rounds halves away from zero; means are never negative here.
    whole = as_int(means)
    return whole + as_int(2 * (means - whole))


def mean_of(amounts: Allocations, counted: ScoredRequests, score: Columns) -> IntColumn:
    """Return the mean score of at least one resource."""
    _, requested, allocatable, offered = amounts
    weight_sums: Values = counted.weight_sum
    if offered is None:
        scores = score(requested, allocatable)
    else:
        scores = score(requested, np.where(offered, allocatable, 1))
        scores *= offered
        weight_sums = np.maximum(np.dot(counted.weights, offered), 1).astype(scores.dtype)
    total = _weighed(scores[0], counted.weights[0])
    for line, weight in zip(scores[1:], counted.weights[1:], strict=True):
        total += _weighed(line, weight)
    means: IntColumn = quotient(total, weight_sums).astype(np.int64, copy=False)
    return means


def _weighed(scores: NDArray[np.float64], weight: int) -> NDArray[np.float64]:
    if weight != 1:
        scores *= weight
    return scores


def widened(scores: Values) -> Values:
    """Return scores as 64-bit integers, as the plugin contract has columns."""
    return scores.astype(np.int64, copy=False) if isinstance(scores, np.ndarray) else scores
