"""DaemonSets: which nodes lack their pod, and the pod for a node.

Owns the step from objects of files to what the rule of the DaemonSet controller asks for. The rule
itself is `controllers.daemon_set_placement`'s, which a running cluster follows. Never decides
whether a pod fits.
Upstream: pkg/controller/daemon/daemon_controller.go manage
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.cache.cache import TERMINAL_PHASES
from kubesched.controllers.daemon_set_placement import (
    DaemonPlacement,
    daemon_pod_spec,
    target_node,
)
from kubesched.objects.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod


@dataclass(frozen=True, slots=True)
class Targets:
    """The nodes of one DaemonSet."""

    lacking: tuple[str, ...]
    """Those that should have its pod and do not, in the order of the files."""
    served: int
    """How many have one."""
    passed_over: int
    """How many are not for it: by its node selector, its affinity or their taints."""


class DaemonNodes:
    """The nodes of a cluster, as the rule of DaemonSets reads them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = [_document(node) for node in nodes]

    def targets(self, template: Mapping[str, Any], pods: Sequence[Pod]) -> Targets:
        """Return which nodes a DaemonSet is for, given its template and the pods it has."""
        # Parity: daemon_controller.go podsShouldBeOnNode, v1.36: a pod that has ended is replaced,
        # one that is being deleted is waited for.
        placement = DaemonPlacement({"spec": {"template": template}})
        taken = {_target(pod) for pod in pods if pod.status.phase not in TERMINAL_PHASES}
        lacking: list[str] = []
        served = 0
        for node in self._nodes:
            name = node["metadata"]["name"]
            verdict = placement.verdict(node)
            if name in taken and verdict.should_continue_running:
                served += 1
            elif verdict.should_run:
                lacking.append(name)
        return Targets(tuple(lacking), served, len(self._nodes) - served - len(lacking))


def _document(node: Node) -> dict[str, Any]:
    taints = [
        {"key": one.key, "value": one.value, "effect": one.effect} for one in node.spec.taints
    ]
    return {
        "metadata": {"name": node.metadata.name, "labels": node.metadata.labels},
        "spec": {"taints": taints},
    }


def _target(pod: Pod) -> str | None:
    if pod.spec.node_name or pod.spec.affinity is None:
        return pod.spec.node_name or None
    return target_node({"spec": {"affinity": msgspec.to_builtins(pod.spec.affinity)}})


def daemon_template(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with what every pod of a DaemonSet has besides, its node aside."""
    return {**template, "spec": daemon_pod_spec(dict(template["spec"]), "")}


def aimed_at(pod: Pod, node_name: str) -> Pod:
    """Return a pod of such a template as the one for a node."""
    affinity = pod.spec.affinity or Affinity()
    name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
    aimed = replace(
        affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=required,
    )
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=aimed)))
