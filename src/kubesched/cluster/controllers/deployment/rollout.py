"""The sync of one Deployment: rolling update, recreate, scaling, pausing and rollback.

Owns the order of the steps. Sizes come from `sizes`, conditions from `status`, writes go through
`replica_sets`. Keeps no state between syncs.
Upstream: pkg/controller/deployment/
{deployment_controller,sync,rolling,recreate,progress,rollback}.go
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubesched.api.documents import Document, is_terminating, key_of, name_of, uid_of
from kubesched.client.resources import PODS
from kubesched.cluster.controllers.deployment.replica_sets import DeploymentSync
from kubesched.cluster.controllers.deployment.revisions import (
    is_same_template,
    last_revision,
    revision_of,
    rollback_revision,
    rolled_back,
    without_rollback_annotation,
)
from kubesched.cluster.controllers.deployment.sizes import (
    Scaling,
    active,
    active_or_latest,
    desired_replicas_annotation,
    is_rolling_update,
    is_saturated,
    max_scale_down,
    new_replicas,
    proportional_sizes,
    status_total,
    surplus_old_sizes,
    unhealthy_old_sizes,
)
from kubesched.cluster.controllers.deployment.status import (
    deployment_status,
    is_complete,
    next_progress_check_s,
    paused_status,
    rollout_status,
)
from kubesched.cluster.controllers.replica_set.status import replicas_of

_NOT_FOUND: Final = "DeploymentRollbackRevisionNotFound"
_UNCHANGED: Final = "DeploymentRollbackTemplateUnchanged"
_DONE: Final = "DeploymentRollback"


async def roll_out(sync: DeploymentSync) -> None:
    """Reconcile a Deployment.

    Parity: deployment_controller.go syncDeployment, v1.36.
    """
    if is_terminating(sync.deployment):
        await sync.sync_revision()
        await _update_counts(sync)
        return
    paused_update = paused_status(sync.deployment, sync.now_s)
    if paused_update is not None:
        await sync.update_status(paused_update)
    if sync.deployment["spec"].get("paused"):
        await _scale(sync)
    elif rollback_revision(sync.deployment) is not None:
        await _roll_back(sync)
    elif await _is_scaling(sync):
        await _scale(sync)
    elif is_rolling_update(sync.deployment):
        await _rolling_update(sync)
    else:
        await _recreate(sync)


async def _is_scaling(sync: DeploymentSync) -> bool:
    """Return whether the Deployment's size differs from the one its ReplicaSets record.

    Parity: sync.go isScalingEvent, v1.36.
    """
    await sync.sync_revision()
    desired = replicas_of(sync.deployment)
    recorded = (desired_replicas_annotation(one) for one in active(sync.sets))
    return any(count is not None and count != desired for count in recorded)


async def _scale(sync: DeploymentSync) -> None:
    """Apply a new size, or keep the sizes of a paused Deployment.

    Parity: sync.go sync, v1.36.
    """
    await sync.sync_revision()
    await _scale_sets(sync)
    is_paused = bool(sync.deployment["spec"].get("paused"))
    if is_paused and rollback_revision(sync.deployment) is None:
        await sync.clean_up()
    await _update_counts(sync)


async def _scale_sets(sync: DeploymentSync) -> None:
    """Distribute a new size over the ReplicaSets without advancing the rollout.

    Parity: sync.go scale, v1.36.
    """
    new, old = sync.new, sync.old
    only = active_or_latest(new, old)
    if only is not None:
        await sync.scale(only, replicas_of(sync.deployment))
    elif is_saturated(sync.deployment, new):
        for one in active(old):
            await sync.scale(one, 0)
    elif is_rolling_update(sync.deployment):
        for one, size in proportional_sizes(sync.deployment, sync.sets):
            await sync.scale(one, size, force=True)


async def _rolling_update(sync: DeploymentSync) -> None:
    """Scale up the new ReplicaSet as far as the surge allows, else scale down old ones.

    Parity: rolling.go rolloutRolling, v1.36.
    """
    await sync.sync_revision()
    new = sync.new or await sync.create_new_replica_set()
    if not await _scale_up_new(sync, new) and not await _scale_down_old(sync, new):
        await _clean_up_if_complete(sync)
    await _update_rollout_status(sync)


async def _scale_up_new(sync: DeploymentSync, new: Document) -> bool:
    # Parity: rolling.go reconcileNewReplicaSet, v1.36.
    desired, size = replicas_of(sync.deployment), replicas_of(new)
    if size >= desired:
        return await sync.scale(new, desired)
    return await sync.scale(new, new_replicas(sync.deployment, sync.sets, new))


async def _scale_down_old(sync: DeploymentSync, new: Document) -> bool:
    """Remove unhealthy old pods first, then those that new pods have replaced.

    Parity: rolling.go reconcileOldReplicaSets, v1.36.
    """
    count_max = max_scale_down(sync.deployment, sync.sets, new)
    if not active(sync.old) or count_max <= 0:
        return False
    unhealthy, is_settled = unhealthy_old_sizes(sync.old, count_max)
    await _scale_each(sync, unhealthy)
    if not is_settled:
        return False
    # Read again: the ReplicaSets just scaled have fewer pods to remove.
    surplus = surplus_old_sizes(sync.deployment, sync.sets, sync.old)
    await _scale_each(sync, surplus)
    return bool(unhealthy or surplus)


async def _scale_each(sync: DeploymentSync, sizes: Iterable[Scaling]) -> None:
    for one, size in sizes:
        await sync.scale(one, size)


async def _recreate(sync: DeploymentSync) -> None:
    """Scale all old ReplicaSets to 0 before the first new pod is created.

    Parity: recreate.go rolloutRecreate, v1.36.
    """
    await sync.sync_revision()
    old = active(sync.old)
    for one in old:
        await sync.scale(one, 0)
    if not old and not _old_pods_run(sync):
        new = sync.new or await sync.create_new_replica_set()
        await sync.scale(new, replicas_of(sync.deployment))
        await _clean_up_if_complete(sync)
    await _update_rollout_status(sync)


def _old_pods_run(sync: DeploymentSync) -> bool:
    # Parity: recreate.go oldPodsRunning, v1.36.
    if status_total(sync.old, "replicas") > 0:
        return True
    pods = sync.controller.informers.of(PODS)
    return any(
        (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        for one in sync.old
        for pod in pods.owned_by(uid_of(one))
    )


async def _clean_up_if_complete(sync: DeploymentSync) -> None:
    if is_complete(sync.deployment, sync.status):
        await sync.clean_up()


async def _update_counts(sync: DeploymentSync) -> None:
    await sync.update_status(deployment_status(sync.deployment, sync.sets, sync.new, sync.now_s))


async def _update_rollout_status(sync: DeploymentSync) -> None:
    """Update the rollout status, and check again when the progress deadline expires."""
    before = sync.deployment
    await sync.update_status(rollout_status(before, sync.sets, sync.new, sync.now_s))
    if sync.deployment is before:
        wait_s = next_progress_check_s(sync.deployment, sync.now_s)
        if wait_s is not None:
            # Times in the status have a resolution of one second.
            sync.controller.queue.add_after(key_of(sync.deployment), wait_s + 1.0)


async def _roll_back(sync: DeploymentSync) -> None:
    """Apply the template of the requested revision and remove the rollback annotation.

    Parity: rollback.go rollback, v1.36.
    """
    await sync.sync_revision()
    if sync.new is None:
        await sync.create_new_replica_set()
    revision = rollback_revision(sync.deployment) or last_revision(sync.sets)
    if revision == 0:
        await _abandon_rollback(sync, _NOT_FOUND, "Unable to find last revision.")
        return
    found = next(
        (replica_set for replica_set in sync.sets if revision_of(replica_set) == revision), None
    )
    name = name_of(sync.deployment)
    if found is None:
        await _abandon_rollback(sync, _NOT_FOUND, "Unable to find the revision to rollback to.")
    elif is_same_template(sync.deployment["spec"]["template"], found["spec"]["template"]):
        note = f'The rollback revision contains the same template as current deployment "{name}"'
        await _abandon_rollback(sync, _UNCHANGED, note)
    else:
        await sync.update(without_rollback_annotation(rolled_back(sync.deployment, found)))
        sync.record_event(
            "Normal", _DONE, f'Rolled back deployment "{name}" to revision {revision}'
        )


async def _abandon_rollback(sync: DeploymentSync, reason: str, note: str) -> None:
    deployment: Document = without_rollback_annotation(sync.deployment)
    sync.record_event("Warning", reason, note)
    await sync.update(deployment)
