"""The nodes that a playground begins with.

Owns their names, labels and amounts, and how a user's template becomes many. That they are alive is
kubelet's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from kubesched.testing.builders import ROOM, Document

ZONES: Final = ("a", "b", "c")


class TemplateError(ValueError):
    """A node template that no node can be made of; the text says why."""


def node_documents(count: int, template: Mapping[str, Any] | None = None) -> list[Document]:
    """Return so many nodes, of a template where one is given.

    A template is a Node: its labels, taints, amounts and everything else are taken over. `%d` in
    its name is the node's number; without it the number is put behind the name.
    """
    return [node_document(number, template) for number in range(1, count + 1)]


def node_document(number: int, template: Mapping[str, Any] | None = None) -> Document:
    """Return one node."""
    node: Document = copy.deepcopy(dict(template or {}))
    node.update(apiVersion="v1", kind="Node")
    metadata = node.setdefault("metadata", {})
    metadata["name"] = name = _name(str(metadata.get("name", "node")), number)
    zone = ZONES[(number - 1) % len(ZONES)]
    metadata["labels"] = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "playground",
        "topology.kubernetes.io/zone": f"zone-{zone}",
        **(metadata.get("labels") or {}),
        "kubernetes.io/hostname": name,
    }
    status = node.setdefault("status", {})
    status["capacity"] = {**ROOM, **(status.get("capacity") or {})}
    status["allocatable"] = {**status["capacity"], **(status.get("allocatable") or {})}
    return node


def template_of(document: object) -> Document:
    """Return a node template; TemplateError unless it is a Node."""
    if not isinstance(document, Mapping):
        raise TemplateError("it holds no Node")
    kind = document.get("kind", "Node")
    if kind != "Node":
        raise TemplateError(f"it holds a {kind}, not a Node")
    metadata = document.get("metadata") or {}
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if metadata.get(key)}
    spec = document.get("spec") or {}
    status = document.get("status") or {}
    return {
        "metadata": kept,
        "spec": {key: spec[key] for key in ("taints", "unschedulable") if spec.get(key)},
        "status": {
            key: status[key] for key in ("capacity", "allocatable", "images") if status.get(key)
        },
    }


def _name(pattern: str, number: int) -> str:
    return pattern.replace("%d", str(number)) if "%d" in pattern else f"{pattern}-{number}"
