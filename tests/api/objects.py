"""Builders of small objects and of their paths."""

from __future__ import annotations

import time
from typing import Any

from kubesched.testing import Api

Document = dict[str, Any]


def config_map(name: str, **metadata: Any) -> Document:
    """Return a config map."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"k": "v"},
    }


def pod(name: str, *, node: str | None = None, **metadata: Any) -> Document:
    """Return a pod, bound to a node if one is named."""
    spec: Document = {"containers": [{"name": "c", "image": "img"}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def definition(namespace: str, **version: Any) -> Document:
    """Return the definition of a kind Thing in a group that is the test's own."""
    group = f"{namespace}.example.com"
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "default": 3},
                    "color": {"type": "string", "enum": ["red", "blue"]},
                    "parts": {"type": "array", "items": {"type": "string"}},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "shortNames": [f"th{namespace}"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


def make_things(api: Api, namespace: str, **version: Any) -> str:
    """Define the kind Thing, wait until it is served and return the path of things."""
    body = definition(namespace, **version)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.post(definitions, body).must(201)
    path = f"/apis/{body['spec']['group']}/v1/namespaces/{namespace}/things"
    for _ in range(200):
        document = api.get(f"{definitions}/{body['metadata']['name']}").must(200).json
        states = {
            condition["type"]: condition["status"]
            for condition in document["status"].get("conditions") or []
        }
        if states.get("Established") == "True" and api.get(path).code == 200:
            return path
        time.sleep(0.05)
    raise AssertionError(f"the kind was not served: {document['status']}")


def config_maps(namespace: str, name: str = "") -> str:
    """Return the path of config maps, or of one."""
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def pods(namespace: str, name: str = "") -> str:
    """Return the path of pods, or of one."""
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def version_of(document: Document) -> str:
    """Return the resourceVersion."""
    return str(document["metadata"]["resourceVersion"])


def name_of(document: Document) -> str:
    """Return the name."""
    return str(document["metadata"]["name"])
