"""Priority: resolves a pod's PriorityClass, and allows one default class.

Upstream: plugin/pkg/admission/priority/admission.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.admission.rejections import Plugin, is_about, rejection
from kubesched.cluster.apiserver.documents import Document, name_of
from kubesched.cluster.apiserver.strategy import Request

_GROUP = "scheduling.k8s.io"
_BUILT_IN: Document = {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}


class Priority(Plugin):
    """Sets priority and preemption policy of new pods."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Fill in a pod's priority."""
        if new is None or not is_about(request, "pods"):
            return
        if old is None:
            _admit_new(new, request)
            return
        for field in ("priority", "preemptionPolicy"):
            if new["spec"].get(field) is None and old["spec"].get(field) is not None:
                new["spec"][field] = old["spec"][field]

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Reject a second default class."""
        if new is None or not is_about(request, "priorityclasses", group=_GROUP):
            return
        if not new.get("globalDefault"):
            return
        default = _default_class(request)
        if default is not None and (old is None or name_of(default) != name_of(new)):
            name = name_of(default)
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise rejection(new, request, why)


def _default_class(request: Request) -> Document | None:
    found: Document | None = None
    for one in request.reader.list(_GROUP, "priorityclasses"):
        if one.get("globalDefault") and (
            found is None or (found.get("value") or 0) > (one.get("value") or 0)
        ):
            found = one
    return found


def _admit_new(pod: Document, request: Request) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if name:
        found = request.reader.get(_GROUP, "priorityclasses", "", name)
        if found is None:
            raise rejection(pod, request, f"no PriorityClass with name {name} was found")
    else:
        found = _default_class(request) or _BUILT_IN
        if found is not _BUILT_IN:
            spec["priorityClassName"] = name_of(found)
    value = found.get("value") or 0
    number = spec.get("priority")
    if number is not None and number != value:
        why = (
            f"the integer value of priority ({number}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name"
        )
        raise rejection(pod, request, why)
    spec["priority"] = value
    policy = found.get("preemptionPolicy")
    if policy is None:
        return
    requested = spec.get("preemptionPolicy")
    if requested is not None and requested != policy:
        why = (
            f"the string value of PreemptionPolicy ({requested}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise rejection(pod, request, why)
    spec["preemptionPolicy"] = policy
