"""Deployments: ReplicaSets that follow one template after the other.

Owns when a deployment is looked at again, and which ReplicaSets are its own. What is then done is
deployment_rollout's. Never touches a pod.
Upstream: pkg/controller/deployment/deployment_controller.go
"""

from __future__ import annotations

from kubesched.client.cached.documents import Document, key_of, uid_of
from kubesched.client.errors import ApiError
from kubesched.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from kubesched.controllers.claiming import (
    claimed,
    index_orphans,
    owner_key,
    selector_in_spec,
    wake_parents,
)
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.deployment_rollout import roll_out
from kubesched.controllers.deployment_sets import DeploymentSets, HashCollisionError
from kubesched.controllers.pod_control import NAMESPACE_TERMINATING, has_cause


class DeploymentController(Controller):
    """Rolls deployments out."""

    name = "deployment"
    component = "deployment-controller"
    workers = 10

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.deployments = self.informers.of(DEPLOYMENTS)
        self.sets = self.informers.of(REPLICA_SETS)
        self.pods = self.informers.of(PODS)
        index_orphans(self.sets)
        self.deployments.on_change(self._deployment_changed)
        self.sets.on_change(self._set_changed)
        self.pods.on_change(self._pod_changed)

    def _deployment_changed(self, _old: Document | None, new: Document | None) -> None:
        if new is not None:
            self.queue.add(key_of(new))

    def _set_changed(self, old: Document | None, new: Document | None) -> None:
        wake_parents(self.deployments, old, new, self.queue.add)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        """Look at a deployment that waits for its old pods to be gone.

        Parity: deployment_controller.go deletePod, v1.36.
        """
        if new is not None or old is None:
            return
        set_key = owner_key(self.sets, old)
        replica_set = None if set_key is None else self.sets.get(set_key)
        key = None if replica_set is None else owner_key(self.deployments, replica_set)
        deployment = None if key is None else self.deployments.get(key)
        if deployment is None or deployment["spec"]["strategy"].get("type") != "Recreate":
            return
        sets = self.sets.owned_by(uid_of(deployment))
        if not any(self.pods.owned_by(uid_of(one)) for one in sets):
            self.queue.add(key_of(deployment))

    async def sync(self, key: str) -> None:
        """Bring a deployment one step further.

        Parity: deployment_controller.go syncDeployment, v1.36.
        """
        deployment = self.deployments.get(key)
        if deployment is None:
            return
        if deployment["spec"].get("selector") == {}:
            await self._refuse(deployment)
            return
        sets = await claimed(
            self.api, REPLICA_SETS, deployment, DEPLOYMENTS, selector_in_spec(deployment)
        )
        try:
            await roll_out(DeploymentSets(self, deployment, sets))
        except HashCollisionError as error:
            # The collision is counted in the status, and its change brings us here again.
            self.log.info("Found a hash collision", level=2, deployment=key, err=str(error))
        except ApiError as error:
            if not has_cause(error, NAMESPACE_TERMINATING):
                raise

    async def _refuse(self, deployment: Document) -> None:
        note = "This deployment is selecting all pods. A non-empty selector is required."
        self.event(deployment, "Warning", "SelectingAll", note)
        generation = deployment["metadata"].get("generation", 0)
        status = deployment.get("status") or {}
        if status.get("observedGeneration", 0) < generation:
            told = {**status, "observedGeneration": generation}
            await self.api.update_status(DEPLOYMENTS, {**deployment, "status": told})
