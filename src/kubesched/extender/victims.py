"""Victims on their way to an extender and back.

Owns the two forms in which candidates of a preemption are shown, and finding again whom an answer
names. Never asks anybody and never chooses.
Upstream: pkg/scheduler/extender.go ProcessPreemption, convertToMetaVictims, convertToVictims
"""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView
from kubesched.extender import wire
from kubesched.extender.errors import ExtenderError
from kubesched.extender.object_json import bound_pod_json, pod_json
from kubesched.framework.interface import Victims
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import go_quote


def preemption_args(
    pod: PodInfo, victims: Mapping[str, Victims], *, by_name: bool
) -> wire.ExtenderPreemptionArgs:
    """Return the question which of these nodes may be freed; pods are named or shown whole."""
    args = wire.ExtenderPreemptionArgs(pod=pod_json(pod))
    if by_name:
        args.node_name_to_meta_victims = {
            name: wire.MetaVictims(
                pods=[wire.MetaPod(uid=victim.uid) for victim in found.pods],
                num_pdb_violations=found.pdb_violation_count,
            )
            for name, found in victims.items()
        }
    else:
        args.node_name_to_victims = {
            name: wire.Victims(
                pods=[bound_pod_json(victim) for victim in found.pods],
                num_pdb_violations=found.pdb_violation_count,
            )
            for name, found in victims.items()
        }
    return args


def victims_of(
    result: wire.ExtenderPreemptionResult, view: ClusterView, extender_name: str
) -> dict[str, Victims]:
    """Return whom an answer names, by node; ExtenderError if they are not there."""
    found: dict[str, Victims] = {}
    for node_name, named in (result.node_name_to_meta_victims or {}).items():
        row = view.row_of(node_name)
        if row < 0:
            raise ExtenderError(f"nodeinfo not found for node name {go_quote(node_name)}")
        # Differs: upstream's process ends at a null in place of victims or of a pod.
        if named is None:
            raise ExtenderError(f"extender: {extender_name} names no victims on node: {node_name}")
        by_uid = {pod.uid: pod for pod in map(view.bound_pod, view.pods_on(row))}
        pods = tuple(_victim(by_uid, one, extender_name, node_name) for one in named.pods or ())
        found[node_name] = Victims(node_name, pods, named.num_pdb_violations)
    return found


def _victim(
    by_uid: Mapping[str, BoundPod], named: wire.MetaPod | None, extender_name: str, node_name: str
) -> BoundPod:
    pod = None if named is None else by_uid.get(named.uid)
    if pod is None:
        # Upstream prints the pod as the struct that it is.
        shown = "<nil>" if named is None else f"&{{{named.uid}}}"
        raise ExtenderError(
            f"extender: {extender_name} claims to preempt pod (UID: {shown}) on node: {node_name}, "
            "but the pod is not found on that node"
        )
    return pod
