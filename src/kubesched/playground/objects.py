"""Objects of a cluster, for those who work with many kinds.

Owns where a document of any kind is created, as the server itself tells, and what makes a node
ready. Never changes a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.testing.http import Api

Document = dict[str, Any]


class ObjectPaths:
    """Finds the collection of a document."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, dict[str, tuple[str, bool]]] = {}

    def of(self, document: Mapping[str, Any], namespace: str = "default") -> str:
        """Return the path to create a document at; KeyError for a kind that is not served."""
        version, kind = str(document["apiVersion"]), str(document["kind"])
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural, is_namespaced = self._kinds(root)[kind]
        if not is_namespaced:
            return f"{root}/{plural}"
        place = document.get("metadata", {}).get("namespace") or namespace
        return f"{root}/namespaces/{place}/{plural}"

    def _kinds(self, root: str) -> dict[str, tuple[str, bool]]:
        if root not in self._known:
            served = self._api.get(root).must(200).json["resources"]
            self._known[root] = {
                one["kind"]: (one["name"], one["namespaced"])
                for one in served
                if "/" not in one["name"]
            }
        return self._known[root]


def is_ready_node(node: Mapping[str, Any]) -> bool:
    """Return whether a node says that it is ready, and has no taint that says otherwise."""
    taints = node.get("spec", {}).get("taints") or ()
    if any(one["key"].startswith("node.kubernetes.io/not-ready") for one in taints):
        return False
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
