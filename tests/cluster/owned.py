"""Objects with owner references, and a custom resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.cluster.conftest import World

Document = dict[str, Any]
HOLD = "example.com/hold"
MERGE_PATCH = "application/merge-patch+json"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def a_config_map(name: str, *owners: Mapping[str, Any], **metadata: Any) -> Document:
    """Return a ConfigMap, owned by references."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": list(owners), **metadata},
        "data": {"key": "value"},
    }


def owner(document: Mapping[str, Any], **fields: Any) -> Document:
    """Return the reference to an owner."""
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
        **fields,
    }


@contextmanager
def custom_kind(world: World) -> Iterator[str]:
    """Define a kind Fruit during the block; yield its group."""
    group = f"{world.namespace}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"fruits.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "fruits", "singular": "fruit", "kind": "Fruit"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
    world.api.post(_DEFINITIONS, definition).must(201)
    fruits = world.path("fruits", group=f"{group}/v1")
    world.until(lambda: world.api.get(fruits).code == 200, "the kind is served")
    yield group
    world.api.delete(f"{_DEFINITIONS}/fruits.{group}").must(200, 404)
