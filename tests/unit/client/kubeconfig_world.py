"""Builders of kubeconfigs."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kubesched.cluster.apiserver.auth.certificates import Authority, Pair, new_authority
from kubesched.kit.clock import SystemClock

SERVER = "https://cluster.test:6443"


@cache
def authority() -> Authority:
    """Return the certificate authority of a test run."""
    return new_authority(SystemClock().now_s())


def client_pair(user: str = "jane") -> Pair:
    """Return a client certificate of the authority."""
    return authority().client(user, ["people"], SystemClock().now_s())


def encoded(data: bytes) -> str:
    """Return the value of a `-data` field."""
    return base64.b64encode(data).decode()


def document(
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    current: str = "x",
    **more: Any,
) -> dict[str, Any]:
    """Return a kubeconfig of one cluster and one user."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": current,
        **more,
    }


def written(path: Path, content: dict[str, Any] | str) -> str:
    """Write a kubeconfig and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def rejected_cases() -> list[dict[str, Any]]:
    """Return kubeconfigs that kube-scheduler rejects, with its error texts."""
    cases = yaml.safe_load(Path(__file__).with_name("rejected_kubeconfigs.yaml").read_text())
    for case in cases:
        if "text" in case:
            case["file"] = case["text"]
        else:
            changes = {**document(cluster=case.get("cluster"), user=case.get("user"))}
            case["file"] = {**changes, **case.get("more", {})}
    return list(cases)
