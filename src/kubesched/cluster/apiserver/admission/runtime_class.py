"""RuntimeClass: overhead, node selector and tolerations from a pod's RuntimeClass.

Upstream: plugin/pkg/admission/runtimeclass/admission.go
"""

from __future__ import annotations

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.admission.rejections import Plugin, is_about, rejection
from kubesched.cluster.apiserver.documents import Document, copy_of
from kubesched.cluster.apiserver.strategy import Request
from kubesched.golang.strconv import go_quote

_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClass(Plugin):
    """Applies a pod's RuntimeClass."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Set overhead and scheduling of a new pod."""
        if new is None or old is not None or not is_about(request, "pods"):
            return
        found = _class_of(new, request)
        if found is None:
            return
        spec = new["spec"]
        fixed = (found.get("overhead") or {}).get("podFixed")
        if found.get("overhead") is not None:
            if spec.get("overhead") and not _same(spec["overhead"], fixed or {}):
                raise rejection(new, request, _MISMATCH)
            if fixed:
                spec["overhead"] = dict(fixed)
            else:
                spec.pop("overhead", None)
        if found.get("scheduling") is not None:
            _schedule(new, found["scheduling"], request)

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Reject overhead that does not come from a RuntimeClass."""
        if new is None or old is not None or not is_about(request, "pods"):
            return
        found = _class_of(new, request)
        overhead = new["spec"].get("overhead") or {}
        if found is not None and found.get("overhead") is not None:
            if not _same(overhead, found["overhead"].get("podFixed") or {}):
                raise rejection(new, request, _MISMATCH)
        elif overhead:
            why = (
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
            raise rejection(new, request, why)


def _class_of(pod: Document, request: Request) -> Document | None:
    name = pod["spec"].get("runtimeClassName")
    if name is None:
        return None
    found = request.reader.get("node.k8s.io", "runtimeclasses", "", name)
    if found is None:
        why = f"pod rejected: RuntimeClass {go_quote(name)} not found"
        raise rejection(pod, request, why)
    return found


def _same(first: dict[str, str], second: dict[str, str]) -> bool:
    return first.keys() == second.keys() and all(
        parse_quantity(first[name]) == parse_quantity(second[name]) for name in first
    )


def _schedule(pod: Document, scheduling: Document, request: Request) -> None:
    spec = pod["spec"]
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        own = selector.get(key, value)
        if own != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own}"
            )
            raise rejection(pod, request, why)
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    tolerations = _merged(spec.get("tolerations") or [], scheduling.get("tolerations") or [])
    if tolerations:
        spec["tolerations"] = tolerations


def _merged(first: list[Document], second: list[Document]) -> list[Document]:
    """Return both lists without tolerations that others cover."""
    # Parity: pkg/util/tolerations/tolerations.go MergeTolerations, v1.36
    merged: list[Document] = []
    everything = [*first, *copy_of(second)]
    for index, one in enumerate(everything):
        if any(_covers(kept, one) for kept in merged):
            continue
        if any(one != later and _covers(later, one) for later in everything[index + 1 :]):
            continue
        merged.append(one)
    return merged


def _covers(wide: Document, narrow: Document) -> bool:
    if wide == narrow:
        return True
    if wide.get("key") != narrow.get("key") and not (
        not wide.get("key") and wide.get("operator") == "Exists"
    ):
        return False
    if wide.get("effect") and wide.get("effect") != narrow.get("effect"):
        return False
    if wide.get("effect") == "NoExecute" and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or wide["tolerationSeconds"] < seconds:
            return False
    if wide.get("operator") == "Exists":
        return True
    same_value = (wide.get("value") or "") == (narrow.get("value") or "")
    return same_value and narrow.get("operator") == "Equal"
