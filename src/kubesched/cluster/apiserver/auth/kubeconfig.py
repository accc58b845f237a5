"""Writes a kubeconfig for this server.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/api/v1/types.go
"""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

import yaml

from kubesched.cluster.apiserver.documents import Document

_NAME = "kubesched"


def kubeconfig(url: str, *, token: str = "", ca_pem: bytes = b"", user: str = "admin") -> Document:
    """Return a kubeconfig with one cluster, one user and one context.

    Args:
        url: the URL of the server.
        token: the user's bearer token; empty without authentication.
        ca_pem: the CA that signed the server's certificate; empty without TLS.
        user: the name of the user entry.
    """
    cluster: Document = {"server": url}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": user}}],
        "current-context": _NAME,
    }


def write_kubeconfig(path: Path, document: Document) -> None:
    """Write a kubeconfig atomically, readable only by its owner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            yaml.safe_dump(document, stream, sort_keys=False)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
