"""DefaultTolerationSeconds and PodTopologyLabels.

Upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go,
plugin/pkg/admission/podtopologylabels/admission.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.admission.rejections import Plugin, is_about
from kubesched.cluster.apiserver.documents import Document, labels_of
from kubesched.cluster.apiserver.strategy import Request

TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300


class DefaultTolerationSeconds(Plugin):
    """Lets pods stay five minutes on a node that is not ready or unreachable."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Add the default tolerations that a pod lacks."""
        if new is None or not is_about(request, "pods"):
            return
        spec = new["spec"]
        tolerated = {
            toleration.get("key") or ""
            for toleration in spec.get("tolerations") or ()
            if (toleration.get("effect") or "NoExecute") == "NoExecute"
        }
        for key in _TAINTS:
            if key not in tolerated and "" not in tolerated:
                spec["tolerations"] = [
                    *(spec.get("tolerations") or ()),
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": _SECONDS,
                    },
                ]


class PodTopologyLabels(Plugin):
    """Copies the topology labels of a node to the pods bound to it."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Copy the labels."""
        if new is None or old is not None or not is_about(request, "pods"):
            return
        name = new["spec"].get("nodeName")
        node = request.reader.get("", "nodes", "", name) if name else None
        if node is None:
            return
        copied = {key: value for key, value in labels_of(node).items() if key in TOPOLOGY_LABELS}
        if copied:
            new["metadata"]["labels"] = {**labels_of(new), **copied}


_KEY, _EFFECT = "node.kubernetes.io/not-ready", "NoSchedule"


class TaintNodesByCondition(Plugin):
    """Taints new nodes."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Add the taint."""
        if new is None or old is not None or not is_about(request, "nodes"):
            return
        spec = new.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(taint.get("key") == _KEY and taint.get("effect") == _EFFECT for taint in taints):
            spec["taints"] = [*taints, {"key": _KEY, "effect": _EFFECT}]
