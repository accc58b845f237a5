"""An API client with scripted answers that records its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubesched.framework.handle import ApiCallError

Request = tuple[str, str, Any]
"""Verb, `resource namespace/name`, and body."""


def not_found(name: str, resource: str = "pods") -> ApiCallError:
    return ApiCallError(f'{resource} "{name}" not found', code=404, reason="NotFound")


def conflict(name: str, resource: str) -> ApiCallError:
    text = (
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return ApiCallError(text, code=409, reason="Conflict")


class ScriptedApi:
    """Has no objects: requests are recorded, and fail or succeed by their verb and name."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.failures: dict[tuple[str, str], Exception] = {}
        """By verb and name."""
        self.on_request: Callable[[str, str], None] = lambda verb, name: None
        """Called with verb and name before the answer."""
        self.version = 100

    @property
    def verbs(self) -> list[str]:
        """Return the requests without their bodies."""
        return [f"{verb} {key}" for verb, key, _ in self.requests]

    def _answer(self, verb: str, resource: str, namespace: str, name: str, sent: Any) -> None:
        key = f"{namespace}/{name}" if namespace else name
        self.requests.append((verb, f"{resource} {key}", sent))
        self.on_request(verb, name)
        failure = self.failures.get((verb, name))
        if failure is not None:
            raise failure

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        self._answer("bind", "pods", namespace, name, (uid, node_name))

    async def patch_pod_status(
        self, *, namespace: str, name: str, patch: Mapping[str, Any], uid: str = ""
    ) -> None:
        self._answer("patch", "pods/status", namespace, name, patch)

    async def delete_pod(self, *, namespace: str, name: str) -> None:
        self._answer("delete", "pods", namespace, name, None)

    async def get_object(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        self._answer("get", resource, namespace, name, None)
        return {"metadata": {"name": name, "resourceVersion": str(self.version)}}

    async def update_object(self, resource: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        meta = obj["metadata"]
        self._answer("update", resource, meta.get("namespace", ""), meta["name"], obj)
        return dict(obj)

    async def patch_object(
        self, resource: str, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        self._answer("patch", resource, namespace, name, patch)
        self.version += 1
        return {"metadata": {"name": name, "resourceVersion": str(self.version)}}
