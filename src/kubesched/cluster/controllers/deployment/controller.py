"""Deployments: roll out templates by scaling ReplicaSets.

Owns when a Deployment is synced and which ReplicaSets it controls. The sync itself is `rollout`'s.
Never writes pods.
Upstream: pkg/controller/deployment/deployment_controller.go
"""

from __future__ import annotations

from functools import partial

from kubesched.api.documents import Document, key_of, uid_of
from kubesched.client.errors import ApiError
from kubesched.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating
from kubesched.cluster.controllers.controller_refs import (
    claim_children,
    enqueue_parents,
    index_orphans,
    resolve_owner_key,
    selector_of_parent,
)
from kubesched.cluster.controllers.deployment.replica_sets import DeploymentSync, HashCollisionError
from kubesched.cluster.controllers.deployment.rollout import roll_out


class DeploymentController(Controller):
    """Reconciles Deployments."""

    name = "deployment"
    component = "deployment-controller"
    workers = 10

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.deployments = self.informers.of(DEPLOYMENTS)
        self.sets = self.informers.of(REPLICA_SETS)
        self.pods = self.informers.of(PODS)
        index_orphans(self.sets)
        self.deployments.on_change(self.enqueue)
        self.sets.on_change(partial(enqueue_parents, self.deployments, self.queue.add))
        self.pods.on_change(self._pod_changed)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        """Enqueue a Recreate Deployment when its last old pod is gone.

        Parity: deployment_controller.go deletePod, v1.36.
        """
        if new is not None or old is None:
            return
        set_key = resolve_owner_key(self.sets, old)
        replica_set = None if set_key is None else self.sets.get(set_key)
        key = None if replica_set is None else resolve_owner_key(self.deployments, replica_set)
        deployment = None if key is None else self.deployments.get(key)
        if deployment is None or deployment["spec"]["strategy"].get("type") != "Recreate":
            return
        sets = self.sets.owned_by(uid_of(deployment))
        if not any(self.pods.owned_by(uid_of(replica_set)) for replica_set in sets):
            self.queue.add(key_of(deployment))

    async def sync(self, key: str) -> None:
        """Reconcile one Deployment.

        Parity: deployment_controller.go syncDeployment, v1.36.
        """
        deployment = self.deployments.get(key)
        if deployment is None:
            return
        if deployment["spec"].get("selector") == {}:
            await self._reject_empty_selector(deployment)
            return
        sets = await claim_children(
            self.api, REPLICA_SETS, deployment, DEPLOYMENTS, selector_of_parent(deployment)
        )
        try:
            await roll_out(DeploymentSync(self, deployment, sets))
        except HashCollisionError as error:
            # The collision count in the status changed, which enqueues the Deployment again.
            self.log.info("Found a hash collision", level=2, deployment=key, err=str(error))
        except ApiError as error:
            if not is_namespace_terminating(error):
                raise

    async def _reject_empty_selector(self, deployment: Document) -> None:
        note = "This deployment is selecting all pods. A non-empty selector is required."
        self.event(deployment, "Warning", "SelectingAll", note)
        generation = deployment["metadata"].get("generation", 0)
        status = deployment.get("status") or {}
        if status.get("observedGeneration", 0) < generation:
            changed = {**status, "observedGeneration": generation}
            await self.api.update_status(DEPLOYMENTS, {**deployment, "status": changed})
