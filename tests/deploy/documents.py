"""The objects of deploy/ in each of its forms: plain files, kustomize, the Helm chart.

Owns the reading of each form. Expected values are never computed here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from kubesched.cluster.launch.programs import Programs

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "kubesched"

Document = dict[str, Any]
Documents = dict[str, list[Document]]


def plain(folder: str) -> Documents:
    """Return the documents that `kubectl apply -f` reads from a folder."""
    texts = [path.read_text() for path in sorted((DEPLOY / folder).glob("*.yaml"))]
    return by_kind(one for text in texts for one in yaml.safe_load_all(text))


def kustomized(folder: Path) -> Documents:
    """Return the documents of `kubectl apply -k`."""
    return by_kind(yaml.safe_load_all(_printed("kubectl", "kustomize", str(folder))))


def rendered(release: str, *arguments: str) -> Documents:
    """Return the documents of `helm install`."""
    # Without a cluster, helm would assume an old version.
    flags = ("--namespace=kube-system", "--kube-version=v1.36.4", *arguments)
    text = _printed("helm", "template", release, str(CHART), *flags)
    return by_kind(yaml.safe_load_all(text))


def by_kind(documents: Iterable[Document | None]) -> Documents:
    """Return objects by kind, in an order that depends on their names alone."""
    found: Documents = {}
    for one in documents:
        if one:
            found.setdefault(one["kind"], []).append(one)
    for objects in found.values():
        objects.sort(
            key=lambda one: (one["metadata"].get("namespace", ""), one["metadata"]["name"])
        )
    return found


def _printed(program: str, *arguments: str) -> str:
    completed = subprocess.run(
        [Programs.built().path(program), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout
