"""TaintNodesByCondition: new nodes wait until somebody says they are ready.

Owns the taint that a new node gets.
Upstream: plugin/pkg/admission/nodetaint/admission.go
"""

from __future__ import annotations

from kubesched.apiserver.admission.refusals import Plugin, is_about
from kubesched.apiserver.documents import Document
from kubesched.apiserver.strategy import Request

_KEY, _EFFECT = "node.kubernetes.io/not-ready", "NoSchedule"


class TaintNodesByCondition(Plugin):
    """Taints new nodes."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Add the taint."""
        if new is None or old is not None or not is_about(request, "nodes"):
            return
        spec = new.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(one.get("key") == _KEY and one.get("effect") == _EFFECT for one in taints):
            spec["taints"] = [*taints, {"key": _KEY, "effect": _EFFECT}]
