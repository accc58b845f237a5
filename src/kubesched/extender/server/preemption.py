"""The `preempt` verb: nodes on which the plugins accept the pod without the proposed victims.

Owns the trial without the victims. The calling scheduler has run its own filters, but calls those
of an extender only on nodes with room. Never chooses victims: a node keeps the proposed ones or is
left out.
Upstream: pkg/scheduler/extender.go ProcessPreemption (the client)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from kubesched.extender.server.service import ExtenderService, PodsUnknownError, ServiceError
from kubesched.extender.wire import (
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    MetaPod,
    MetaVictims,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Status
from kubesched.golang.json_unmarshal import WireError
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import Trial


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Victim(msgspec.Struct):
    """The only part of a victim that is decoded."""

    metadata: _Metadata


_VICTIM: Final = msgspec.json.Decoder(_Victim)


class PreemptOutcome(NamedTuple):
    """The result of `preempt`, and the fields of its log line."""

    result: ExtenderPreemptionResult
    pod: PodInfo
    node_count: int


def preempt(service: ExtenderService, args: ExtenderPreemptionArgs) -> PreemptOutcome:
    """Return the nodes, with their victims, on which the plugins accept the pod.

    Raises:
        ServiceError: A plugin failed, or the cluster state is incomplete.
        MalformedObject: The pod is malformed.
        WireError: A victim is malformed.
    """
    service.check_synced()
    if not service.cluster.knows_pods:
        raise PodsUnknownError  # Victims are pods.
    pod = service.pod_of(args.pod)
    proposed = _proposed(args)
    profile, state = service.profile_of(pod), CycleState()
    only, rejection = service.run_pre_filter(profile, state, pod)
    kept: dict[str, MetaVictims | None] = {}
    for name, victims in proposed.items() if rejection is None else ():
        if only is not None and name not in only[0]:
            continue
        uids = [victim.uid for victim in victims.pods or () if victim is not None]
        if _would_fit(service, profile, state, pod, name, uids):
            kept[name] = victims
    return PreemptOutcome(
        ExtenderPreemptionResult(node_name_to_meta_victims=kept), pod, len(proposed)
    )


def _proposed(args: ExtenderPreemptionArgs) -> Mapping[str, MetaVictims]:
    """Return the victims of each node by identifier, whether sent by uid or as whole pods."""
    if args.node_name_to_meta_victims is not None:
        by_uid = args.node_name_to_meta_victims.items()
        return {name: victims or MetaVictims() for name, victims in by_uid}
    return {
        name: MetaVictims()
        if victims is None
        else MetaVictims(
            pods=list(map(_meta, victims.pods or ())),
            num_pdb_violations=victims.num_pdb_violations,
        )
        for name, victims in (args.node_name_to_victims or {}).items()
    }


def _meta(raw: msgspec.Raw) -> MetaPod:
    try:
        return MetaPod(uid=_VICTIM.decode(raw).metadata.uid)
    except (msgspec.MsgspecError, UnicodeError) as problem:
        raise WireError(f"a victim cannot be read: {problem}") from None


def _would_fit(
    service: ExtenderService,
    profile: Profile,
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    uids: Sequence[str],
) -> bool:
    """Return whether the pod passes the filters on a node without some of its pods."""
    view = service.cluster.cache.snapshot()
    row = view.row_of(node_name)
    if row < 0:
        return False
    trial, state = Trial(view, np.array([row], dtype=np.int64)), state.clone()
    on_node = set(view.pods_on(row))
    for uid in uids:
        index = view.pods.index_of.get(uid, -1)
        if index not in on_node:
            continue  # It was already deleted.
        removed = trial.remove(np.array([index], dtype=np.int32))
        failure = profile.filters.change_pods("remove", state, pod, removed, trial)
        if failure is not None:
            raise ServiceError(failure.message)
    verdict: Status = profile.run_filter_plugins_with_nominated_pods(state, pod, trial.nodes)[0]
    if not verdict.is_success and not verdict.is_rejected:
        raise ServiceError(verdict.message)
    return verdict.is_success
