"""The pods of a DaemonSet: how one is made, which there are by node, and whether one is up to date.

Owns what a daemon pod has beyond the template. Never decides where one should be.
Upstream: pkg/controller/daemon/util/daemonset_util.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from kubesched.client.cached.documents import Document, labels_of, name_of
from kubesched.controllers.controller_revisions import REVISION_LABEL
from kubesched.controllers.daemon_set_placement import daemon_pod_spec, target_node
from kubesched.controllers.pod_control import pod_from_template

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


def template_generation(daemon_set: Document) -> str | None:
    """Return the generation of the template that an old annotation says; None for none."""
    text = (daemon_set["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION)
    if text is None or not _INTEGER.fullmatch(text):
        return None
    return str(int(text))


def new_daemon_pod(daemon_set: Document, node_name: str, hash_: str) -> Document:
    """Return the pod for a node, to be created and bound there by the scheduler.

    Parity: daemonset_util.go CreatePodTemplate, v1.36.
    """
    pod = pod_from_template(daemon_set["spec"]["template"], daemon_set)
    labels = pod["metadata"].setdefault("labels", {})
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = generation
    labels[REVISION_LABEL] = hash_
    pod["spec"] = daemon_pod_spec(pod["spec"], node_name)
    return pod


def is_updated(pod: Document, hash_: str, generation: str | None) -> bool:
    """Return whether a pod was made from the template as it is now."""
    labels = labels_of(pod)
    by_generation = generation is not None and labels.get(GENERATION_LABEL) == generation
    return by_generation or (bool(hash_) and labels.get(REVISION_LABEL) == hash_)


def by_node(pods: Iterable[Document]) -> dict[str, list[Document]]:
    """Return pods by the node they are for."""
    found: dict[str, list[Document]] = {}
    for pod in pods:
        node_name = target_node(pod)
        if node_name is not None:
            found.setdefault(node_name, []).append(pod)
    return found


def oldest_first(pod: Document) -> tuple[Any, ...]:
    """Sort pods that have a node first, then by age.

    Parity: daemon_controller.go podByCreationTimestampAndPhase, v1.36.
    """
    return (
        not pod["spec"].get("nodeName"),
        pod["metadata"].get("creationTimestamp") or "",
        name_of(pod),
    )
