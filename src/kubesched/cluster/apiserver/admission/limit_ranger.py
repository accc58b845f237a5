"""LimitRanger: default, minimum and maximum resources of containers in a namespace.

Upstream: plugin/pkg/admission/limitranger/admission.go
"""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api.field_errors import aggregate_text
from kubesched.api.quantity import INT64_MAX, parse_quantity
from kubesched.cluster.apiserver.admission.rejections import Plugin, is_about, rejection
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.kinds.quantities import POD_LEVEL, aggregate
from kubesched.cluster.apiserver.strategy import Request

_ANNOTATION = "kubernetes.io/limit-ranger"
_MAX_MILLI = INT64_MAX // 1000
Amounts = dict[str, str]


class LimitRanger(Plugin):
    """Applies the LimitRanges of a namespace."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Set the defaults of a new pod's containers."""
        if new is None or old is not None or not is_about(request, "pods"):
            return
        for limit_range in request.reader.list("", "limitranges", request.namespace):
            _fill_in(new, limit_range)

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Reject resources out of bounds."""
        if new is None or request.group != "":
            return
        is_pod = request.resource == "pods" and (
            (old is None and not request.subresource)
            or (old is not None and request.subresource == "resize")
        )
        is_claim = request.resource == "persistentvolumeclaims" and not request.subresource
        if not (is_pod or is_claim):
            return
        if old is not None and old["metadata"].get("deletionTimestamp"):
            return
        for limit_range in request.reader.list("", "limitranges", request.namespace):
            check = _pod_texts if is_pod else _claim_texts
            texts = [
                text
                for limit in (limit_range.get("spec") or {}).get("limits") or ()
                for text in check(limit, new)
            ]
            if texts:
                raise rejection(new, request, aggregate_text(texts))


def _fill_in(pod: Document, limit_range: Document) -> None:
    requests: Amounts = {}
    limits: Amounts = {}
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            limits.update(limit.get("default") or {})
    notes: list[str] = []
    for kind, container_kind in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(kind) or ():
            notes += _fill_in_container(container, requests, limits, container_kind)
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        text = f"LimitRanger plugin set: {'; '.join(notes)}"
        pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: text}


def _fill_in_container(
    container: Document, requests: Amounts, limits: Amounts, container_kind: str
) -> list[str]:
    resources = container.setdefault("resources", {})
    own_limits, own_requests = resources.get("limits") or {}, resources.get("requests") or {}
    new_limits = sorted(limits.keys() - own_limits.keys())
    new_requests = sorted(requests.keys() - own_requests.keys())
    if new_limits:
        resources["limits"] = {**own_limits, **{name: limits[name] for name in new_limits}}
    if new_requests:
        resources["requests"] = {**own_requests, **{name: requests[name] for name in new_requests}}
    name = container.get("name") or ""
    notes = []
    if new_requests:
        notes.append(f"{', '.join(new_requests)} request for {container_kind} {name}")
    if new_limits:
        notes.append(f"{', '.join(new_limits)} limit for {container_kind} {name}")
    return notes


def _values(*texts: str | None) -> tuple[int, ...]:
    """Return amounts in thousandths if they all fit into an int64, else in whole units."""
    amounts = [parse_quantity(text or "0") for text in texts]
    if all(amount.value() <= _MAX_MILLI for amount in amounts):
        return tuple(amount.milli_value() for amount in amounts)
    return tuple(amount.value() for amount in amounts)


def _min_text(kind: str, name: str, least: str, requests: Amounts, limits: Amounts) -> str:
    request, limit = requests.get(name), limits.get(name)
    start = f"minimum {name} usage per {kind} is {least}"
    requested, most, enforced = _values(request, limit, least)
    if request is None:
        return f"{start}.  No request is specified"
    if requested < enforced:
        return f"{start}, but request is {request}"
    if limit is not None and most < enforced:
        return f"{start}, but limit is {limit}"
    return ""


def _max_text(kind: str, name: str, largest: str, requests: Amounts, limits: Amounts) -> str:
    request, limit = requests.get(name), limits.get(name)
    start = f"maximum {name} usage per {kind} is {largest}"
    requested, most, enforced = _values(request, limit, largest)
    if limit is None:
        return f"{start}.  No limit is specified"
    if most > enforced:
        return f"{start}, but limit is {limit}"
    if request is not None and requested > enforced:
        return f"{start}, but request is {request}"
    return ""


def _max_request_text(kind: str, name: str, largest: str, requests: Amounts) -> str:
    request = requests.get(name)
    start = f"maximum {name} usage per {kind} is {largest}"
    requested, _, enforced = _values(request, None, largest)
    if request is None:
        return f"{start}.  No request is specified"
    return f"{start}, but request is {request}" if requested > enforced else ""


def _ratio_text(kind: str, name: str, ratio: str, requests: Amounts, limits: Amounts) -> str:
    request, limit = requests.get(name), limits.get(name)
    start = f"{name} max limit to request ratio per {kind} is {ratio}, but"
    requested, most, _ = _values(request, limit, ratio)
    if not requested:
        return f"{start} no request is specified or request is 0"
    if not most:
        return f"{start} no limit is specified or limit is 0"
    observed = most / requested
    enforced = parse_quantity(ratio)
    if enforced.value() <= _MAX_MILLI:
        is_over = observed * 1000 > enforced.milli_value()
    else:
        is_over = observed > enforced.value()
    return f"{start} provided ratio is {observed:f}" if is_over else ""


def _claim_texts(limit: Document, claim: Document) -> Iterable[str]:
    kind = limit.get("type") or ""
    if kind != "PersistentVolumeClaim":
        return
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for name, least in (limit.get("min") or {}).items():
        if text := _min_text(kind, name, least, requests, {}):
            yield text
    for name, largest in (limit.get("max") or {}).items():
        if text := _max_request_text(kind, name, largest, requests):
            yield text


def _pod_texts(limit: Document, pod: Document) -> Iterable[str]:
    kind, spec = limit.get("type") or "", pod["spec"]
    if kind == "Container":
        for part in ("containers", "initContainers"):
            for container in spec.get(part) or ():
                resources = container.get("resources") or {}
                requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
                yield from _bounds(kind, limit, requests, limits)
    elif kind == "Pod":
        requests, limits = aggregate(spec, "requests"), aggregate(spec, "limits")
        whole = spec.get("resources") or {}
        for which, amounts in (("requests", requests), ("limits", limits)):
            for name, text in (whole.get(which) or {}).items():
                if name in POD_LEVEL:
                    amounts[name] = text
        yield from _bounds(kind, limit, requests, limits)


def _bounds(kind: str, limit: Document, requests: Amounts, limits: Amounts) -> Iterable[str]:
    for field, rule in (
        ("min", _min_text),
        ("max", _max_text),
        ("maxLimitRequestRatio", _ratio_text),
    ):
        for name, amount in (limit.get(field) or {}).items():
            if text := rule(kind, name, amount, requests, limits):
                yield text
