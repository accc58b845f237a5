"""Roles and bindings that a new cluster has.

Owns the reading of the data; whoever builds the server stores them.
Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
"""

from __future__ import annotations

import gzip
from importlib import resources

import msgspec

from kubesched.apiserver.documents import Document


def bootstrap_objects() -> list[Document]:
    """Return the cluster roles, roles and bindings, without uid and version."""
    data = resources.files("kubesched.apiserver").joinpath("data/rbac.json.gz").read_bytes()
    found: list[Document] = msgspec.json.decode(gzip.decompress(data))
    return found
