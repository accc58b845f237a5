"""A kind is added by one table entry: it is decoded, watched, stored and turned into events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from kubesched.api.decode import decode_object
from kubesched.api.kinds import KINDS, EventRole, Kind, watched
from kubesched.api.meta import KubeResource
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration
from kubesched.framework.runtime.enqueue import any_event
from kubesched.framework.status import Status, unschedulable
from kubesched.plugins.in_tree import IN_TREE
from kubesched.plugins.record import InTreePlugin
from kubesched.run.options.values import Options
from kubesched.run.rbac import needed_rights
from kubesched.snapshot.object_store import ObjectStores
from tests.unit.builders import Wire, a_config
from tests.unit.scheduler.live_world import World

READER = "WidgetReader"


class BlueWidget(KubeResource, frozen=True, kw_only=True):
    """A kind for these tests only."""

    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "BlueWidget"
    namespaced: ClassVar[bool] = False

    size: int = 0
    color: str = ""


class WidgetReader:
    """Rejects every pod, and registers for widgets."""

    name = READER
    hint_calls: ClassVar[list[tuple[int, int]]] = []

    def filter(self, state: Any, pod: Any, node: Any) -> Status:
        return unschedulable("no widget")

    def events_to_register(self) -> list[EventRegistration]:
        event = ClusterEvent("bluewidgets.v1.example.com", ActionType.ADD | ActionType.UPDATE)
        return [EventRegistration(event, self._hint)]

    def _hint(self, pod: Any, old: BlueWidget | None, new: BlueWidget) -> QueueingHint:
        self.hint_calls.append((old.size if old else 0, new.size))
        return QueueingHint.QUEUE


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    """Add the kind, and a plugin that reads it."""
    entry = watched(BlueWidget, "bluewidgets", rules_read=lambda widget: widget.size)
    KINDS.add(entry)
    record = InTreePlugin(plugin=WidgetReader, watches=(BlueWidget,))
    monkeypatch.setitem(IN_TREE, READER, record)
    WidgetReader.hint_calls.clear()
    yield entry
    KINDS.remove(entry)


def a_widget(size: int) -> Wire:
    metadata = {"name": "it", "uid": "uid-it"}
    return {
        "apiVersion": BlueWidget.api_version,
        "kind": BlueWidget.kind,
        "metadata": metadata,
        "size": size,
    }


def test_it_is_decoded(kind: Kind) -> None:
    widget = decode_object(a_widget(3))
    assert isinstance(widget, BlueWidget)
    assert widget.size == 3


def test_it_has_a_store_whose_epoch_follows_relevant_changes(kind: Kind) -> None:
    stores = ObjectStores()
    store = stores.store_of(BlueWidget)
    assert getattr(stores, "blue_widgets") is store  # noqa: B009 - by name, as `Reads.objects`
    store.put("it", BlueWidget(size=1))
    seen = store.epoch
    store.put("it", BlueWidget(size=1, color="dark"))
    assert store.epoch == seen
    store.put("it", BlueWidget(size=2))
    assert store.epoch > seen


def test_it_is_watched_stored_and_turned_into_events(kind: Kind) -> None:
    world = World(config=a_config({"multiPoint": {"enabled": [{"name": READER}]}}))
    assert kind.resource in world.live.resources
    rights = needed_rights(world.live.built, Options(config=world.live.built.config))
    (right,) = [right for right in rights if right.resource == "bluewidgets"]
    assert (right.group, right.verbs) == ("example.com", ("get", "list", "watch"))
    world.reject("waiting", READER)
    world.show("ADDED", a_widget(1), kind.resource)
    world.show("MODIFIED", a_widget(2), kind.resource)
    assert WidgetReader.hint_calls[0] == (0, 1)
    stored = world.cache.stored(BlueWidget, "it")
    assert isinstance(stored, BlueWidget)
    assert stored.size == 2
    assert world.where("waiting") == "Backoff"
    world.show("DELETED", a_widget(2), kind.resource)
    assert world.cache.stored(BlueWidget, "it") is None


def test_it_may_wake_pods_of_plugins_without_registrations() -> None:
    entry = watched(BlueWidget, "bluewidgets", EventRole.WAKING)
    before = any_event()
    KINDS.add(entry)
    try:
        assert [entry.event.resource for entry in any_event()] == [
            *(entry.event.resource for entry in before),
            "example.com/BlueWidget",
        ]
    finally:
        KINDS.remove(entry)
    assert any_event() == before


def test_the_table_names_events_as_upstream() -> None:
    named = {kind.event for kind in KINDS if kind.events is not EventRole.CUSTOM}
    pods_and_others = {
        EventResource.ASSIGNED_POD,
        EventResource.UNSCHEDULABLE_POD,
        EventResource.POD_GROUP,
        EventResource.WILDCARD,
    }
    assert named == set(EventResource) - pods_and_others
