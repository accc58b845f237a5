"""Roll-backs that a deployment asks for by an annotation, as old API versions did.

Owns finding the revision and taking over its template. `kubectl rollout undo` does so by itself and
never comes here.
Upstream: pkg/controller/deployment/rollback.go
"""

from __future__ import annotations

from typing import Final

from kubesched.client.cached.documents import Document, name_of
from kubesched.controllers.deployment_revisions import (
    is_same_template,
    last_revision,
    revision_of,
    rollback_revision,
    rolled_back,
    without_rollback,
)
from kubesched.controllers.deployment_sets import DeploymentSets

_NOT_FOUND: Final = "DeploymentRollbackRevisionNotFound"
_UNCHANGED: Final = "DeploymentRollbackTemplateUnchanged"
_DONE: Final = "DeploymentRollback"


async def roll_back(own: DeploymentSets) -> None:
    """Give a deployment the template of the revision it asks for, and have it ask no more.

    Parity: rollback.go rollback, v1.36.
    """
    await own.sync_revision()
    if own.new is None:
        await own.create_new()
    revision = rollback_revision(own.deployment) or last_revision(own.sets)
    if revision == 0:
        await _give_up(own, _NOT_FOUND, "Unable to find last revision.")
        return
    found = next((one for one in own.sets if revision_of(one) == revision), None)
    name = name_of(own.deployment)
    if found is None:
        await _give_up(own, _NOT_FOUND, "Unable to find the revision to rollback to.")
    elif is_same_template(own.deployment["spec"]["template"], found["spec"]["template"]):
        note = f'The rollback revision contains the same template as current deployment "{name}"'
        await _give_up(own, _UNCHANGED, note)
    else:
        await own.update(without_rollback(rolled_back(own.deployment, found)))
        own.tell("Normal", _DONE, f'Rolled back deployment "{name}" to revision {revision}')


async def _give_up(own: DeploymentSets, reason: str, note: str) -> None:
    deployment: Document = without_rollback(own.deployment)
    own.tell("Warning", reason, note)
    await own.update(deployment)
