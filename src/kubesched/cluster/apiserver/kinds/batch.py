"""Strategies of the group batch: Job and CronJob.

Upstream: pkg/apis/batch/v1/defaults.go, pkg/apis/batch/validation/validation.go,
pkg/registry/batch/*/strategy.go
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesched.cluster.apiserver.documents import Document, copy_of, dig, metadata_of, name_of
from kubesched.cluster.apiserver.errors import (
    OMITTED,
    Problem,
    ProblemType,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import IMMUTABLE, INT32_MAX
from kubesched.cluster.apiserver.kinds.internal_form import internal_form
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector, selects
from kubesched.cluster.apiserver.kinds.workload_rules import (
    check_counts,
    check_immutable,
    check_template,
    default_template,
    name_warnings,
    part_of,
    set_default,
    template_warnings,
)
from kubesched.cluster.apiserver.names import label_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy
from kubesched.cluster.cron import schedule_problem

_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_INDEXED, _NON_INDEXED = "Indexed", "NonIndexed"
_INDEXED_LIMIT = 100_000
_NEEDS_INDEXES = "requires indexed completion mode"
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def batch_strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of the group."""
    return {("batch", "jobs"): JobStrategy(), ("batch", "cronjobs"): CronJobStrategy()}


def _default_job_spec(spec: Document) -> None:
    default_template(part_of(spec, "template"))
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    set_default(spec, "parallelism", 1)
    per_index = spec.get("backoffLimitPerIndex") is not None
    set_default(spec, "backoffLimit", INT32_MAX if per_index else 6)
    set_default(spec, "completionMode", _NON_INDEXED)
    set_default(spec, "suspend", False)
    policy = spec.get("podFailurePolicy")
    set_default(spec, "podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    set_default(spec, "manualSelector", False)
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


class JobStrategy(Strategy):
    """Strategy of jobs."""

    orphans_by_default = True

    def default(self, document: Document) -> None:
        spec = part_of(document, "spec")
        # A job without labels gets those of its template, before labels are generated.
        labels = dig(spec, "template", "metadata", "labels")
        if labels and not dig(document, "metadata", "labels"):
            metadata_of(document)["labels"] = copy_of(labels)
        _default_job_spec(spec)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        spec = part_of(document, "spec")
        if spec.get("manualSelector"):
            return
        uid = dig(document, "metadata", "uid") or ""
        labels = part_of(spec, "template", "metadata", "labels")
        for key in _NAME_LABELS:
            labels.setdefault(key, name_of(document))
        for key in _UID_LABELS:
            labels.setdefault(key, uid)
        part_of(spec, "selector", "matchLabels").setdefault(_UID_LABELS[1], uid)
        if not dig(document, "metadata", "labels"):
            # Parity: upstream defaults again when it reads a stored object, which has labels then.
            metadata_of(document)["labels"] = copy_of(labels)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        self._check(document, None, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        out: list[Problem] = []
        self._check(new, old, out)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        _check_completions_update(spec, before, out)
        check_immutable(spec.get("selector"), before.get("selector"), "spec.selector", out)
        _check_template_update(new, old, out)
        for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy",
                      "successPolicy"):  # fmt: skip
            check_immutable(spec.get(field), before.get(field), f"spec.{field}", out)
        return out

    def _check(self, document: Document, old: Document | None, out: list[Problem]) -> None:
        spec = document.get("spec") or {}
        _check_generated(document, out)
        check_job_spec(spec, None if old is None else old.get("spec"), "spec", out)
        selector = spec.get("selector")
        if selector is None:
            out.append(required("spec.selector"))
        else:
            check_label_selector(selector, "spec.selector", out)
        labels = dig(spec, "template", "metadata", "labels") or {}
        if not selects(selector, labels):
            text = "`selector` does not match template `labels`"
            out.append(invalid("spec.template.metadata.labels", labels or None, text))
        completions = spec.get("completions") or 0
        if spec.get("completionMode") == _INDEXED and completions > 0:
            last = f"{name_of(document)}-{completions - 1}"
            if label_problems(last):
                text = f"will not able to create pod with invalid DNS label: {last}"
                out.append(invalid("metadata.name", name_of(document), text))

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        status, out = new.get("status") or {}, []  # type: ignore[var-annotated]
        check_counts(status, ("active", "succeeded", "failed", "ready", "terminating"), out)
        for kind in ("Failed", "Complete", "FailureTarget"):
            if _has_condition(old, kind) and not _has_condition(new, kind):
                text = f"cannot disable the terminal {kind}=True condition"
                out.append(_without_value("status.conditions", text))
        for field in ("failed", "succeeded"):
            now, before = status.get(field) or 0, dig(old, "status", field) or 0
            if now < before:
                out.append(invalid(f"status.{field}", now, f"cannot decrease the {field} counter"))
        return out

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        found: list[str] = []
        if old is None:
            found += name_warnings(name_of(document))
        before = None if old is None else dig(old, "spec", "template")
        if old is None or document.get("spec") != old.get("spec"):
            template = dig(document, "spec", "template") or {}
            found += template_warnings(template, before, "spec.template")
        return found

    def fields(self, document: Document) -> dict[str, str]:
        succeeded = dig(document, "status", "succeeded") or 0
        return {**super().fields(document), "status.successful": str(succeeded)}


class CronJobStrategy(Strategy):
    """Strategy of cron jobs."""

    def default(self, document: Document) -> None:
        spec = part_of(document, "spec")
        job = part_of(spec, "jobTemplate", "spec")
        default_template(part_of(job, "template"))
        spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
        set_default(spec, "suspend", False)
        set_default(spec, "successfulJobsHistoryLimit", 3)
        set_default(spec, "failedJobsHistoryLimit", 1)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        out = self._problems(document, None)
        name = name_of(document)
        if len(name) > 52:
            out.append(invalid("metadata.name", name, "must be no more than 52 characters"))
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        return self._problems(new, old)

    def _problems(self, document: Document, old: Document | None) -> list[Problem]:
        out: list[Problem] = []
        spec = document.get("spec") or {}
        _check_schedule(spec, None if old is None else old.get("spec") or {}, out)
        check_counts(spec, ("startingDeadlineSeconds",), out, path="spec")
        if old is None or dig(old, "spec", "timeZone") != spec.get("timeZone"):
            _check_zone(spec.get("timeZone"), out)
        policy = spec.get("concurrencyPolicy")
        if policy not in {"Allow", "Forbid", "Replace"}:
            known = ["Allow", "Forbid", "Replace"]
            out.append(not_supported("spec.concurrencyPolicy", policy, known))
        job = dig(spec, "jobTemplate", "spec") or {}
        before = None if old is None else dig(old, "spec", "jobTemplate", "spec")
        check_job_spec(job, before, "spec.jobTemplate.spec", out)
        if job.get("selector") is not None:
            text = "`selector` will be auto-generated"
            out.append(invalid("spec.jobTemplate.spec.selector", job["selector"], text))
        if job.get("manualSelector"):
            path = "spec.jobTemplate.spec.manualSelector"
            out.append(not_supported(path, True, ["nil", "false"]))
        limits = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        check_counts(spec, limits, out, path="spec")
        return out


def check_job_spec(spec: Document, old: Document | None, path: str, out: list[Problem]) -> None:
    """Validate a job's spec except its selector, adding errors."""
    counts = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
              "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes")  # fmt: skip
    check_counts(spec, counts, out, path=path)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        text = "when maxFailedIndexes is specified"
        out.append(required(f"{path}.backoffLimitPerIndex", text))
    mode = spec.get("completionMode")
    if mode not in {None, _NON_INDEXED, _INDEXED}:
        known = [_NON_INDEXED, _INDEXED]
        out.append(not_supported(f"{path}.completionMode", mode, known))
    if mode == _INDEXED:
        _check_indexed(spec, path, out)
    elif mode in {None, _NON_INDEXED}:
        out.extend(
            invalid(f"{path}.{field}", spec[field], _NEEDS_INDEXES)
            for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
            if spec.get(field) is not None
        )
    _check_replacement(spec, path, out)
    template = spec.get("template") or {}
    check_template(
        template, f"{path}.template", out, old=None if old is None else old.get("template")
    )
    _check_restart(spec, f"{path}.template.spec.restartPolicy", out)


def _check_indexed(spec: Document, path: str, out: list[Problem]) -> None:
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
    if completions is None:
        out.append(required(f"{path}.completions", f"when completion mode is {_INDEXED}"))
    if (spec.get("parallelism") or 0) > _INDEXED_LIMIT:
        text = f"must be less than or equal to {_INDEXED_LIMIT} when completion mode is {_INDEXED}"
        out.append(invalid(f"{path}.parallelism", spec["parallelism"], text))
    if completions is not None and failed is not None and failed > completions:
        text = "must be less than or equal to completions"
        out.append(invalid(f"{path}.maxFailedIndexes", failed, text))
    if failed is not None and failed > _INDEXED_LIMIT:
        text = f"must be less than or equal to {_INDEXED_LIMIT}"
        out.append(invalid(f"{path}.maxFailedIndexes", failed, text))


def _check_replacement(spec: Document, path: str, out: list[Problem]) -> None:
    policy, here = spec.get("podReplacementPolicy"), f"{path}.podReplacementPolicy"
    if policy is None:
        return
    known = ["Failed"] if spec.get("podFailurePolicy") else ["Failed", "TerminatingOrFailed"]
    if policy not in known:
        out.append(not_supported(here, policy, known))


def _check_restart(spec: Document, path: str, out: list[Problem]) -> None:
    policy = dig(spec, "template", "spec", "restartPolicy")
    if policy in {None, "", "Always"}:
        out.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in {"OnFailure", "Never"}:
        out.append(not_supported(path, policy, ["OnFailure", "Never"]))
    elif spec.get("podFailurePolicy") and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        out.append(invalid(path, policy, text))


def _check_generated(document: Document, out: list[Problem]) -> None:
    spec = document.get("spec") or {}
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    labels = dig(spec, "template", "metadata", "labels") or {}
    uid, name = dig(document, "metadata", "uid") or "", name_of(document)
    generated = {
        _UID_LABELS[0]: uid, _NAME_LABELS[0]: name, _UID_LABELS[1]: uid, _NAME_LABELS[1]: name
    }  # fmt: skip
    for key, value in generated.items():
        path = "spec.template.metadata.labels"
        if key not in labels:
            out.append(required(path, f"must be '{value}'"))
        elif labels[key] != value:
            out.append(invalid(path, labels, f"must be '{value}'"))
    if not selects(spec["selector"], generated):
        out.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))


def _check_completions_update(spec: Document, before: Document, out: list[Problem]) -> None:
    now = spec.get("completions")
    if spec.get("completionMode") != _INDEXED:
        check_immutable(now, before.get("completions"), "spec.completions", out)
    elif now not in {before.get("completions"), None} and now != spec.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        out.append(invalid("spec.completions", now, text))


def _check_template_update(new: Document, old: Document, out: list[Problem]) -> None:
    template = dig(new, "spec", "template") or {}
    before = copy_of(dig(old, "spec", "template") or {})
    suspended = bool(dig(old, "spec", "suspend"))
    if suspended and dig(old, "status", "startTime") is None:
        # Scheduling directives are mutable until the first pod is created.
        for field in ("nodeSelector", "tolerations", "schedulingGates"):
            _carry(template.get("spec") or {}, part_of(before, "spec"), field)
        for field in ("labels", "annotations"):
            _carry(template.get("metadata") or {}, part_of(before, "metadata"), field)
        affinity = dig(template, "spec", "affinity", "nodeAffinity")
        if affinity is not None:
            part_of(before, "spec", "affinity")["nodeAffinity"] = affinity
        else:
            (dig(before, "spec", "affinity") or {}).pop("nodeAffinity", None)
            if dig(before, "spec", "affinity") == {} and not dig(template, "spec", "affinity"):
                before["spec"].pop("affinity")
        for kind in ("containers", "initContainers"):
            for mine, theirs in zip(
                dig(template, "spec", kind) or (), dig(before, "spec", kind) or (), strict=False
            ):
                _carry(mine, theirs, "resources")
    if template != before:
        flat = {**(template.get("metadata") or {}), "spec": template.get("spec") or {}}
        out.append(invalid("spec.template", internal_form("PodTemplateSpec", flat), IMMUTABLE))


def _carry(source: Document, target: Document, field: str) -> None:
    if source.get(field) is None:
        target.pop(field, None)
    else:
        target[field] = source[field]


def _check_schedule(spec: Document, before: Document | None, out: list[Problem]) -> None:
    schedule = spec.get("schedule") or ""
    if not schedule:
        out.append(required("spec.schedule"))
        return
    problem = schedule_problem(schedule)
    if problem:
        out.append(invalid("spec.schedule", schedule, problem))
    had_zone = before is not None and "TZ" in (before.get("schedule") or "")
    if "TZ" not in schedule:
        return
    if had_zone and spec.get("timeZone") is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        out.append(invalid("spec.schedule", schedule, text))
    elif not had_zone:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        out.append(invalid("spec.schedule", schedule, text))


def _check_zone(zone: str | None, out: list[Problem]) -> None:
    path = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        out.append(invalid(path, zone, "timeZone must be nil or non-empty string"))
        return
    for part in zone.split("/"):
        if part in {".", ".."} or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            out.append(invalid(path, zone, f"unknown time zone {zone}"))
            return
    if zone.lower() == "local":
        text = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        out.append(invalid(path, zone, text))
        return
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        out.append(invalid(path, zone, f"unknown time zone {zone}"))


def _has_condition(document: Document, kind: str) -> bool:
    conditions = dig(document, "status", "conditions") or ()
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in conditions
    )


def _without_value(path: str, text: str) -> Problem:
    # Parity: upstream omits the value in this error.
    return Problem(ProblemType.INVALID, path, OMITTED, text)
