"""Placement of daemon pods: the nodes of a DaemonSet and the target node of a pod.

The rule of a DaemonSet is compiled once. Includes the tolerations and the node affinity of daemon
pods; existing pods are not considered.
Upstream: pkg/controller/daemon/daemon_controller.go NodeShouldRunDaemonPod,
pkg/controller/daemon/util/daemonset_util.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from kubesched.api import affinity
from kubesched.api.documents import Document, labels_of, name_of
from kubesched.api.node_selectors import NodeSelector, compile_node_selector
from kubesched.api.tolerations import Taint, untolerated

_NO_SCHEDULE: Final = "NoSchedule"
_NO_EXECUTE: Final = "NoExecute"
# Daemon pods stay on nodes with problems, and run on nodes that reject other pods.
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", _NO_EXECUTE),
    ("node.kubernetes.io/unreachable", _NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", _NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", _NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", _NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", _NO_SCHEDULE),
)
_NAME_FIELD: Final = "metadata.name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED_ON_HOST_NETWORK: Final = (("node.kubernetes.io/network-unavailable", _NO_SCHEDULE),)


class NodeSuitability(NamedTuple):
    """Whether a daemon pod should run on a node, and whether an existing one may stay."""

    should_run: bool
    should_continue_running: bool


_YES: Final = NodeSuitability(should_run=True, should_continue_running=True)
_NO: Final = NodeSuitability(should_run=False, should_continue_running=False)
_ONLY_STAY: Final = NodeSuitability(should_run=False, should_continue_running=True)


def daemon_tolerations(pod_spec: Document) -> list[Document]:
    """Return the tolerations of a daemon pod: the template's and the standard ones.

    Parity: daemonset_util.go AddOrUpdateDaemonPodTolerations, v1.36.
    """
    standard = _TOLERATED + (_TOLERATED_ON_HOST_NETWORK if pod_spec.get("hostNetwork") else ())
    tolerations: list[Document] = [
        dict(toleration) for toleration in pod_spec.get("tolerations") or ()
    ]
    for key, effect in standard:
        added = {"key": key, "operator": "Exists", "effect": effect}
        # A toleration that differs only in tolerationSeconds is replaced.
        same = [
            index
            for index, toleration in enumerate(tolerations)
            if _without_time(toleration) == added
        ]
        for index in same:
            tolerations[index] = dict(added)
        if not same:
            tolerations.append(added)
    return tolerations


def daemon_pod_spec(pod_spec: Document, node_name: str) -> Document:
    """Return the spec of the pod for a node, with node affinity to it.

    Parity: daemonset_util.go CreatePodTemplate, ReplaceDaemonSetPodNodeNameNodeAffinity, v1.36.
    """
    term = {"matchFields": [{"key": _NAME_FIELD, "operator": "In", "values": [node_name]}]}
    affinity = pod_spec.get("affinity") or {}
    # The node affinity of the template was checked already.
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        _REQUIRED: {"nodeSelectorTerms": [term]},
    }
    return {
        **pod_spec,
        "tolerations": daemon_tolerations(pod_spec),
        "affinity": {**affinity, "nodeAffinity": node_affinity},
    }


def target_node(pod: Document) -> str | None:
    """Return the node a daemon pod runs on or has affinity to; None if there is none.

    Parity: daemonset_util.go GetTargetNodeName, v1.36.
    """
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == _NAME_FIELD and field.get("operator") == "In":
                values = field.get("values") or []
                return str(values[0]) if len(values) == 1 else None
    return None


class DaemonPlacement:
    """The placement rule of one DaemonSet."""

    def __init__(self, daemon_set: Document) -> None:
        spec = daemon_set["spec"]["template"]["spec"]
        self._node_name: str = spec.get("nodeName") or ""
        self._labels: list[tuple[str, str]] = list((spec.get("nodeSelector") or {}).items())
        self._required = _required_nodes(spec)
        self._tolerations = msgspec.convert(
            daemon_tolerations(spec), tuple[affinity.Toleration, ...]
        )
        self._known: dict[str, tuple[Document, NodeSuitability]] = {}

    def verdict(self, node: Document) -> NodeSuitability:
        """Return the verdict on a node, cached until the node changes."""
        name = name_of(node)
        cached = self._known.get(name)
        if cached is not None and cached[0] is node:
            return cached[1]
        verdict = self._judge(node, name)
        self._known[name] = node, verdict
        return verdict

    def forget(self, name: str) -> None:
        """Drop the cached verdict on a deleted node."""
        self._known.pop(name, None)

    def _judge(self, node: Document, name: str) -> NodeSuitability:
        if self._node_name not in ("", name):
            return _NO
        labels = labels_of(node)
        if any(labels.get(key) != value for key, value in self._labels):
            return _NO
        if self._required is not None and not self._required.matches(labels, name):
            return _NO
        taints = _taints_of(node)
        if not untolerated(taints, self._tolerations, (_NO_SCHEDULE, _NO_EXECUTE)):
            return _YES
        return _NO if untolerated(taints, self._tolerations, (_NO_EXECUTE,)) else _ONLY_STAY


def _required_nodes(spec: Document) -> NodeSelector | None:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if required is None:
        return None
    return compile_node_selector(msgspec.convert(required, affinity.NodeSelector))


def _taints_of(node: Document) -> Sequence[Taint]:
    return [
        Taint(taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "")
        for taint in (node.get("spec") or {}).get("taints") or ()
    ]


def _without_time(toleration: Document) -> Document:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds" and value}
