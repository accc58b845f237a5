"""What plugins of outside may answer, method by method.

Owns the checks, each of which says what is wrong with an answer, or nothing. Answers of in-tree
plugins are not looked at. Never decides what a wrong answer leads to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias

import numpy as np

from kubesched.columns.view import NodeRow
from kubesched.framework.adapt import as_scores, as_status, check_verdict
from kubesched.framework.interface import (
    AllReasons,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
    Reads,
    SignFragment,
)
from kubesched.framework.status import Code, Status

Check: TypeAlias = Callable[[str, Any, Sequence[Any]], "str | None"]
"""`(method, answer, arguments)`; returns what is wrong."""


def check_status(method: str, answer: Any, arguments: Sequence[Any] = ()) -> str | None:
    """Return what is wrong with a status."""
    if answer is None:
        return None
    if not isinstance(answer, Status):
        found = as_status(answer, method)
        return None if found is None else found.message
    if not isinstance(answer.code, Code):
        return f"{method}() returned a status of code {answer.code!r}, expected a Code"
    reasons: Any = answer.reasons
    if not isinstance(reasons, tuple) or not all(isinstance(one, str) for one in reasons):
        return f"{method}() returned a status of reasons {reasons!r}, expected a tuple of texts"
    return None


def _check_pre_filter(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    if not isinstance(answer, PreFilterResult):
        return check_status(method, answer)
    names: Any = answer.node_names
    # Names of nodes that are not there are no fault, as upstream: they may come.
    if isinstance(names, Set) and all(isinstance(name, str) for name in names):
        return None
    return f"{method}() returned node names as {type(names).__name__}, expected a set of texts"


def _check_filter(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    nodes = arguments[2]
    is_row = isinstance(nodes, NodeRow)
    try:
        if is_row:
            rejections: Any = answer.rejections if isinstance(answer, AllReasons) else answer
            for one in rejections or ():
                bool(one.mask)
        else:
            check_verdict(answer, len(nodes))
    except Exception as problem:  # noqa: BLE001 - whatever it is that was returned
        return f"{method}() returned no verdict: {problem}"
    rejections = answer.rejections if isinstance(answer, AllReasons) else answer
    for one in rejections or ():
        wrong = check_status(method, one.status)
        if wrong is not None or one.status is None:
            return wrong or f"{method}() returned a Rejected without a status"
    return None


def _check_scores(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    if isinstance(answer, Status):
        return check_status(method, answer)
    nodes = arguments[2]
    if isinstance(nodes, NodeRow):
        if isinstance(answer, (int, np.integer)) and not isinstance(answer, bool):
            return None
        return f"{method}() returned {type(answer).__name__} for one row, expected an integer"
    found = as_scores(answer, len(nodes))
    return found.message if isinstance(found, Status) else None


def _check_post_filter(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    if isinstance(answer, Status):
        return check_status(method, answer)
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], Status):
        got = type(answer).__name__
        return f"{method}() returned {got}, expected a pair of a result and a status"
    result, status = answer
    if result is None:
        return check_status(method, status)
    name: Any = getattr(result, "nominated_node_name", None)
    if not isinstance(result, PostFilterResult) or not isinstance(name, str):
        return f"{method}() returned {type(result).__name__}, expected a PostFilterResult or None"
    statuses = arguments[2]
    if name and not statuses.has_node(name):
        return f"{method}() nominated the pod to {name!r}, and there is no such node"
    return check_status(method, status)


def _check_permit(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    status, wait_s = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, 0.0)
    wrong = check_status(method, status)
    if wrong is not None:
        return wrong
    if not isinstance(wait_s, (int, float)) or math.isnan(wait_s):
        shown = "NaN" if isinstance(wait_s, float) else f"a {type(wait_s).__name__}"
        return f"{method}() waits for {shown}, expected seconds"
    return None


def _check_pre_flight(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    result, status = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    if result is None or isinstance(result, PreBindPreFlightResult):
        return check_status(method, status)
    return check_status(method, result)


def _check_signs(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    if isinstance(answer, Status):
        return check_status(method, answer)
    if isinstance(answer, Sequence) and all(isinstance(one, SignFragment) for one in answer):
        return None
    return f"{method}() returned {type(answer).__name__}, expected a list of SignFragment"


def _check_reads(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    if answer is None or isinstance(answer, Reads):
        return None
    return f"{method}() returned {type(answer).__name__}, expected Reads or None"


def _check_fragment(method: str, answer: Any, arguments: Sequence[Any]) -> str | None:
    try:
        hash(answer)
    except TypeError as problem:
        return f"{method}() returned what cannot be a key: {problem}"
    return None


CHECKS: Final[Mapping[str, Check]] = {
    "pre_enqueue": check_status,
    "pre_filter": _check_pre_filter,
    "filter_nodes": _check_filter,
    "add_pod": check_status,
    "remove_pod": check_status,
    "add_pods": check_status,
    "remove_pods": check_status,
    "post_filter": _check_post_filter,
    "pre_score": check_status,
    "score_nodes": _check_scores,
    "normalize_scores": _check_scores,
    "reserve": check_status,
    "permit": _check_permit,
    "pre_bind_pre_flight": _check_pre_flight,
    "pre_bind": check_status,
    "bind": check_status,
    "sign_pod": _check_signs,
    "reads": _check_reads,
    "fragment": _check_fragment,
}
