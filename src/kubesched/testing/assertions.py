"""Assertions about where pods go, which tell why when they fail.

Owns what is asserted and what is said. Every one takes the fixture `cluster` or `playground` and a
pod, `name` or `namespace/name`. Where a pod is, is what happened; what nodes and plugins say of it
is worked out anew, by the scheduler's own plugins on the cluster as it is.

    assert_placed(cluster, "web", on="n1")
    assert_refused(cluster, "web", "n2", by="SameTeam", because="another team")
"""

from __future__ import annotations

from collections.abc import Collection

from kubesched.engine.comparison import NodeReport, Verdict
from kubesched.engine.naming import nearest
from kubesched.testing.cluster import Cluster
from kubesched.testing.decisions import Decided, Where, decided, key_of, story
from kubesched.testing.explanation_text import explanation_text, report_text

_WAIT_S = 30.0
_PASSED = ("Success", "Skip")


def assert_placed(where: Where, pod: str, *, on: str | Collection[str] = ()) -> None:
    """Have a pod be on a node, or on one of some.

    Args:
        where: `playground` is waited for, `cluster` is as `schedule` and `advance` left it.
        pod: the pod.
        on: where it should be; any node if nothing is said.
    """
    wanted = (on,) if isinstance(on, str) else tuple(on)
    node = _node_of(where, pod)
    if node and (not wanted or node in wanted):
        return
    is_where = f"is on {node}" if node else "has no node"
    expected = f", not on {' or '.join(wanted)}" if wanted else ""
    raise AssertionError(f"{key_of(pod)} {is_where}{expected}\n{_why(where, pod)}")


def assert_waits(where: Where, pod: str, *, because: str = "") -> None:
    """Have a pod wait for a node, after it was refused or held back.

    Args:
        where: `playground` is waited for, `cluster` is as `schedule` and `advance` left it.
        pod: the pod.
        because: a part of what its condition says, or the sentence about its state.
    """
    if not isinstance(where, Cluster):
        _until(where, lambda: where.node_of(key_of(pod)) or _said(where, pod), f"{pod} waits")
    node = where.node_of(key_of(pod))
    if node:
        raise AssertionError(f"{key_of(pod)} does not wait, it is on {node}\n{_why(where, pod)}")
    said = _said(where, pod)
    if not said:
        raise AssertionError(f"{key_of(pod)} was not tried yet\n{_why(where, pod)}")
    if not any(because in one for one in said):
        raise AssertionError(
            f"{key_of(pod)} waits, but not because of {because!r}:\n"
            + "\n".join(f"  {one}" for one in said)
            + f"\n{_why(where, pod)}"
        )


def assert_refused(where: Where, pod: str, *nodes: str, by: str = "", because: str = "") -> None:
    """Have nodes be refused to a pod.

    Args:
        where: where the pod is.
        pod: the pod.
        nodes: every one of them is to be refused.
        by: the plugin that is to refuse them, whatever others say before it.
        because: a part of the reasons.
    """
    found = decided(where, pod)
    for node in nodes:
        report = _report(found, node)
        refusals = [one for one in _refusals(report) if by in ("", one.plugin)]
        if any(because in ", ".join(one.reasons) for one in refusals):
            continue
        who = f" by {by}" if by else ""
        what = f" because of {because!r}" if because else ""
        raise AssertionError(
            f"{node} is not refused to {key_of(pod)}{who}{what}\n"
            f"{report_text(report)}\n\n{explanation_text(found.explanation)}"
        )


def assert_fits(where: Where, pod: str, *nodes: str) -> None:
    """Have nodes let a pod pass, all filters included."""
    found = decided(where, pod)
    for node in nodes:
        report = _report(found, node)
        if not report.fits:
            raise AssertionError(
                f"{key_of(pod)} does not fit on {node}\n"
                f"{report_text(report)}\n\n{explanation_text(found.explanation)}"
            )


def assert_prefers(where: Where, pod: str, better: str, worse: str, *, by: str = "") -> None:
    """Have a node score higher than another for a pod.

    Args:
        where: where the pod is.
        pod: the pod.
        better: the node with more points.
        worse: the node with fewer; both must fit.
        by: the plugin whose points are compared, weighted; all together if nothing is said.
    """
    found = decided(where, pod)
    points = [_points(found, _report(found, node), by) for node in (better, worse)]
    first, second = points
    if first is not None and second is not None and first > second:
        return
    whose = by or "the total"
    told = ", ".join(
        f"{node} {'is not scored' if value is None else f'has {value}'}"
        for node, value in zip((better, worse), points, strict=True)
    )
    raise AssertionError(
        f"{key_of(pod)} does not prefer {better} to {worse} by {whose}: {told}\n"
        f"{explanation_text(found.explanation)}"
    )


# -- what is looked at ----------------------------------------------------------------------------


def _node_of(where: Where, pod: str) -> str:
    if not isinstance(where, Cluster):
        _until(where, lambda: where.node_of(key_of(pod)), f"{pod} has a node")
    return where.node_of(key_of(pod))


def _until(where: Where, is_so: object, what: str) -> None:
    """Wait; the assertion that follows says better what did not come."""
    assert not isinstance(where, Cluster)
    try:
        where.until(is_so, what, _WAIT_S)  # type: ignore[arg-type]  # A callable.
    except AssertionError:
        return


def _said(where: Where, pod: str) -> list[str]:
    """Return what the pod's condition says, and the scheduler of a pod that waits."""
    conditions = where.pod(key_of(pod)).get("status", {}).get("conditions", ())
    said = [
        str(one.get("message", ""))
        for one in conditions
        if one["type"] == "PodScheduled" and one["status"] == "False"
    ]
    told = story(where, pod)
    if told is not None and told.state in ("unschedulable", "gated", "waitingOnPermit", "backoff"):
        said.append(told.text)
    return [one for one in said if one]


def _why(where: Where, pod: str) -> str:
    """Return the state of a pod, and why it is where it is."""
    told = story(where, pod)
    if told is None:
        return "the scheduler does not know this pod"
    explanation = told.explanation
    if explanation is None or explanation.outcome != "placed":
        explanation = decided(where, pod).explanation
    return f"{told.text}\n\n{explanation_text(explanation)}"


def _report(found: Decided, node: str) -> NodeReport:
    if node not in found.nodes:
        raise AssertionError(f"there is no node {node}; there are {nearest(found.nodes, node)}")
    return found.nodes[node]


def _refusals(report: NodeReport) -> list[Verdict]:
    said = [one for one in report.verdicts if one.code not in _PASSED]
    return said if report.refused is None else [report.refused, *said]


def _points(found: Decided, report: NodeReport, plugin: str) -> int | None:
    if not plugin:
        return report.total
    return next((one.node for one in report.scores if one.plugin == plugin), None)
