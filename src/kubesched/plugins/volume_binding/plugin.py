"""VolumeBinding: rejects nodes where a claim of the pod neither has nor can get a volume.

Upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kubesched.config.types import VolumeBindingArgs
from kubesched.config.validate_args import validate_volume_binding_args
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import ApiCallError, Handle
from kubesched.framework.interface import (
    READS_NOTHING,
    AllReasons,
    EventRegistration,
    FilterVerdict,
    PreBindPreFlightResult,
    Reads,
    Rejected,
)
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.kit.log import Ref
from kubesched.plugins.pod_volumes import (
    CLAIM,
    ClaimUse,
    claim_uses,
    not_found_text,
    not_owner_text,
    volume_changes,
)
from kubesched.plugins.record import InTreePlugin, Write, checked_args
from kubesched.plugins.volume_binding.assume_cache import AssumeError
from kubesched.plugins.volume_binding.binder import (
    BindingError,
    BoundCheck,
    Findings,
    VolumeBinder,
    migrated_plugin_of,
)
from kubesched.plugins.volume_binding.delayed_search import (
    REASON_NODE_CONFLICT,
    REASON_VOLUME_NOT_EXIST,
    PodVolumeClaims,
    PodVolumes,
)
from kubesched.plugins.volume_binding.hints import registrations
from kubesched.plugins.volume_binding.volume_writes import VolumeWriter, Writing
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.object_store import ObjectStores
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import LiveUsage, NodeTable, Rows

NO_VOLUMES: Final = PodVolumes()

_STATE_KEY: Final = "VolumeBinding"
_UNKNOWN: Final = -1
_NODE_CONFLICT: Final = unresolvable(REASON_NODE_CONFLICT)
_NOT_FOUND: Final = error("not found")
_READS: Final = Reads(
    nodes=True, objects=("csi_nodes", "persistent_volume_claims", "persistent_volumes")
)


class BindingState:
    """The pod's claims, and what was found for them on each row; shared by all clones."""

    def __init__(self, claims: PodVolumeClaims | None = None) -> None:
        self.claims = claims
        self.all_bound = claims is None
        self.assumed: dict[str, PodVolumes] = {}
        """What was assumed, by node name: rows may mean other nodes by the time of binding."""
        self._found: list[PodVolumes] = []
        self._group: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._judged: Findings | None = None
        self._judged_rows: Rows = np.zeros(0, dtype=np.int64)

    @property
    def needs_nothing(self) -> bool:
        """Return whether all claims have their volumes, so that no volume has to be bound."""
        return self.claims is not None and not self.claims.unbound_delayed

    def remember(self, nodes: NodeTable, findings: Findings) -> None:
        """Keep what was found for the rows that were not rejected."""
        missing = nodes.view.row_count - len(self._group)
        if missing > 0:
            self._group = np.append(self._group, np.full(missing, _UNKNOWN, dtype=np.int64))
        accepted = ~findings.rejected()
        self._group[nodes.rows[accepted]] = findings.group[accepted] + len(self._found)
        self._found += findings.volumes
        if len(nodes) >= len(self._judged_rows):
            self._judged, self._judged_rows = findings, nodes.rows

    def judged(self, nodes: NodeTable) -> Findings | None:
        """Return what was found for these rows earlier in the attempt; None if not for all."""
        if self._judged is None:
            return None
        position_of = np.full(nodes.view.row_count, _UNKNOWN, dtype=np.int64)
        position_of[self._judged_rows] = np.arange(len(self._judged_rows))
        positions = position_of[nodes.rows]
        return None if (positions == _UNKNOWN).any() else self._judged.take(positions)

    def volumes_at(self, row: int) -> PodVolumes | None:
        """Return what was found for a row."""
        if self.needs_nothing:
            return NO_VOLUMES
        if not 0 <= row < len(self._group) or self._group[row] == _UNKNOWN:
            return None
        return self._found[int(self._group[row])]


class VolumeBinding:
    """Rejects nodes that cannot reach the pod's volumes; assumes the volumes of the chosen one."""

    name = "VolumeBinding"
    reserves_if_skipped = False

    def __init__(self, args: object, handle: Handle) -> None:
        own_args = checked_args(args, VolumeBindingArgs, validate_volume_binding_args)
        self._handle = handle
        self._binder = VolumeBinder(handle.log)
        self._writer = VolumeWriter(handle, self._binder, own_args.bind_timeout_seconds)

    def take_over(self, former: VolumeBinding) -> None:
        """Take over the assumed volumes after a reload: their pods may not be bound yet."""
        self._binder.take_over(former._binder)

    def reads(self, pod: PodInfo) -> Reads | None:
        """Declare that verdicts depend on nodes and volumes if all claims are bound; else None."""
        uses = list(claim_uses(pod))
        if not uses:
            return READS_NOTHING
        if any(use.is_ephemeral for use in uses):
            return None  # Such claims are named after the pod.
        objects = self._handle.snapshot.objects
        if any(_problem_of_claim(pod, use, objects) is not None for use in uses):
            return None
        claims = self._binder.bound_claims_of(pod, objects)
        return None if claims is None else _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return the rows that can reach the volumes of a pod with bound claims."""
        view = self._handle.snapshot
        claims = self._binder.bound_claims_of(pod, view.objects) or ()
        return (view.identity, *(self._fragment_of(claim, view.objects) for claim in claims))

    def _fragment_of(self, claim: PersistentVolumeClaim, objects: ObjectStores) -> Hashable:
        volume = self._binder.volume_of(claim, objects)
        if volume is None:
            return REASON_VOLUME_NOT_EXIST
        if migrated_plugin_of(volume) is not None:
            return (
                volume.metadata.name,
                objects.store_of(PersistentVolume).epoch,
                objects.store_of(CSINode).epoch,
            )
        affinity = volume.spec.node_affinity
        return None if affinity is None else affinity.required

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Find the pod's claims; reject the pod if one is missing, lost, or not bound yet."""
        objects = nodes.view.objects
        uses = list(claim_uses(pod))
        for use in uses:
            problem = _problem_of_claim(pod, use, objects)
            if problem is not None:
                return unresolvable(problem)
        if not uses:
            state.write(_STATE_KEY, BindingState())
            return SKIP
        try:
            claims = self._binder.claims_of(pod, objects)
        except BindingError as wrong:
            return error(str(wrong))
        if claims.unbound_immediate:
            return unresolvable("pod has unbound immediate PersistentVolumeClaims")
        state.write(_STATE_KEY, BindingState(claims))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Reject nodes that cannot reach, find or provision a volume of the pod."""
        binding: BindingState | None = state.get(_STATE_KEY)
        if binding is None:
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), _NOT_FOUND)]
        claims = binding.claims or PodVolumeClaims()
        if not claims.unbound_delayed:
            return _rejections(self._binder.check_bound(claims.bound, nodes), len(nodes))
        # Verdicts do not depend on pods, so a trial reuses what was found before.
        is_trial = not isinstance(nodes.usage, LiveUsage)
        findings = binding.judged(nodes) if is_trial else None
        if findings is None:
            findings = self._binder.find(claims, nodes)
            binding.remember(nodes, findings)
        if findings.errors:
            self._count_failure("predicate", int(np.count_nonzero(findings.failed())))
        return _all_reasons(findings)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Skip: scoring by capacity is behind a gate that is off."""
        return SKIP

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Give all nodes the same score: scoring by capacity is behind a gate that is off."""
        return np.zeros(len(nodes), dtype=np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Assume the volumes and claims that were found for the chosen node."""
        binding: BindingState | None = state.get(_STATE_KEY)
        if binding is None:
            return _NOT_FOUND
        if binding.claims is None:
            return None
        view = self._handle.snapshot
        volumes = binding.volumes_at(view.row_of(node_name))
        if volumes is None:
            binding.all_bound = True
            return None
        try:
            assumed, binding.all_bound = self._binder.assume(pod, node_name, volumes, view.objects)
        except AssumeError as problem:
            self._count_failure("assume")
            return error(str(problem))
        if not binding.needs_nothing:
            binding.assumed[node_name] = assumed
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Forget the assumed volumes and claims, if any."""
        binding: BindingState | None = state.get(_STATE_KEY)
        volumes = None if binding is None else self._volumes_for(binding, node_name)
        if volumes is not None:
            self._binder.revert(volumes)

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[PreBindPreFlightResult, Status | None]:
        """Return whether there are volumes to bind; other plugins may run in parallel."""
        volumes = self._volumes_to_bind(state, node_name)
        verdict = volumes if isinstance(volumes, Status) else None
        return PreBindPreFlightResult(allow_parallel=True), verdict

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Write the assumed volumes, and wait until the claims are bound to them."""
        volumes = self._volumes_to_bind(state, node_name)
        if isinstance(volumes, Status):
            return None if volumes.is_skip else volumes
        binding: BindingState = state.read(_STATE_KEY)
        log, ref = self._handle.log, Ref(pod.namespace, pod.name)
        log.info("Trying to bind volumes for pod", level=5, pod=ref)
        writing, failure = Writing.of(volumes), True
        try:
            await self._writer.bind(pod, node_name, writing)
            failure = False
        except (ApiCallError, BindingError) as problem:
            log.info("Failed to bind volumes for pod", level=5, pod=ref, err=str(problem))
            return error(str(problem))
        finally:
            # Written objects stay assumed until the watch shows them, even if later writes failed.
            binding.assumed[node_name] = writing.still_assumed()
            if failure:
                self._count_failure("bind")
        log.info("Success binding volumes for pod", level=5, pod=ref)
        return None

    def events_to_register(self) -> list[EventRegistration]:
        return registrations()

    def _volumes_to_bind(self, state: CycleState, node_name: str) -> PodVolumes | Status:
        binding: BindingState | None = state.get(_STATE_KEY)
        if binding is None:
            return _NOT_FOUND
        if binding.all_bound:
            return SKIP
        volumes = self._volumes_for(binding, node_name)
        if volumes is None:
            return error(f'no pod volume found for node "{node_name}"')
        return volumes

    def _volumes_for(self, binding: BindingState, node_name: str) -> PodVolumes | None:
        assumed = binding.assumed.get(node_name)
        if assumed is not None:
            return assumed
        return binding.volumes_at(self._handle.snapshot.row_of(node_name))

    def _count_failure(self, operation: str, count: int = 1) -> None:
        # Metrics exist in a running scheduler only.
        metrics = getattr(self._handle, "metrics", None)
        if metrics is not None:
            metrics.volume_scheduling_stage_error_total.labels(operation).inc(count)


def _all_reasons(findings: Findings) -> AllReasons:
    """Return the rejections of delayed and bound claims together, with every reason."""
    failed = findings.failed()
    rejections = [Rejected(mask, error(text)) for text, mask in findings.errors.items()]
    for reason, mask in findings.conflicts.items():
        alone = mask & ~failed  # An error leaves no other reasons.
        if alone.any():
            rejections.append(Rejected(alone, unresolvable(reason)))
    return AllReasons(rejections)


def _rejections(checks: Sequence[BoundCheck], node_count: int) -> list[Rejected]:
    """Return the rejections of bound claims; the first one gives the reason."""
    rejections = []
    for check in checks:
        if check.is_missing:
            everywhere = np.ones(node_count, dtype=np.bool_)
            rejections.append(Rejected(everywhere, unresolvable(REASON_VOLUME_NOT_EXIST)))
        if check.failed is not None:
            rejections.append(Rejected(check.failed, error(check.error)))
        if check.reachable is not None:
            rejections.append(Rejected(~check.reachable, _NODE_CONFLICT))
    return rejections


def _problem_of_claim(pod: PodInfo, use: ClaimUse, objects: ObjectStores) -> str | None:
    # Parity: volume_binding.go podHasPVCs, v1.36.
    name = use.claim_name
    claim = objects.store_of(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
    if claim is None:
        if use.is_ephemeral:
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{name}"'
            )
        return not_found_text(CLAIM, name)
    if claim.status.phase == "Lost":
        return (
            f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume '
            f'"{claim.spec.volume_name}"'
        )
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return not_owner_text(pod, claim) if use.is_ephemeral else None


PLUGIN = InTreePlugin(
    plugin=VolumeBinding,
    watches=(PersistentVolume, PersistentVolumeClaim, StorageClass, CSIDriver, CSIStorageCapacity),
    writes=tuple(
        Write("", plural, ("patch",), "binding volumes (VolumeBinding)")
        for plural in ("persistentvolumes", "persistentvolumeclaims")
    ),
    pod_changes=volume_changes,
    has_shared_changes=True,
)
