"""Validates embedded resources: apiVersion, kind and metadata inside an instance.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/validation.go
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import Problem, invalid, required
from kubesched.cluster.apiserver.metadata import create_problems
from kubesched.cluster.apiserver.names import dns_1035_problems, path_segment_problems
from kubesched.cluster.apiserver.strategy import Strategy

Schema = dict[str, Any]


class _AnyName(Strategy):
    """Strategy that accepts any path segment as a name."""

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        return path_segment_problems(name, is_prefix=is_prefix)


_ANY_NAME = _AnyName()


def embedded_problems(value: Any, schema: Schema | None, path: str = "") -> list[Problem]:
    """Validate embedded resources; return the errors."""
    if schema is None:
        return []
    problems: list[Problem] = []
    if isinstance(value, dict):
        if path and schema.get("x-kubernetes-embedded-resource"):
            problems += _resource_problems(value, path)
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for key, one in value.items():
            if key in properties:
                below = f"{path}.{key}" if path else key
                problems += embedded_problems(one, properties[key], below)
            elif isinstance(extra, dict):
                problems += embedded_problems(one, extra, f"{path}[{key}]")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            problems += embedded_problems(one, schema.get("items"), f"{path}[{index}]")
    return problems


def _resource_problems(value: Document, path: str) -> list[Problem]:
    problems = [
        required(f"{path}.{key}") for key in ("apiVersion", "kind") if value.get(key) is None
    ]
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if api_version == "":
        problems.append(invalid(f"{path}.apiVersion", "", "must not be empty"))
    elif isinstance(api_version, str) and api_version.count("/") > 1:
        text = f"unexpected GroupVersion string: {api_version}"
        problems.append(invalid(f"{path}.apiVersion", api_version, text))
    if kind == "":
        problems.append(invalid(f"{path}.kind", "", "must not be empty"))
    elif isinstance(kind, str) and (wrong := dns_1035_problems(kind.lower())):
        text = "may have mixed case, but should otherwise match: " + ",".join(wrong)
        problems.append(invalid(f"{path}.kind", kind, text))
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        document = {"metadata": {"name": "fakename", **metadata}}
        is_namespaced = bool(metadata.get("namespace"))
        for problem in create_problems(document, _ANY_NAME, is_namespaced=is_namespaced):
            place = f"{path}.{problem.path}"
            problems.append(Problem(problem.type, place, problem.value, problem.detail))
    return problems
