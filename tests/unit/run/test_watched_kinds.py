"""The kinds that a configuration watches."""

from __future__ import annotations

from typing import Any

from kubesched.client.resources import STORAGE_CLASSES, VOLUME_ATTACHMENTS, Resource
from kubesched.config.load import load_config_object
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.interface import EventRegistration
from kubesched.framework.runtime.registry import Registry
from kubesched.framework.status import Status
from kubesched.profile.build import build
from kubesched.run.watched_kinds import registered_resource, watched_resources
from tests.unit.builders import a_config, built_with

_NEEDED = ("PrioritySort", "DefaultBinder")


class Listener:
    """Registers for a few kinds."""

    name = "Listener"

    def __init__(self, args: object, handle: Any) -> None:
        self._handle = handle

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None

    def events_to_register(self) -> list[EventRegistration]:
        kinds = (EventResource.STORAGE_CLASS, "foos.v1.example.com", "Node", "Pod", "odd")
        return [EventRegistration(ClusterEvent(kind, ActionType.ADD)) for kind in kinds]


def watched(*plugins: str) -> list[str]:
    """Return the kinds that a profile with only these plugins watches."""
    enabled = [{"name": name} for name in (*_NEEDED, *plugins)]
    config = a_config({"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}})
    registry = Registry({Listener.name: Listener})
    built = build(load_config_object(config), out_of_tree=registry)
    return [kind.plural for kind in watched_resources(built.profiles.values())]


def test_few_plugins_watch_few_kinds() -> None:
    assert watched() == ["pods", "nodes", "namespaces", "csinodes"]


def test_kinds_that_an_out_of_tree_plugin_registers_for_are_watched() -> None:
    assert watched("Listener") == [
        "pods",
        "nodes",
        "namespaces",
        "csinodes",
        "storageclasses",
        "foos",
    ]


def test_registrations_of_in_tree_plugins_add_no_watch() -> None:
    # NodeResourcesFit registers for classes of devices, and reads none.
    assert watched("NodeResourcesFit") == watched()
    kinds = watched_resources(built_with(Listener).profiles.values())
    assert len(kinds) == len(set(kinds))
    assert {STORAGE_CLASSES, VOLUME_ATTACHMENTS} <= set(kinds)
    assert not any(kind.group == "resource.k8s.io" for kind in kinds)


def test_names_of_events_and_their_kinds() -> None:
    assert registered_resource("storage.k8s.io/StorageClass") == STORAGE_CLASSES
    assert registered_resource("foos.v1.example.com") == Resource(
        "example.com", "v1", "foos", kind="foos"
    )
    for name in ("Pod", "Node", "*", "foos.v1", "foos", "a/b.c.d"):
        assert registered_resource(name) is None
