"""Table rows of workloads, autoscalers and disruption budgets.

Upstream: pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.api.times import parse_time
from kubesched.cluster.apiserver.documents import Document, dig
from kubesched.cluster.apiserver.tables.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    age,
    condition_status,
    containers_cells,
    human_duration,
    labels_text,
    selector_text,
    since,
)


def _name(document: Document) -> str:
    return str(document["metadata"].get("name") or "")


def _template(one: Document, *path: str) -> list[str]:
    return containers_cells(dig(one, "spec", *path, "template", "spec", "containers"))


def deployment_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a Deployment."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    return [
        _name(one),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(one, now_s),
        *_template(one),
        selector_text(spec.get("selector"), empty="", broken="<invalid>"),
    ]


def replica_set_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ReplicaSet."""
    return [*_replica_cells(one, now_s), selector_text(dig(one, "spec", "selector"))]


def replication_controller_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ReplicationController."""
    return [*_replica_cells(one, now_s), labels_text(dig(one, "spec", "selector"))]


def _replica_cells(one: Document, now_s: float) -> list[Any]:
    status = one.get("status") or {}
    return [
        _name(one),
        dig(one, "spec", "replicas") or 0,
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(one, now_s),
        *_template(one),
    ]


def stateful_set_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a StatefulSet."""
    ready = (one.get("status") or {}).get("readyReplicas", 0)
    desired = dig(one, "spec", "replicas") or 0
    return [_name(one), f"{ready}/{desired}", age(one, now_s), *_template(one)]


def daemon_set_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a DaemonSet."""
    status = one.get("status") or {}
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        _name(one),
        *(status.get(count, 0) for count in counts),
        labels_text(dig(one, "spec", "template", "spec", "nodeSelector")),
        age(one, now_s),
        *_template(one),
        selector_text(dig(one, "spec", "selector")),
    ]


def controller_revision_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ControllerRevision."""
    controller = NONE
    for owner in one["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = ".".join(filter(None, (owner.get("kind"), group)))
            controller = f"{kind.lower()}/{owner.get('name', '')}"
            break
    return [_name(one), controller, one.get("revision", 0), age(one, now_s)]


_JOB_STATES: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""Condition types and their labels by precedence; the empty type: the Job is terminating."""


def job_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a Job."""
    return [
        _name(one),
        _job_state(one),
        _completions(one),
        _job_duration(one.get("status") or {}, now_s),
        age(one, now_s),
        *_template(one),
        selector_text(dig(one, "spec", "selector")),
    ]


def _job_state(job: Document) -> str:
    conditions = dig(job, "status", "conditions")
    for condition, state in _JOB_STATES:
        if condition:
            holds = condition_status(conditions, condition) == "True"
        else:
            holds = bool(job["metadata"].get("deletionTimestamp"))
        if holds:
            return state
    return "Running"


def _completions(job: Document) -> str:
    spec, done = job.get("spec") or {}, dig(job, "status", "succeeded") or 0
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(status: Document, now_s: float) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return human_duration((parse_time(end) if end else now_s) - parse_time(start))


def cron_job_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a CronJob."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    last, suspend = status.get("lastScheduleTime"), spec.get("suspend")
    return [
        _name(one),
        spec.get("schedule", ""),
        NONE if spec.get("timeZone") is None else spec["timeZone"],
        UNSET if suspend is None else str(suspend),
        len(status.get("active") or []),
        since(last, now_s) if last else NONE,
        age(one, now_s),
        *_template(one, "jobTemplate", "spec"),
        selector_text(dig(one, "spec", "jobTemplate", "spec", "selector")),
    ]


def disruption_budget_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a PodDisruptionBudget."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    limits = (spec.get("minAvailable"), spec.get("maxUnavailable"))
    return [
        _name(one),
        *("N/A" if limit is None else str(limit) for limit in limits),
        status.get("disruptionsAllowed", 0),
        age(one, now_s),
    ]


def scale_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a Scale."""
    counts = (dig(one, "spec", "replicas") or 0, dig(one, "status", "replicas") or 0)
    return [_name(one), *counts, age(one, now_s)]


def autoscaler_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a HorizontalPodAutoscaler of either version."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    return [
        _name(one),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(*_metrics_of(spec, status)),
        UNSET if least is None else str(least),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(one, now_s),
    ]


def _metrics_of(spec: Document, status: Document) -> tuple[list[Document], list[Document]]:
    """Return metrics and their statuses; v1 supports CPU utilization only."""
    if "targetCPUUtilizationPercentage" not in spec:
        return spec.get("metrics") or [], status.get("currentMetrics") or []
    percentage = spec["targetCPUUtilizationPercentage"]
    target = {"type": "Utilization", "averageUtilization": percentage}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    used = status.get("currentCPUUtilizationPercentage")
    if used is None:
        return [metric], []
    return [metric], [{"resource": {"name": "cpu", "current": {"averageUtilization": used}}}]


def _metrics(specs: list[Document], states: list[Document]) -> str:
    if not specs:
        return NONE
    texts = []
    for index, spec in enumerate(specs):
        state = states[index] if index < len(states) else {}
        texts.append(_metric(spec, state))
    text = ", ".join(texts[:2])
    return f"{text} + {len(texts) - 2} more..." if len(texts) > 2 else text


_SOURCES: Final = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metric(spec: Document, state: Document) -> str:
    key = _SOURCES.get(spec.get("type", ""))
    if key is None:
        return "<unknown type>"
    source = spec.get(key) or {}
    target = source.get("target") or {}
    current = (state.get(key) or {}).get("current")
    if "resource" in key.lower():
        return f"{source.get('name', '')}: {_resource_use(target, current)}"
    if target.get("averageValue") is None:
        value = UNKNOWN if current is None else current.get("value", "0")
        return f"{value}/{target.get('value', '0')}"
    value = (current or {}).get("averageValue", UNKNOWN)
    suffix = "" if key == "pods" else " (avg)"
    return f"{value}/{target['averageValue']}{suffix}"


def _resource_use(target: Document, current: Document | None) -> str:
    if target.get("averageValue") is not None:
        value = UNKNOWN if current is None else current.get("averageValue", "0")
        return f"{value}/{target['averageValue']}"
    used, desired = (current or {}).get("averageUtilization"), target.get("averageUtilization")
    value = UNKNOWN if used is None else f"{used}%"
    return f"{value}/{'<auto>' if desired is None else f'{desired}%'}"
