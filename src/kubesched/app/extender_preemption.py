"""`preempt` of an extender: whom the plugins let go.

Owns the trial: would they take the pod on this node, if the victims were gone? The scheduler that
asks has tried its own filters, but never asks an extender's on a node that is full. Never chooses
victims: those proposed are taken or the node is left out.
Upstream: pkg/scheduler/extender.go ProcessPreemption (the other end)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from kubesched.app.extender_service import ExtenderService, PodsUnknownError, ServiceError
from kubesched.columns.trial import Trial
from kubesched.extender.wire import (
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    MetaPod,
    MetaVictims,
    WireError,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.profile import Profile
from kubesched.framework.status import Status
from kubesched.model.pod_info import PodInfo


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Victim(msgspec.Struct):
    """The only part of a victim that is read."""

    metadata: _Metadata


_VICTIM: Final = msgspec.json.Decoder(_Victim)


class Preempted(NamedTuple):
    """The answer to `preempt`, and what the log says of it."""

    result: ExtenderPreemptionResult
    pod: PodInfo
    asked: int


def preempt(service: ExtenderService, args: ExtenderPreemptionArgs) -> Preempted:
    """Return the nodes, with their victims, on which plugins would take the pod.

    Raises:
        ServiceError: A plugin failed, or not everything is known yet.
        MalformedObject: The pod cannot be read.
        WireError: A victim cannot be.
    """
    service.check_synced()
    if not service.world.knows_pods:
        raise PodsUnknownError  # The victims are some.
    pod = service.pod_of(args.pod)
    proposed = _proposed(args)
    profile, state = service.profile_of(pod), CycleState()
    only, refusal = service.prepared(profile, state, pod)
    kept: dict[str, MetaVictims | None] = {}
    for name, victims in proposed.items() if refusal is None else ():
        if only is not None and name not in only[0]:
            continue
        uids = [victim.uid for victim in victims.pods or () if victim is not None]
        if _would_fit(service, profile, state, pod, name, uids):
            kept[name] = victims
    return Preempted(ExtenderPreemptionResult(node_name_to_meta_victims=kept), pod, len(proposed))


def _proposed(args: ExtenderPreemptionArgs) -> Mapping[str, MetaVictims]:
    """Return the victims of each node by identifier, in whichever form they came."""
    if args.node_name_to_meta_victims is not None:
        given = args.node_name_to_meta_victims.items()
        return {name: victims or MetaVictims() for name, victims in given}
    found: dict[str, MetaVictims] = {}
    for name, whole in (args.node_name_to_victims or {}).items():
        if whole is None:
            found[name] = MetaVictims()
            continue
        pods: list[MetaPod | None] = [_meta(raw) for raw in whole.pods or ()]
        found[name] = MetaVictims(pods=pods, num_pdb_violations=whole.num_pdb_violations)
    return found


def _meta(raw: msgspec.Raw) -> MetaPod:
    try:
        return MetaPod(uid=_VICTIM.decode(raw).metadata.uid)
    except (msgspec.MsgspecError, UnicodeError) as problem:
        raise WireError(f"a victim cannot be read: {problem}") from None


def _would_fit(  # All of them are one question.
    service: ExtenderService,
    profile: Profile,
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    uids: Sequence[str],
) -> bool:
    """Return whether filters take the pod on a node without some of its pods."""
    view = service.world.cache.snapshot()
    row = view.row_of(node_name)
    if row < 0:
        return False
    trial, state = Trial(view, np.array([row], dtype=np.int64)), state.clone()
    here = set(view.pods_on(row))
    for uid in uids:
        index = view.pods.index_of.get(uid, -1)
        if index not in here:
            continue  # It is gone already.
        gone = trial.remove(np.array([index], dtype=np.int32))
        failed = profile.filters.change_pods("remove", state, pod, gone, trial)
        if failed is not None:
            raise ServiceError(failed.message)
    verdict: Status = profile.run_filter_plugins_with_nominated_pods(state, pod, trial.nodes)[0]
    if not verdict.is_success and not verdict.is_rejected:
        raise ServiceError(verdict.message)
    return verdict.is_success
