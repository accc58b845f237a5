"""Clusters recorded from real Kubernetes, with some pending pods.

Owns the recorded files, in which kube-scheduler placed the workloads, and the loading of these or
other recordings: Lists as `kubectl get -o json` prints them, which `kubesched playground
--snapshot` and `kubesched explain -f` read, too. Every call returns new objects.

    cluster.add(*recorded("gpu-pool"))
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from kubesched.api.builders import Document
from kubesched.api.decode import STRUCTS

RECORDED: Final = ("edge-sites", "gpu-pool", "web-shop")
"""The recordings: `edge-sites`, a small cloud and five edge sites, of two architectures, one
unreachable; `gpu-pool`, GPUs behind a taint with workloads of three priorities; `web-shop`, three
zones, volumes, a budget, a cordoned node and a spot node."""

_PLACE: Final = Path(__file__).parent / "clusters"
# Read when a pod is created, not by schedulers.
_NOT_READ: Final = ("PriorityClass",)


def recorded(name: str | os.PathLike[str]) -> list[Document]:
    """Return the objects of a recorded cluster that schedulers read.

    Args:
        name: one of `RECORDED`, or a file written by `kubesched playground --from-cluster
            --snapshot FILE` or `kubectl get nodes,pods -A -o json`.
    """
    path = recorded_path(name)
    try:
        document = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as problem:
        raise ValueError(f"{path} holds no recorded cluster: {problem}") from None
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise ValueError(f"{path} holds no recorded cluster: it has no list of items")
    return [item for item in items if _is_read(item)]


def recorded_path(name: str | os.PathLike[str]) -> Path:
    """Return the file of a recorded cluster, with all its objects.

    Raises:
        FileNotFoundError: There is no recording and no file with that name.
    """
    path = _PLACE / f"{name}.json" if name in RECORDED else Path(name)
    if not path.is_file():
        names = ", ".join(RECORDED)
        raise FileNotFoundError(f"{name} is neither a recorded cluster ({names}) nor a file")
    return path


def waiting_pods(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the pending pods, as `namespace/name`."""
    return [
        f"{document['metadata'].get('namespace', 'default')}/{document['metadata']['name']}"
        for document in documents
        if document["kind"] == "Pod" and not document["spec"].get("nodeName")
    ]


def _is_read(document: Mapping[str, Any]) -> bool:
    kind = document.get("kind")
    return (document.get("apiVersion"), kind) in STRUCTS and kind not in _NOT_READ
