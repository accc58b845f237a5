"""Identity of the pods of a StatefulSet: names, ordinals, labels and volumes.

Creates such a pod, and checks whether an existing pod matches its identity.
Upstream: pkg/controller/statefulset/stateful_set_utils.go
"""

from __future__ import annotations

import copy
import re
from typing import Final

from kubesched.api.documents import Document, labels_of, name_of, namespace_of
from kubesched.cluster.controllers.controller_pods import pod_from_template
from kubesched.cluster.controllers.controller_revisions import REVISION_LABEL
from kubesched.cluster.controllers.replica_set.status import replicas_of

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"

_NAME: Final = re.compile(r"(.*)-([0-9]+)$")
_ORDINAL_MAX: Final = 2**31 - 1


def parent_and_ordinal(pod: Document) -> tuple[str, int]:
    """Return the set's name and the ordinal in a pod's name; -1 if there is no ordinal."""
    match = _NAME.fullmatch(name_of(pod))
    if match is None:
        return "", -1
    ordinal = int(match[2])
    return match[1], ordinal if ordinal <= _ORDINAL_MAX else -1


def ordinal_of(pod: Document) -> int:
    """Return the ordinal in a pod's name; -1 if there is none."""
    return parent_and_ordinal(pod)[1]


def start_ordinal(stateful_set: Document) -> int:
    """Return the ordinal of the first replica."""
    return int((stateful_set["spec"].get("ordinals") or {}).get("start") or 0)


def is_in_range(pod: Document, stateful_set: Document) -> bool:
    """Return whether a pod's ordinal is within the desired range."""
    start = start_ordinal(stateful_set)
    return start <= ordinal_of(pod) < start + replicas_of(stateful_set)


def is_member(stateful_set: Document, pod: Document) -> bool:
    """Return whether a pod has a name of the set."""
    return parent_and_ordinal(pod)[0] == name_of(stateful_set)


def revision_of(pod: Document) -> str:
    """Return the name of a pod's revision."""
    return labels_of(pod).get(REVISION_LABEL, "")


def claim_name(stateful_set: Document, template: Document, ordinal: int) -> str:
    """Return the name of a pod's claim."""
    return f"{name_of(template)}-{name_of(stateful_set)}-{ordinal}"


def claim_keys(stateful_set: Document, ordinal: int) -> list[str]:
    """Return the keys of the claims that a pod needs."""
    namespace = namespace_of(stateful_set)
    templates = stateful_set["spec"].get("volumeClaimTemplates") or ()
    return [f"{namespace}/{claim_name(stateful_set, template, ordinal)}" for template in templates]


def claims_of(stateful_set: Document, ordinal: int) -> list[Document]:
    """Return the claims to create for a pod."""
    spec = stateful_set["spec"]
    claims = []
    for template in spec.get("volumeClaimTemplates") or ():
        claim = copy.deepcopy(template)
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        metadata = claim["metadata"]
        metadata["name"] = claim_name(stateful_set, template, ordinal)
        metadata["namespace"] = namespace_of(stateful_set)
        labels = {
            **(metadata.get("labels") or {}),
            **((spec.get("selector") or {}).get("matchLabels") or {}),
        }
        if labels:
            metadata["labels"] = labels
        claims.append(claim)
    return claims


def identity_matches(stateful_set: Document, pod: Document) -> bool:
    """Return whether a pod has name, namespace and label of a replica."""
    parent, ordinal = parent_and_ordinal(pod)
    return (
        ordinal >= 0
        and parent == name_of(stateful_set)
        # An ordinal with leading zeros is another name.
        and name_of(pod) == f"{parent}-{ordinal}"
        and namespace_of(pod) == namespace_of(stateful_set)
        and labels_of(pod).get(POD_NAME_LABEL) == name_of(pod)
    )


def storage_matches(stateful_set: Document, pod: Document) -> bool:
    """Return whether a pod has a volume for every claim of the set."""
    ordinal = ordinal_of(pod)
    if ordinal < 0:
        return False
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        source = volumes.get(name_of(template), {}).get("persistentVolumeClaim") or {}
        if source.get("claimName") != claim_name(stateful_set, template, ordinal):
            return False
    return True


def set_identity(stateful_set: Document, pod: Document, ordinal: int) -> None:
    """Set the name, namespace and labels of an ordinal on a mutable pod."""
    metadata = pod["metadata"]
    name = f"{name_of(stateful_set)}-{ordinal}"
    metadata["name"] = name
    metadata["namespace"] = namespace_of(stateful_set)
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        POD_NAME_LABEL: name,
        POD_INDEX_LABEL: str(ordinal),
    }


def set_storage(stateful_set: Document, pod: Document) -> None:
    """Set a volume for every claim of the set on a mutable pod, replacing namesakes."""
    templates = stateful_set["spec"].get("volumeClaimTemplates") or ()
    if not templates:
        return
    ordinal = ordinal_of(pod)
    volumes: list[Document] = [
        {
            "name": name_of(template),
            "persistentVolumeClaim": {"claimName": claim_name(stateful_set, template, ordinal)},
        }
        for template in templates
    ]
    names = [volume["name"] for volume in volumes]
    volumes += [
        volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in names
    ]
    pod["spec"]["volumes"] = volumes


def new_pod(stateful_set: Document, ordinal: int, revision: str) -> Document:
    """Return the pod to create for an ordinal."""
    pod = pod_from_template(stateful_set["spec"]["template"], stateful_set)
    set_identity(stateful_set, pod, ordinal)
    pod["metadata"]["labels"][REVISION_LABEL] = revision
    pod["spec"]["hostname"] = name_of(pod)
    service = stateful_set["spec"].get("serviceName")
    if service:
        pod["spec"]["subdomain"] = service
    set_storage(stateful_set, pod)
    return pod


def belongs_to_current(stateful_set: Document, ordinal: int) -> bool:
    """Return whether a missing pod is created from the current revision instead of the update.

    Parity: stateful_set_utils.go newVersionedStatefulSetPod, v1.36.
    """
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    start = start_ordinal(stateful_set)
    if rolling is not None:
        return ordinal < start + int(rolling.get("partition") or 0)
    current = int((stateful_set.get("status") or {}).get("currentReplicas") or 0)
    return strategy.get("type") == "RollingUpdate" and ordinal < start + current
