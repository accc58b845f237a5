"""Revisions of a Deployment: the new ReplicaSet, revision annotations and rollback targets.

Owns the comparison of templates and the document of a new ReplicaSet. Never writes.
Upstream: pkg/controller/deployment/util/deployment_util.go, sync.go getNewReplicaSet
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    controller_ref,
    name_of,
    namespace_of,
    uid_of,
)
from kubesched.cluster.controllers.controller_revisions import (
    pod_template_hash,
)
from kubesched.cluster.controllers.deployment.sizes import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    age_order,
    max_surge,
)
from kubesched.cluster.controllers.replica_set.status import replicas_of

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
    """Return whether two templates are equal apart from the pod-template-hash label.

    Parity: deployment_util.go EqualIgnoreHash, v1.36.
    """
    return one["spec"] == other["spec"] and _template_metadata(one) == _template_metadata(other)


def new_replica_set(deployment: Document, sets: Iterable[Document]) -> Document | None:
    """Return the ReplicaSet with the Deployment's template; the oldest of several.

    Parity: deployment_util.go FindNewReplicaSet, v1.36.
    """
    template = deployment["spec"]["template"]
    for replica_set in sorted(sets, key=age_order):
        if is_same_template(replica_set["spec"]["template"], template):
            return replica_set
    return None


def old_replica_sets(deployment: Document, sets: Sequence[Document]) -> list[Document]:
    """Return all ReplicaSets but the new one."""
    new = new_replica_set(deployment, sets)
    return [
        replica_set for replica_set in sets if new is None or uid_of(replica_set) != uid_of(new)
    ]


def revision_of(document: Document) -> int | None:
    """Return the revision of a ReplicaSet: 0 if it has none, None if it is no number."""
    text = (document["metadata"].get("annotations") or {}).get(REVISION)
    if text is None:
        return 0
    return int(text) if _INTEGER.fullmatch(text) else None


def max_revision(sets: Iterable[Document]) -> int:
    """Return the highest revision."""
    return max((revision_of(replica_set) or 0 for replica_set in sets), default=0)


def last_revision(sets: Iterable[Document]) -> int:
    """Return the second highest revision; 0 if there is none.

    Parity: deployment_util.go LastRevision, v1.36.
    """
    revisions = sorted((revision_of(replica_set) or 0 for replica_set in sets), reverse=True)
    return max(revisions[1], 0) if len(revisions) > 1 else 0


def revision_order(replica_set: Document) -> tuple[int, str, str]:
    """Sort key: by revision, then by age."""
    return revision_of(replica_set) or 0, *age_order(replica_set)


def new_replica_set_document(deployment: Document) -> Document:
    """Return the ReplicaSet to create for the current template, with 0 replicas.

    Parity: sync.go getNewReplicaSet, v1.36.
    """
    spec = deployment["spec"]
    collisions = (deployment.get("status") or {}).get("collisionCount")
    hash_text = pod_template_hash(spec["template"], collisions)
    template = copy.deepcopy(spec["template"])
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), TEMPLATE_HASH: hash_text}
    selector = copy.deepcopy(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: hash_text}
    replica_set_spec: Document = {"replicas": 0, "selector": selector, "template": template}
    if spec.get("minReadySeconds"):
        replica_set_spec["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            # A deterministic name, so that it is never created twice.
            "name": f"{_truncated_name(name_of(deployment), len(hash_text))}-{hash_text}",
            "namespace": namespace_of(deployment),
            "labels": dict(metadata["labels"]),
            "ownerReferences": [controller_ref(deployment)],
        },
        "spec": replica_set_spec,
    }


def new_replica_set_annotations(
    deployment: Document, replica_set: Document, revision: int, *, exists: bool
) -> dict[str, str]:
    """Return the annotations that the new ReplicaSet should have.

    Parity: deployment_util.go SetNewReplicaSetAnnotations, v1.36.

    Args:
        deployment: The Deployment.
        replica_set: Its new ReplicaSet.
        revision: One more than the highest old revision.
        exists: Whether the ReplicaSet exists; scaling then sets the replicas annotations.
    """
    annotations = dict(replica_set["metadata"].get("annotations") or {})
    deployment_annotations = deployment["metadata"].get("annotations") or {}
    annotations |= {
        key: value for key, value in deployment_annotations.items() if key not in _NOT_COPIED
    }
    previous = annotations.get(REVISION)
    if previous and not _INTEGER.fullmatch(previous):
        return annotations
    if int(previous or 0) < revision:
        annotations[REVISION] = str(revision)
        if previous is not None:
            # It was the new ReplicaSet before: this is a rollback, and the history keeps it.
            _append_revision_history(annotations, previous)
    return annotations if exists else {**annotations, **replicas_annotations(deployment)}


def replicas_annotations(deployment: Document) -> dict[str, str]:
    """Return the annotations that record the Deployment's size on a ReplicaSet.

    Parity: deployment_util.go SetReplicasAnnotations, v1.36.
    """
    desired = replicas_of(deployment)
    return {
        DESIRED_REPLICAS: str(desired),
        MAX_REPLICAS: str(desired + max_surge(deployment)),
    }


def rollback_revision(deployment: Document) -> int | None:
    """Return the revision in the deprecated rollback annotation; 0 means the last one."""
    text = (deployment["metadata"].get("annotations") or {}).get(ROLLBACK_TO, "")
    return int(text) if _INTEGER.fullmatch(text) else None


def rolled_back(deployment: Document, replica_set: Document) -> Document:
    """Return a Deployment with the template and annotations of a ReplicaSet.

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


def without_rollback_annotation(deployment: Document) -> Document:
    """Return a Deployment without the rollback annotation."""
    annotations = dict(deployment["metadata"].get("annotations") or {})
    annotations.pop(ROLLBACK_TO, None)
    return {**deployment, "metadata": {**deployment["metadata"], "annotations": annotations}}


def _template_metadata(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a template without empty fields and the hash label."""
    metadata = dict(template.get("metadata") or {})
    labels = dict(metadata.pop("labels", None) or {})
    labels.pop(TEMPLATE_HASH, None)
    return {field: value for field, value in {**metadata, "labels": labels}.items() if value}


def _append_revision_history(annotations: dict[str, str], revision: str) -> None:
    """Append a revision to the history, dropping the first ones if it grows too long."""
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


def _truncated_name(name: str, hash_chars: int) -> str:
    # Parity: sync.go generateReplicaSetName, v1.36.
    return name[: _NAME_CHARS_MAX - 1 - hash_chars]
