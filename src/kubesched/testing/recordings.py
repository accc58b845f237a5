"""Clusters taken down from real Kubernetes, with pods that still wait.

Owns the files beside it, in which kube-scheduler placed the workloads, and how a test gets at them
or at a recording of its own: a List as `kubectl get -o json` prints it, which `kubesched playground
--snapshot` and `kubesched explain -f` read too. Never changes one: every call returns objects of
its own.

    cluster.add(*recorded("gpu-pool"))
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from kubesched.objects.decode import KINDS
from kubesched.testing.builders import Document

RECORDED: Final = ("edge-sites", "gpu-pool", "web-shop")
"""What is recorded: `edge-sites`, a small cloud and five sites at the edge, of two architectures,
one out of reach; `gpu-pool`, GPUs behind a taint with work of three priorities; `web-shop`, three
zones, volumes, a budget, a cordoned node and one that may vanish."""

_PLACE: Final = Path(__file__).parent / "clusters"
# Read when a pod is created, and by no scheduler afterwards.
_NOT_READ: Final = ("PriorityClass",)


def recorded(name: str | os.PathLike[str]) -> list[Document]:
    """Return the objects of a recorded cluster that schedulers look at.

    Args:
        name: one of `RECORDED`, or a file of one's own, such as `kubesched playground
            --from-cluster --snapshot FILE` and `kubectl get nodes,pods -A -o json` write it.
    """
    path = recorded_path(name)
    try:
        document = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as problem:
        raise ValueError(f"{path} holds no recorded cluster: {problem}") from None
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise ValueError(f"{path} holds no recorded cluster: it has no list of items")
    return [one for one in items if _is_read(one)]


def recorded_path(name: str | os.PathLike[str]) -> Path:
    """Return the file of a recorded cluster, with all that was there.

    Raises:
        FileNotFoundError: There is none of that name, and no such file.
    """
    path = _PLACE / f"{name}.json" if name in RECORDED else Path(name)
    if not path.is_file():
        known = ", ".join(RECORDED)
        raise FileNotFoundError(f"{name} is neither a recorded cluster ({known}) nor a file")
    return path


def waiting_pods(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the pods that wait for a node, as `namespace/name`."""
    return [
        f"{one['metadata'].get('namespace', 'default')}/{one['metadata']['name']}"
        for one in documents
        if one["kind"] == "Pod" and not one["spec"].get("nodeName")
    ]


def _is_read(document: Mapping[str, Any]) -> bool:
    kind = document.get("kind")
    return (document.get("apiVersion"), kind) in KINDS and kind not in _NOT_READ
