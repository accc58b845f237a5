"""Checks of the results of out-of-tree plugins.

A check returns the problem of a result, or None. Results of in-tree plugins are not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from typing import Any, TypeAlias

import numpy as np

from kubesched.framework.interface import (
    AllReasons,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
    Reads,
)
from kubesched.framework.runtime.adapters import as_scores, as_status, check_verdict
from kubesched.framework.status import Code, Status
from kubesched.snapshot.view import NodeRow

Check: TypeAlias = Callable[[str, Any, Sequence[Any]], "str | None"]
"""`(method, result, arguments)`; returns the problem, or None."""


def check_status(method: str, result: Any, arguments: Sequence[Any] = ()) -> str | None:
    """Check a status."""
    if result is None:
        return None
    if not isinstance(result, Status):
        status = as_status(result, method)
        return None if status is None else status.message
    if not isinstance(result.code, Code):
        return f"{method}() returned a status of code {result.code!r}, expected a Code"
    reasons: Any = result.reasons
    if not isinstance(reasons, tuple) or not all(isinstance(reason, str) for reason in reasons):
        return f"{method}() returned a status of reasons {reasons!r}, expected a tuple of texts"
    return None


def check_pre_filter(method: str, result: Any, arguments: Sequence[Any]) -> str | None:
    """Check a status or the names of nodes."""
    if not isinstance(result, PreFilterResult):
        return check_status(method, result)
    names: Any = result.node_names
    # Names of unknown nodes are no fault, as upstream: such nodes may appear.
    if isinstance(names, Set) and all(isinstance(name, str) for name in names):
        return None
    return f"{method}() returned node names as {type(names).__name__}, expected a set of texts"


def check_filter(method: str, result: Any, arguments: Sequence[Any]) -> str | None:
    """Check the verdict of a column filter."""
    nodes = arguments[2]
    rejections: Any = result.rejections if isinstance(result, AllReasons) else result
    try:
        if isinstance(nodes, NodeRow):
            for rejected in rejections or ():
                bool(rejected.mask)
        else:
            check_verdict(result, len(nodes))
    except Exception as problem:  # noqa: BLE001 - the result may be anything
        return f"{method}() returned no verdict: {problem}"
    for rejected in rejections or ():
        if rejected.status is None:
            return f"{method}() returned a Rejected without a status"
        problem_text = check_status(method, rejected.status)
        if problem_text is not None:
            return problem_text
    return None


def check_scores(method: str, result: Any, arguments: Sequence[Any]) -> str | None:
    """Check a score per node."""
    if isinstance(result, Status):
        return check_status(method, result)
    nodes = arguments[2]
    if isinstance(nodes, NodeRow):
        if isinstance(result, (int, np.integer)) and not isinstance(result, bool):
            return None
        return f"{method}() returned {type(result).__name__} for one row, expected an integer"
    scores = as_scores(result, len(nodes))
    return scores.message if isinstance(scores, Status) else None


def check_post_filter(method: str, result: Any, arguments: Sequence[Any]) -> str | None:
    """Check a nomination and a status."""
    if isinstance(result, Status):
        return check_status(method, result)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Status):
        got = type(result).__name__
        return f"{method}() returned {got}, expected a pair of a result and a status"
    nomination, status = result
    if nomination is None:
        return check_status(method, status)
    name: Any = getattr(nomination, "nominated_node_name", None)
    if not isinstance(nomination, PostFilterResult) or not isinstance(name, str):
        got = type(nomination).__name__
        return f"{method}() returned {got}, expected a PostFilterResult or None"
    if name and not arguments[2].has_node(name):
        return f"{method}() nominated the pod to {name!r}, and there is no such node"
    return check_status(method, status)


def check_permit(method: str, result: Any, arguments: Sequence[Any]) -> str | None:
    """Check a status and a timeout."""
    status, wait_s = result if isinstance(result, tuple) and len(result) == 2 else (result, 0.0)
    problem = check_status(method, status)
    if problem is not None:
        return problem
    if not isinstance(wait_s, (int, float)) or math.isnan(wait_s):
        shown = "NaN" if isinstance(wait_s, float) else f"a {type(wait_s).__name__}"
        return f"{method}() waits for {shown}, expected seconds"
    return None


def check_pre_flight(method: str, result: Any, arguments: Sequence[Any]) -> str | None:
    """Check a PreBindPreFlightResult, a status, or both."""
    flight, status = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if flight is None or isinstance(flight, PreBindPreFlightResult):
        return check_status(method, status)
    return check_status(method, flight)


def check_reads(method: str, result: Any, arguments: Sequence[Any]) -> str | None:
    """Check the declaration of what a plugin reads."""
    if result is None or isinstance(result, Reads):
        return None
    return f"{method}() returned {type(result).__name__}, expected Reads or None"
