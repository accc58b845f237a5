"""Assertions about scheduling decisions, with explanations in their failure messages.

Every assertion takes the fixture `cluster` or `playground` and a pod, `name` or `namespace/name`.
The node of a pod is what the scheduler decided; verdicts and scores are computed again by the
scheduler's plugins on the current cluster.

    assert_placed(cluster, "web", on="n1")
    assert_rejected(cluster, "web", "n2", by="SameTeam", because="another team")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

from kubesched.explanation.comparison import NodeReport, Verdict
from kubesched.explanation.report import Explanation, Ranked
from kubesched.kit.text import nearest
from kubesched.testing.cluster import Cluster, pod_key
from kubesched.testing.decisions import Decided, Where, decided, pod_report

_WAIT_S = 30.0
_PASSED = ("Success", "Skip")


def assert_placed(where: Where, pod: str, *, on: str | Collection[str] = ()) -> None:
    """Assert that a pod is on a node, or on one of several.

    Args:
        where: the fixture; on `playground` the assertion waits, on `cluster` it does not.
        pod: the pod.
        on: the expected node or nodes; any node if empty.
    """
    expected = (on,) if isinstance(on, str) else tuple(on)
    _until(where, lambda: where.node_of(pod_key(pod)), f"{pod} has a node")
    node = where.node_of(pod_key(pod))
    if node and (not expected or node in expected):
        return
    actual = f"is on {node}" if node else "has no node"
    difference = f", not on {' or '.join(expected)}" if expected else ""
    raise AssertionError(f"{pod_key(pod)} {actual}{difference}\n{_why(where, pod)}")


def assert_waits(where: Where, pod: str, *, because: str = "") -> None:
    """Assert that a pod is pending after it was rejected or held back.

    Args:
        where: the fixture; on `playground` the assertion waits, on `cluster` it does not.
        pod: the pod.
        because: a part of its condition's message or of its state's description.
    """
    _until(where, lambda: where.node_of(pod_key(pod)) or _messages(where, pod), f"{pod} waits")
    node = where.node_of(pod_key(pod))
    if node:
        raise AssertionError(f"{pod_key(pod)} does not wait, it is on {node}\n{_why(where, pod)}")
    messages = _messages(where, pod)
    if not messages:
        raise AssertionError(f"{pod_key(pod)} was not tried yet\n{_why(where, pod)}")
    if not any(because in message for message in messages):
        raise AssertionError(
            f"{pod_key(pod)} waits, but not because of {because!r}:\n"
            + "\n".join(f"  {message}" for message in messages)
            + f"\n{_why(where, pod)}"
        )


def assert_rejected(where: Where, pod: str, *nodes: str, by: str = "", because: str = "") -> None:
    """Assert that nodes are rejected for a pod.

    Args:
        where: the fixture.
        pod: the pod.
        nodes: the nodes, all of which must be rejected.
        by: the plugin that must reject them, regardless of earlier plugins.
        because: a part of the reasons.
    """
    decision = decided(where, pod)
    for node in nodes:
        report = _report(decision, node)
        rejections = [verdict for verdict in _rejections(report) if by in ("", verdict.plugin)]
        if any(because in ", ".join(verdict.reasons) for verdict in rejections):
            continue
        plugin = f" by {by}" if by else ""
        reason = f" because of {because!r}" if because else ""
        raise AssertionError(
            f"{node} is not rejected for {pod_key(pod)}{plugin}{reason}\n"
            f"{report_text(report)}\n\n{explanation_text(decision.explanation)}"
        )


def assert_fits(where: Where, pod: str, *nodes: str) -> None:
    """Assert that nodes pass all filters for a pod."""
    decision = decided(where, pod)
    for node in nodes:
        report = _report(decision, node)
        if not report.fits:
            raise AssertionError(
                f"{pod_key(pod)} does not fit on {node}\n"
                f"{report_text(report)}\n\n{explanation_text(decision.explanation)}"
            )


def assert_prefers(where: Where, pod: str, better: str, worse: str, *, by: str = "") -> None:
    """Assert that a node scores higher than another for a pod.

    Args:
        where: the fixture.
        pod: the pod.
        better: the node with the higher score.
        worse: the node with the lower score; both must fit.
        by: the plugin whose weighted scores are compared; the totals if empty.
    """
    decision = decided(where, pod)
    points = [_points(_report(decision, node), by) for node in (better, worse)]
    first, second = points
    if first is not None and second is not None and first > second:
        return
    whose = by or "the total"
    scores = ", ".join(
        f"{node} {'is not scored' if value is None else f'has {value}'}"
        for node, value in zip((better, worse), points, strict=True)
    )
    raise AssertionError(
        f"{pod_key(pod)} does not prefer {better} to {worse} by {whose}: {scores}\n"
        f"{explanation_text(decision.explanation)}"
    )


# -- observations ---------------------------------------------------------------------------------


def _until(where: Where, is_true: Callable[[], object], text: str) -> None:
    """Wait on a running cluster; the assertion that follows has the better message."""
    if not isinstance(where, Cluster):
        with suppress(AssertionError):
            where.until(is_true, text, _WAIT_S)


def _messages(where: Where, pod: str) -> list[str]:
    """Return the message of the pod's condition, and the state's description if it is pending."""
    conditions = where.pod(pod_key(pod)).get("status", {}).get("conditions", ())
    messages = [
        str(condition.get("message", ""))
        for condition in conditions
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]
    report = pod_report(where, pod)
    states = ("unschedulable", "gated", "waitingOnPermit", "backoff")
    if report is not None and report.state in states:
        messages.append(report.text)
    return [message for message in messages if message]


def _why(where: Where, pod: str) -> str:
    """Return the state of a pod and the explanation of its placement."""
    report = pod_report(where, pod)
    if report is None:
        return "the scheduler does not know this pod"
    explanation = report.explanation
    if explanation is None or explanation.outcome != "placed":
        explanation = decided(where, pod).explanation
    return f"{report.text}\n\n{explanation_text(explanation)}"


def _report(decision: Decided, node: str) -> NodeReport:
    if node not in decision.nodes:
        raise AssertionError(f"node {node} not found; there are {nearest(decision.nodes, node)}")
    return decision.nodes[node]


def _rejections(report: NodeReport) -> list[Verdict]:
    verdicts = [verdict for verdict in report.verdicts if verdict.code not in _PASSED]
    return verdicts if report.rejected is None else [report.rejected, *verdicts]


def _points(report: NodeReport, plugin: str) -> int | None:
    if not plugin:
        return report.total
    return next((score.node for score in report.scores if score.plugin == plugin), None)


_OTHERS_MAX = 5


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation over several lines."""
    return "\n".join(_lines(explanation))


def report_text(report: NodeReport) -> str:
    """Return every plugin's verdict on one node, over several lines."""
    outcome = "fits" if report.fits else "is rejected" if report.rejected else "was not evaluated"
    lines = [f"Node {report.node} {outcome}:"]
    width = max((len(verdict.plugin) for verdict in report.verdicts), default=0)
    for verdict in report.verdicts:
        reasons = f": {', '.join(verdict.reasons)}" if verdict.reasons else ""
        lines.append(f"  {verdict.plugin:<{width}}  {verdict.code}{reasons}")
    if report.scores:
        points = ", ".join(f"{score.plugin} {score.node}" for score in report.scores)
        lines.append(f"  scores: total {report.total}: {points}")
    return "\n".join(lines)


def _lines(explanation: Explanation) -> Iterator[str]:
    yield _outcome(explanation)
    yield f"Event: {explanation.event.reason}: {explanation.event.message}"
    rejected = explanation.rejected_whole
    if rejected is not None:
        yield f"Rejected on all nodes by {rejected.plugin}: {', '.join(rejected.reasons)}"
    plan = explanation.preemption
    if plan is not None:
        victims = ", ".join(victim.pod for victim in plan.victims)
        yield f"Preemption: nominated to {plan.node}, evicting {victims}"
    if explanation.ranking:
        yield "Fitting nodes with weighted scores, best first:"
        yield from _ranking(explanation.ranking)
        if explanation.ranking_left_out:
            yield f"  and {explanation.ranking_left_out} more"
    if explanation.rejections:
        yield "Rejected nodes:"
        for group in explanation.rejections:
            nodes = _some(group.nodes, group.count)
            yield f"  {group.plugin or '(framework)'}: {', '.join(group.reasons)}: {nodes}"
    if explanation.changes:
        yield "Changes that would make the pod fit:"
        for change in explanation.changes:
            nodes = _some(change.nodes, change.opens)
            yield f"  {change.text} (for {nodes})" if nodes else f"  {change.text}"


def _outcome(explanation: Explanation) -> str:
    pod, count = explanation.pod, explanation.node_count
    if explanation.outcome == "placed":
        others = f", {explanation.fit_count} of {count} nodes fit"
        return f"{pod} goes to {explanation.node}{others}."
    if explanation.outcome == "error":
        return f"{pod} is not placed: the attempt ends with an error."
    if count == 0:
        return f"{pod} cannot be placed: the cluster has no nodes."
    if count == 1:
        return f"{pod} does not fit on the only node."
    return f"{pod} fits on none of {count} nodes."


def _ranking(rows: Sequence[Ranked]) -> Iterator[str]:
    """Return a table; plugins with the same score on every row are listed below it."""
    plugins = list(dict.fromkeys(name for row in rows for name in row.scores))
    values = {name: [row.scores.get(name, 0) for row in rows] for name in plugins}
    varying = [name for name in plugins if len(set(values[name])) > 1]
    table = [["node", "total", *varying]]
    for row in rows:
        points = (str(row.scores.get(name, 0)) for name in varying)
        table.append([row.node, str(row.total), *points])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        yield "  " + "  ".join((cells[0].ljust(widths[0]), *padded))
    equal = [f"{name} {values[name][0]}" for name in plugins if name not in varying]
    if equal:
        yield f"  the same for all: {', '.join(equal)}"


def _some(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:_OTHERS_MAX])
    more = count - len(names[:_OTHERS_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
