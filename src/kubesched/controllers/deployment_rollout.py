"""One look at one deployment: the steps from where it is towards where it should be.

Owns their order for both strategies, for scaling and for pauses. The numbers are deployment_sizes',
the texts deployment_status's, the writes deployment_sets'. Never keeps anything for the next look.
Upstream: pkg/controller/deployment/{deployment_controller,sync,rolling,recreate,progress}.go
"""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.client.cached.documents import Document, is_terminating, key_of, uid_of
from kubesched.client.resources import PODS
from kubesched.controllers.deployment_revisions import rollback_revision
from kubesched.controllers.deployment_rollback import roll_back
from kubesched.controllers.deployment_sets import DeploymentSets
from kubesched.controllers.deployment_sizes import (
    Scaling,
    active,
    active_or_latest,
    counted,
    desired_replicas_noted,
    is_rolling_update,
    is_saturated,
    new_replicas,
    old_to_go,
    proportional_sizes,
    scale_down_max,
    unhealthy_to_go,
)
from kubesched.controllers.deployment_status import (
    deployment_status,
    is_complete,
    next_progress_check_s,
    paused_status,
    rollout_status,
)
from kubesched.controllers.replica_set_status import replicas_of


async def roll_out(own: DeploymentSets) -> None:
    """Bring a deployment one step further.

    Parity: deployment_controller.go syncDeployment, v1.36.
    """
    if is_terminating(own.deployment):
        await own.sync_revision()
        await _write_counts(own)
        return
    told = paused_status(own.deployment, _now_s(own))
    if told is not None:
        await own.update_status(told)
    if own.deployment["spec"].get("paused"):
        await _scale(own)
    elif rollback_revision(own.deployment) is not None:
        await roll_back(own)
    elif await _is_scaling(own):
        await _scale(own)
    elif is_rolling_update(own.deployment):
        await _roll(own)
    else:
        await _recreate(own)


async def _is_scaling(own: DeploymentSets) -> bool:
    """Return whether the deployment has another size than its ReplicaSets know of.

    Parity: sync.go isScalingEvent, v1.36.
    """
    await own.sync_revision()
    desired = replicas_of(own.deployment)
    noted = (desired_replicas_noted(one) for one in active(own.sets))
    return any(count is not None and count != desired for count in noted)


async def _scale(own: DeploymentSets) -> None:
    """Take over a new size, or keep the sizes of a paused deployment.

    Parity: sync.go sync, v1.36.
    """
    await own.sync_revision()
    await _scale_sets(own)
    is_paused = bool(own.deployment["spec"].get("paused"))
    if is_paused and rollback_revision(own.deployment) is None:
        await own.clean_up()
    await _write_counts(own)


async def _scale_sets(own: DeploymentSets) -> None:
    """Spread a new size over the ReplicaSets, so that it does not hasten a rollout.

    Parity: sync.go scale, v1.36.
    """
    new, old = own.new, own.old
    only = active_or_latest(new, old)
    if only is not None:
        await own.scale(only, replicas_of(own.deployment))
    elif is_saturated(own.deployment, new):
        for one in active(old):
            await own.scale(one, 0)
    elif is_rolling_update(own.deployment):
        for one, size in proportional_sizes(own.deployment, own.sets):
            await own.scale(one, size, force=True)


async def _roll(own: DeploymentSets) -> None:
    """Grow the new ReplicaSet as far as the surge allows, else shrink the old ones.

    Parity: rolling.go rolloutRolling, v1.36.
    """
    await own.sync_revision()
    new = own.new or await own.create_new()
    if not await _grow_new(own, new) and not await _shrink_old(own, new):
        await _clean_up_if_complete(own)
    await _write_rollout(own)


async def _grow_new(own: DeploymentSets, new: Document) -> bool:
    # Parity: rolling.go reconcileNewReplicaSet, v1.36.
    desired, size = replicas_of(own.deployment), replicas_of(new)
    if size >= desired:
        return await own.scale(new, desired)
    return await own.scale(new, new_replicas(own.deployment, own.sets, new))


async def _shrink_old(own: DeploymentSets, new: Document) -> bool:
    """Take away old pods that do not work, then those that are made up for.

    Parity: rolling.go reconcileOldReplicaSets, v1.36.
    """
    count_max = scale_down_max(own.deployment, own.sets, new)
    if not active(own.old) or count_max <= 0:
        return False
    unhealthy, is_settled = unhealthy_to_go(own.old, count_max)
    await _scale_each(own, unhealthy)
    if not is_settled:
        return False
    # Looked at again: what has just been scaled has less to give.
    spare = old_to_go(own.deployment, own.sets, own.old)
    await _scale_each(own, spare)
    return bool(unhealthy or spare)


async def _scale_each(own: DeploymentSets, sizes: Iterable[Scaling]) -> None:
    for one, size in sizes:
        await own.scale(one, size)


async def _recreate(own: DeploymentSets) -> None:
    """Let all old pods go before the first new one comes.

    Parity: recreate.go rolloutRecreate, v1.36.
    """
    await own.sync_revision()
    old = active(own.old)
    for one in old:
        await own.scale(one, 0)
    if not old and not _old_pods_run(own):
        new = own.new or await own.create_new()
        await own.scale(new, replicas_of(own.deployment))
        await _clean_up_if_complete(own)
    await _write_rollout(own)


def _old_pods_run(own: DeploymentSets) -> bool:
    # Parity: recreate.go oldPodsRunning, v1.36.
    if counted(own.old, "replicas") > 0:
        return True
    pods = own.controller.informers.of(PODS)
    return any(
        (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        for one in own.old
        for pod in pods.owned_by(uid_of(one))
    )


async def _clean_up_if_complete(own: DeploymentSets) -> None:
    if is_complete(own.deployment, own.status):
        await own.clean_up()


async def _write_counts(own: DeploymentSets) -> None:
    await own.update_status(deployment_status(own.deployment, own.sets, own.new, _now_s(own)))


async def _write_rollout(own: DeploymentSets) -> None:
    """Say how far the rollout is, and come again when it could be stuck."""
    before = own.deployment
    await own.update_status(rollout_status(before, own.sets, own.new, _now_s(own)))
    if own.deployment is before:
        wait_s = next_progress_check_s(own.deployment, _now_s(own))
        if wait_s is not None:
            # Times in a status are whole seconds.
            own.controller.queue.add_after(key_of(own.deployment), wait_s + 1.0)


def _now_s(own: DeploymentSets) -> float:
    return own.controller.clock.now_s()
