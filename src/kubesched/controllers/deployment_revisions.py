"""Which ReplicaSet is the new one of a deployment, and which revisions there were.

Owns the comparison of templates, the revision annotations, and what the first ReplicaSet of a
template looks like. Never writes anything.
Upstream: pkg/controller/deployment/util/deployment_util.go, sync.go getNewReplicaSet
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubesched.client.cached.documents import (
    Document,
    controller_ref,
    name_of,
    namespace_of,
    pod_template_hash,
    uid_of,
)
from kubesched.controllers.deployment_sizes import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    by_age,
    max_surge,
)
from kubesched.controllers.replica_set_status import replicas_of

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"
TEMPLATE_HASH: Final = "pod-template-hash"

_HISTORY_CHARS_MAX: Final = 2000
_NAME_CHARS_MAX: Final = 253
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
    }
)


def is_same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two templates differ in nothing but the hash that a ReplicaSet adds.

    Parity: deployment_util.go EqualIgnoreHash, v1.36.
    """
    return one["spec"] == other["spec"] and _told(one) == _told(other)


def new_replica_set(deployment: Document, sets: Iterable[Document]) -> Document | None:
    """Return the ReplicaSet that has the template of a deployment; the oldest of several.

    Parity: deployment_util.go FindNewReplicaSet, v1.36.
    """
    template = deployment["spec"]["template"]
    for one in sorted(sets, key=by_age):
        if is_same_template(one["spec"]["template"], template):
            return one
    return None


def old_replica_sets(deployment: Document, sets: Sequence[Document]) -> list[Document]:
    """Return all ReplicaSets but the new one."""
    new = new_replica_set(deployment, sets)
    return [one for one in sets if new is None or uid_of(one) != uid_of(new)]


def revision_of(document: Document) -> int | None:
    """Return the revision of a ReplicaSet: 0 if it has none, None for what is no number."""
    text = (document["metadata"].get("annotations") or {}).get(REVISION)
    if text is None:
        return 0
    return int(text) if _INTEGER.fullmatch(text) else None


def max_revision(sets: Iterable[Document]) -> int:
    """Return the highest revision there is."""
    return max((revision_of(one) or 0 for one in sets), default=0)


def last_revision(sets: Iterable[Document]) -> int:
    """Return the revision before the highest; 0 if there was none.

    Parity: deployment_util.go LastRevision, v1.36.
    """
    revisions = sorted((revision_of(one) or 0 for one in sets), reverse=True)
    return max(revisions[1], 0) if len(revisions) > 1 else 0


def by_revision(replica_set: Document) -> tuple[int, str, str]:
    """Return what sorts ReplicaSets by revision, and those of one by age."""
    return revision_of(replica_set) or 0, *by_age(replica_set)


def first_of_template(deployment: Document) -> Document:
    """Return the ReplicaSet to be created for the template of a deployment, without a size.

    Parity: sync.go getNewReplicaSet, v1.36.
    """
    spec = deployment["spec"]
    collisions = (deployment.get("status") or {}).get("collisionCount")
    hash_text = pod_template_hash(spec["template"], collisions)
    template = copy.deepcopy(spec["template"])
    told = template.setdefault("metadata", {})
    told["labels"] = {**(told.get("labels") or {}), TEMPLATE_HASH: hash_text}
    selector = copy.deepcopy(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: hash_text}
    wanted: Document = {"replicas": 0, "selector": selector, "template": template}
    if spec.get("minReadySeconds"):
        wanted["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            # The same template has the same name, so that it is never created twice.
            "name": f"{_shortened(name_of(deployment), len(hash_text))}-{hash_text}",
            "namespace": namespace_of(deployment),
            "labels": dict(told["labels"]),
            "ownerReferences": [controller_ref(deployment)],
        },
        "spec": wanted,
    }


def annotations_of_new(
    deployment: Document, replica_set: Document, revision: int, *, exists: bool
) -> dict[str, str]:
    """Return the annotations that the new ReplicaSet should have.

    Parity: deployment_util.go SetNewReplicaSetAnnotations, v1.36.

    Args:
        deployment: Whose new ReplicaSet it is.
        replica_set: As it is now.
        revision: The number after the highest of the old ones.
        exists: Whether it is there already; how many pods are asked for is noted by who scales it.
    """
    annotations = dict(replica_set["metadata"].get("annotations") or {})
    given = deployment["metadata"].get("annotations") or {}
    annotations |= {key: value for key, value in given.items() if key not in _NOT_COPIED}
    before = annotations.get(REVISION)
    if before and not _INTEGER.fullmatch(before):
        return annotations
    if int(before or 0) < revision:
        annotations[REVISION] = str(revision)
        if before is not None:
            # It was the new one before: this is a roll-back, and what it was is kept.
            _remember_revision(annotations, before)
    return annotations if exists else {**annotations, **replicas_annotations(deployment)}


def replicas_annotations(deployment: Document) -> dict[str, str]:
    """Return what a ReplicaSet notes of the size of its deployment.

    Parity: deployment_util.go SetReplicasAnnotations, v1.36.
    """
    desired = replicas_of(deployment)
    return {
        DESIRED_REPLICAS: str(desired),
        MAX_REPLICAS: str(desired + max_surge(deployment)),
    }


def rollback_revision(deployment: Document) -> int | None:
    """Return the revision that an annotation of old API versions asks for; 0 means the last."""
    text = (deployment["metadata"].get("annotations") or {}).get(ROLLBACK_TO, "")
    return int(text) if _INTEGER.fullmatch(text) else None


def rolled_back(deployment: Document, replica_set: Document) -> Document:
    """Return a deployment with the template and the annotations of a ReplicaSet.

    Parity: deployment_util.go SetFromReplicaSetTemplate, SetDeploymentAnnotationsTo, v1.36.
    """
    template = copy.deepcopy(replica_set["spec"]["template"])
    (template.get("metadata") or {}).get("labels", {}).pop(TEMPLATE_HASH, None)
    own = deployment["metadata"].get("annotations") or {}
    theirs = replica_set["metadata"].get("annotations") or {}
    annotations = {key: value for key, value in own.items() if key in _NOT_COPIED}
    annotations |= {key: value for key, value in theirs.items() if key not in _NOT_COPIED}
    return {
        **deployment,
        "metadata": {**deployment["metadata"], "annotations": annotations},
        "spec": {**deployment["spec"], "template": template},
    }


def without_rollback(deployment: Document) -> Document:
    """Return a deployment that asks for no revision any more."""
    annotations = dict(deployment["metadata"].get("annotations") or {})
    annotations.pop(ROLLBACK_TO, None)
    return {**deployment, "metadata": {**deployment["metadata"], "annotations": annotations}}


def _told(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a template: what is empty left out, and the hash."""
    told = dict(template.get("metadata") or {})
    labels = dict(told.pop("labels", None) or {})
    labels.pop(TEMPLATE_HASH, None)
    return {field: value for field, value in {**told, "labels": labels}.items() if value}


def _remember_revision(annotations: dict[str, str], revision: str) -> None:
    """Add a revision to the history, and drop the first ones where it grows too long."""
    history = annotations.get(REVISION_HISTORY, "")
    revisions = history.split(",") if history and not history.startswith(",") else []
    if not revisions:
        annotations[REVISION_HISTORY] = revision
        return
    length = len(history) + len(revision) + 1
    start = 0
    while length > _HISTORY_CHARS_MAX and start < len(revisions):
        length -= len(revisions[start]) + 1
        start += 1
    if length <= _HISTORY_CHARS_MAX:
        annotations[REVISION_HISTORY] = ",".join([*revisions[start:], revision])


def _shortened(name: str, hash_chars: int) -> str:
    # Parity: sync.go generateReplicaSetName, v1.36.
    return name[: _NAME_CHARS_MAX - 1 - hash_chars]
