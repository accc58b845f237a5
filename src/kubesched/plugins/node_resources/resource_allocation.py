"""Requested, allocated and allocatable of the resources a profile scores by.

Owns which resources count on which node, over a table (arrays) or over a row (plain integers), and
division as Go divides. Never knows a strategy.
Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import SMALL_BITS, BoolColumn, IntColumn, NodeCells, NodeLines
from kubesched.columns.rules import Values
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.config.types import ResourceSpec
from kubesched.framework.normalize import truncated_divide
from kubesched.framework.status import StatusError, error
from kubesched.model.pod_info import PodInfo, Resources
from kubesched.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar_resource

RESOURCES_KEY = "v1.Pod.Spec.ContainerRequestsAndOverheads()"
ONE_BIT = np.array(1, dtype=np.int32)
"""To halve scores by: an array of their width halves a few in half the time."""
_NOT_FOUND = error("resources not found")

Score: TypeAlias = "Callable[[Values, Values], Values]"
"""The score of a resource by what is requested and allocatable of it, which is never zero.

What is requested may be used up."""
Scorer: TypeAlias = "Callable[[NodeTable | NodeRow, Counted], Values]"
CellsScorer: TypeAlias = "Callable[[NodeCells], int]"
LinesScorer: TypeAlias = "Callable[[NodeLines], NDArray[Any]]"


class ScoredResource(NamedTuple):
    """A resource that counts for one pod."""

    name: str
    weight: int
    request: int
    is_nonzero: bool
    """Whether pods that ask for nothing are counted as something."""


class Counted(NamedTuple):
    """The resources that count for one pod."""

    requests: tuple[int, ...]
    is_small: bool
    """Whether floats hold the requests, a hundred times over."""
    specs: list[tuple[str, int, bool]]
    names: tuple[str, ...]
    weights: tuple[int, ...]
    weight_sum: int
    kind: str | None
    """The columns all of them are read from; None if that differs."""

    @property
    def resources(self) -> tuple[ScoredResource, ...]:
        """Return all that is known of each."""
        return tuple(
            ScoredResource(name, weight, request, is_nonzero)
            for (name, weight, is_nonzero), request in zip(self.specs, self.requests, strict=True)
        )


class Allocations(NamedTuple):
    """What nodes have of the resources that count: one line a resource, one place a node.

    Whole numbers, as floats where these hold them exactly: they divide several times as fast.
    """

    allocated: NDArray[np.float64] | NDArray[np.int64]
    requested: NDArray[np.float64] | NDArray[np.int64]
    """What is allocated, and what the pod would add."""
    allocatable: NDArray[np.float64] | NDArray[np.int64]
    """Where it is zero, the resource is left out of the node's score."""
    there: BoolColumn | None
    """Where it is not zero; None if it is nowhere."""


class _Choice(NamedTuple):
    """What is the same for all pods that want the same extended resources."""

    specs: list[tuple[str, int, bool]]
    names: tuple[str, ...]
    weights: tuple[int, ...]
    weight_sum: int
    kind: str | None


class ScoredResources:
    """The resources a profile scores by."""

    def __init__(self, resources: Sequence[ResourceSpec], *, use_requested: bool) -> None:
        """Choose real requests, or cpu and memory that are never nothing."""
        self._specs = [
            (one.name, one.weight, not use_requested and one.name in (CPU, MEMORY))
            for one in resources
        ]
        self._scalars = [one.name for one in resources if is_scalar_resource(one.name)]
        self._choices: dict[tuple[str, ...], _Choice] = {}

    def of_pod(self, requests: Resources) -> Counted:
        """Return those that count for a pod of these requests."""
        # An extended resource the pod does not want says nothing about where it should go.
        unwanted: tuple[str, ...] = ()
        if self._scalars:
            unwanted = tuple(name for name in self._scalars if not requests[name])
        choice = self._choices.get(unwanted)
        if choice is None:
            choice = self._choices[unwanted] = self._choice(unwanted)
        wanted = tuple(map(requests.__getitem__, choice.names))
        bits = 0
        for request in wanted:
            bits |= request
        return Counted(wanted, not bits >> SMALL_BITS, *choice)

    def _choice(self, unwanted: tuple[str, ...]) -> _Choice:
        specs = [spec for spec in self._specs if spec[0] not in unwanted]
        weights = tuple(weight for _, weight, _ in specs)
        kinds = {_kind(is_nonzero) for _, _, is_nonzero in specs}
        return _Choice(
            specs,
            tuple(name for name, _, _ in specs),
            weights,
            sum(weights),
            kinds.pop() if len(kinds) == 1 else None,
        )


def not_found(nodes: NodeTable | NodeRow, counted: Counted) -> NoReturn:
    """Score by no resource at all, which is an error."""
    raise StatusError(_NOT_FOUND)


def _kind(is_nonzero: bool) -> str:
    return "nonzero_requested" if is_nonzero else "requested"


def allocations(nodes: NodeTable, counted: Counted) -> Allocations:
    """Return what nodes have of the resources that count."""
    # Parity: resource_allocation.go calculateNodeAllocatableRequest, v1.36.
    dtype: type = np.float64 if counted.is_small and nodes.has_small_numbers else np.int64
    names = counted.names
    allocatable = nodes.lines("allocatable", names, dtype)
    if counted.kind is not None:
        allocated = nodes.lines(counted.kind, names, dtype)
    else:
        allocated = np.empty((len(names), len(nodes)), dtype=dtype)
        for line, one in zip(allocated, counted.resources, strict=True):
            line[:] = nodes.lines(_kind(one.is_nonzero), (one.name,), dtype)[0]
    requested = np.empty_like(allocated)
    for line, before, request in zip(requested, allocated, counted.requests, strict=True):
        np.add(before, request, out=line)
    there = None if nodes.all_offer(names) or allocatable.all() else allocatable != 0
    return Allocations(allocated, requested, allocatable, there)


def is_by_floats(nodes: NodeTable, counted: Counted) -> bool:
    """Return whether floats hold what counts, all of it on every node, and there are any."""
    if not counted.is_small or not nodes.has_small_numbers:
        return False
    return len(counted.names) > 0 and nodes.all_offer(counted.names) and len(nodes) > 0


def is_by_lines(counted: Counted) -> bool:
    """Return whether what counts is what `NodeLines` have, and floats hold the requests."""
    return counted.is_small and counted.kind is not None and counted.names == (CPU, MEMORY)


class _Scratch:
    """Memory for what is worked out on the way: taking it anew costs as much as using it."""

    def __init__(self) -> None:
        self._memory: NDArray[np.float64] = np.empty(0)
        self._lines = self._memory.reshape(0, 0)

    def lines(self, count: int, length: int) -> NDArray[np.float64]:
        """Return that many lines, which nobody uses beyond the call that asked for them."""
        if self._lines.shape != (count, length):
            size = count * length
            if len(self._memory) < size:
                self._memory = np.empty(size)
            self._lines = self._memory[:size].reshape(count, length)
        return self._lines


SCRATCH = _Scratch()


def is_by_integers(row: NodeRow, counted: Counted) -> bool:
    """Return whether plain integers give for a row what Go's, which overflow, would."""
    return counted.is_small and row.has_small_numbers


def as_table(row: NodeTable | NodeRow) -> NodeTable:
    """Return a row as a table of one, where numbers overflow as Go's do."""
    return row.view.nodes_at(np.array([row.rows], dtype=np.int64))


def percent_of(part: Values, whole: Values) -> Values:
    """Return `100 * part / whole` as Go divides integers; the part's array is used up."""
    part *= 100
    return quotient(part, whole)


def quotient(dividend: Values, divisor: Values) -> Values:
    """Divide as Go divides integers; the dividend's array is used up.

    Floats stand for integers that are not negative, and give quotients that int32 holds.
    """
    if not isinstance(dividend, np.ndarray):
        return dividend // divisor
    if dividend.dtype == np.float64:
        # A quotient of integers that floats hold is never rounded up to the next integer.
        np.divide(dividend, divisor, out=dividend)
        return dividend.astype(np.int32)
    if dividend.dtype == np.int32:
        return dividend // divisor
    return truncated_divide(dividend, divisor)


def weighted_mean(nodes: NodeTable | NodeRow, counted: Counted, score: Score) -> Values:
    """Return the mean score of the resources a node has, cut off towards zero."""
    if isinstance(nodes, NodeRow):
        return _row_mean(nodes, counted, score)
    if not counted.names:
        return np.zeros(len(nodes), dtype=np.int64)
    return mean_of(allocations(nodes, counted), counted, score)


def mean_of(found: Allocations, counted: Counted, score: Score) -> IntColumn:
    """Return the mean score of what was found of at least one resource."""
    _, requested, allocatable, there = found
    weight_sums: Values = counted.weight_sum
    if there is None:
        scores = score(requested, allocatable)
    else:
        scores = score(requested, np.where(there, allocatable, 1))
        scores *= there
        weight_sums = np.maximum(np.dot(counted.weights, there), 1).astype(scores.dtype)
    total = _weighed(scores[0], counted.weights[0])
    for line, weight in zip(scores[1:], counted.weights[1:], strict=True):
        total += _weighed(line, weight)
    means: IntColumn = quotient(total, weight_sums).astype(np.int64, copy=False)
    return means


def _weighed(scores: NDArray[np.float64], weight: int) -> NDArray[np.float64]:
    if weight != 1:
        scores *= weight
    return scores


def _row_mean(row: NodeRow, counted: Counted, score: Score) -> int:
    if not is_by_integers(row, counted):
        mean: int = weighted_mean(as_table(row), counted, score).item()
        return mean
    offered, nonzero, taken = row.allocatable, row.nonzero_requested, row.requested
    total = weights = 0
    for name, weight, request, is_nonzero in counted.resources:
        whole = offered[name]
        if whole:
            allocated = nonzero[name] if is_nonzero else taken[name]
            total += weight * score(allocated + request, whole)
            weights += weight
    return total // weights if weights else 0


def widened(scores: Values) -> Values:
    """Return scores as the contract wants columns: of 64 bits."""
    return scores.astype(np.int64, copy=False) if isinstance(scores, np.ndarray) else scores


def sign_requests(pod: PodInfo) -> dict[str, object]:
    """Return the pod's requests as a part of its signature."""
    scalars = {name: value for name, value in pod.requests.items() if is_scalar_resource(name)}
    return {
        "MilliCPU": pod.requests[CPU],
        "Memory": pod.requests[MEMORY],
        "EphemeralStorage": pod.requests[EPHEMERAL_STORAGE],
        "AllowedPodNumber": 0,
        "ScalarResources": scalars or None,
    }
