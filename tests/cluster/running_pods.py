"""Pods and their statuses, for tests of kubelets."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched import testing
from tests.cluster.conftest import World

Document = dict[str, Any]


@pytest.fixture
def own(world: World) -> World:
    """Return a world with our own kubelets."""
    if world.controllers == "real":
        pytest.skip("KWOK's kubelets do not know this")
    return world


def a_pod(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Document:
    prefixed = {f"kubesched.dev/{key}": value for key, value in (annotations or {}).items()}
    return testing.a_pod(name, image="registry.example/web:1", annotations=prefixed, **spec)


def a_command(*arguments: str, name: str = "main") -> Document:
    return {"name": name, "image": "busybox", "command": list(arguments)}


def pod_of(world: World, name: str) -> Document:
    return world.get(world.path("pods", name))


def phase_of(world: World, name: str) -> str:
    return str(pod_of(world, name).get("status", {}).get("phase", ""))


def until_phase(world: World, name: str, phase: str) -> Document:
    world.until(lambda: phase_of(world, name) == phase, f"{name} is {phase}")
    return pod_of(world, name)


def conditions_of(pod: Document) -> dict[str, Document]:
    return {condition["type"]: condition for condition in pod["status"].get("conditions", [])}


def is_ready(world: World, name: str) -> bool:
    pod = pod_of(world, name)
    return bool(pod) and conditions_of(pod).get("Ready", {}).get("status") == "True"


def until_ready(world: World, name: str) -> Document:
    world.until(lambda: is_ready(world, name), f"{name} is ready")
    return pod_of(world, name)
