"""Writes of the pods and claims of a StatefulSet.

Owns the creation, correction and deletion of one pod with its claims, and the events about them.
Never decides which pod is next.
Upstream: pkg/controller/statefulset/stateful_pod_control.go
"""

from __future__ import annotations

import copy

from kubesched.api.documents import Document, is_terminating, name_of, namespace_of
from kubesched.client.errors import AlreadyExistsError, ApiError, TransportError
from kubesched.client.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.stateful_set.identity import (
    claim_keys,
    claims_of,
    identity_matches,
    ordinal_of,
    set_identity,
    set_storage,
    storage_matches,
)
from kubesched.cluster.controllers.stateful_set.retention import (
    desired_owner_references,
    has_stale_owner,
    has_unexpected_controller,
    is_owner_up_to_date,
    retention_policy,
)

_REQUEST_ERRORS = (ApiError, TransportError)


class ClaimError(Exception):
    """A claim of a pod could not be created or updated."""


class StatefulPodControl:
    """Writes the pods of StatefulSets."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._api = controller.api
        self._claims = controller.informers.of(PERSISTENT_VOLUME_CLAIMS)

    async def create(self, stateful_set: Document, pod: Document) -> None:
        """Create a pod after its claims.

        Parity: stateful_pod_control.go CreateStatefulPod, v1.36.
        """
        try:
            await self._create_claims(stateful_set, pod)
            created = await self._api.create(PODS, pod)
        except AlreadyExistsError:
            raise
        except (*_REQUEST_ERRORS, ClaimError) as error:
            self._pod_event("create", stateful_set, pod, error)
            raise
        await self._update_claim_owners(stateful_set, created)
        self._pod_event("create", stateful_set, pod)

    async def create_missing_claims(self, stateful_set: Document, pod: Document) -> None:
        """Create the missing claims of a pending pod."""
        await self._create_claims(stateful_set, pod)
        await self._update_claim_owners(stateful_set, pod)

    async def correct(self, stateful_set: Document, pod: Document) -> None:
        """Update identity, volumes and claims of a pod to match its set.

        Parity: stateful_pod_control.go UpdateStatefulPod, v1.36.
        """
        desired = copy.deepcopy(pod)
        is_consistent = True
        if not identity_matches(stateful_set, desired):
            set_identity(stateful_set, desired, ordinal_of(desired))
            is_consistent = False
        if not storage_matches(stateful_set, desired):
            set_storage(stateful_set, desired)
            is_consistent = False
            try:
                await self._create_claims(stateful_set, desired)
            except ClaimError as error:
                self._pod_event("update", stateful_set, desired, error)
                raise
        if not self.claims_match(stateful_set, desired):
            await self._update_claim_owners(stateful_set, desired)
            is_consistent = False
        if is_consistent:
            return
        try:
            await self._api.update(PODS, desired)
        except _REQUEST_ERRORS as error:
            self._pod_event("update", stateful_set, desired, error)
            raise
        self._pod_event("update", stateful_set, desired)

    async def delete(self, stateful_set: Document, pod: Document) -> None:
        """Delete a pod."""
        try:
            await self._api.delete(PODS, pod)
        except _REQUEST_ERRORS as error:
            self._pod_event("delete", stateful_set, pod, error)
            raise
        self._pod_event("delete", stateful_set, pod)

    def claims_match(self, stateful_set: Document, pod: Document) -> bool:
        """Return whether the owners of a pod's claims match the retention policy."""
        return all(
            is_owner_up_to_date(claim, stateful_set, pod)
            for claim in self._existing_claims(stateful_set, pod)
        )

    async def correct_claims(self, stateful_set: Document, pod: Document) -> None:
        """Update the owners of a pod's claims to match the retention policy."""
        if not self.claims_match(stateful_set, pod):
            await self._update_claim_owners(stateful_set, pod)

    def has_stale_claim(self, stateful_set: Document, pod: Document) -> bool:
        """Return whether a claim still belongs to a deleted pod of the same name."""
        if retention_policy(stateful_set)[0] == "Retain":
            return False
        return any(
            has_stale_owner(claim, pod) for claim in self._existing_claims(stateful_set, pod)
        )

    def _existing_claims(self, stateful_set: Document, pod: Document) -> list[Document]:
        found = map(self._claims.get, claim_keys(stateful_set, ordinal_of(pod)))
        return [claim for claim in found if claim is not None]

    async def _create_claims(self, stateful_set: Document, pod: Document) -> None:
        errors: list[str] = []
        for claim in claims_of(stateful_set, ordinal_of(pod)):
            name = name_of(claim)
            existing = self._claims.get(f"{namespace_of(claim)}/{name}")
            if existing is not None:
                if is_terminating(existing):
                    errors.append(f"pvc {name} is being deleted")
                continue
            try:
                await self._api.create(PERSISTENT_VOLUME_CLAIMS, claim)
            except _REQUEST_ERRORS as error:
                errors.append(f"failed to create PVC {name}: {error}")
                if not isinstance(error, AlreadyExistsError):
                    self._claim_event(stateful_set, pod, name, error)
            else:
                self._claim_event(stateful_set, pod, name)
        if len(errors) == 1:
            raise ClaimError(errors[0])
        if errors:
            raise ClaimError("[" + ", ".join(errors) + "]")

    async def _update_claim_owners(self, stateful_set: Document, pod: Document) -> None:
        for claim in self._existing_claims(stateful_set, pod):
            if has_unexpected_controller(claim, stateful_set, pod):
                self._controller.event(
                    stateful_set,
                    "Warning",
                    "ConflictingController",
                    f"PersistentVolumeClaim {name_of(claim)} has a conflicting OwnerReference "
                    "that acts as a manging controller, the retention policy is ignored for this "
                    "claim",
                )
            if is_owner_up_to_date(claim, stateful_set, pod):
                continue
            owners = desired_owner_references(claim, stateful_set, pod)
            changed = {**claim, "metadata": {**claim["metadata"], "ownerReferences": owners}}
            try:
                await self._api.update(PERSISTENT_VOLUME_CLAIMS, changed)
            except _REQUEST_ERRORS as error:
                message = (
                    f"could not update claim {name_of(claim)} for delete policy ownerRefs: {error}"
                )
                self._pod_event("update", stateful_set, pod, ClaimError(message))
                raise

    def _pod_event(
        self, verb: str, stateful_set: Document, pod: Document, error: Exception | None = None
    ) -> None:
        action = f"{verb.title()} Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)}"
        self._event(verb, stateful_set, f"{action} successful", f"{action} failed", error)

    def _claim_event(
        self, stateful_set: Document, pod: Document, claim: str, error: Exception | None = None
    ) -> None:
        name = name_of(stateful_set)
        done = f"Create Claim {claim} Pod {name_of(pod)} in StatefulSet {name} success"
        failed = f"Create Claim {claim} for Pod {name_of(pod)} in StatefulSet {name} failed"
        self._event("create", stateful_set, done, failed, error)

    def _event(
        self, verb: str, stateful_set: Document, done: str, failed: str, error: Exception | None
    ) -> None:
        if error is None:
            self._controller.event(stateful_set, "Normal", f"Successful{verb.title()}", done)
        else:
            note = f"{failed} error: {error}"
            self._controller.event(stateful_set, "Warning", f"Failed{verb.title()}", note)
