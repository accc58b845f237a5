"""An in-tree plugin is added by one record; its options, rights and events follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubesched.api.storage import StorageClass
from kubesched.config.advice import advice_for
from kubesched.config.defaults import DEFAULT_PLUGINS
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config_object
from kubesched.explanation.attempt_record import attempt
from kubesched.explanation.counterfactual import changes_for
from kubesched.explanation.report import Change
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.interface import EventRegistration, points_of
from kubesched.framework.status import Status, unschedulable
from kubesched.plugins.in_tree import IN_TREE, IN_TREE_NAMES
from kubesched.plugins.pod_changes import PodChange, RejectedPod, with_spec
from kubesched.plugins.record import InTreePlugin, Write
from kubesched.profile.build import Built, build
from kubesched.profile.plugin_catalog import listed_plugins
from kubesched.run.options.parse import parse_options
from kubesched.run.options.values import Options
from kubesched.run.rbac import needed_rights
from kubesched.run.watched_kinds import watched_resources
from tests.unit.builders import a_cluster, a_config, a_node, a_pod

NAME = "NodeLicense"
RIGHT = Write("example.com", "licenses/status", ("patch",), "counting licenses (NodeLicense)")


class NodeLicenseArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Arguments of the plugin."""

    runtime_class: str = "licensed"


class NodeLicense:
    """Rejects every node for pods of a runtime class."""

    name = NAME

    def __init__(self, args: NodeLicenseArgs, handle: Any) -> None:
        self.runtime_class = args.runtime_class

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        is_licensed = pod.object.spec.runtime_class_name == self.runtime_class
        return unschedulable("no license") if is_licensed else None

    def events_to_register(self) -> list[EventRegistration]:
        return [EventRegistration(ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD))]


def without_runtime_class(rejected: RejectedPod) -> Iterator[PodChange]:
    def edit(pod: Any) -> Any:
        return with_spec(pod, msgspec.structs.replace(pod.object.spec, runtime_class_name=None))

    text = f"without the runtime class {rejected.plugin.runtime_class}"
    yield PodChange("runtime-class", "spec.runtimeClassName", text, edit)


@pytest.fixture(autouse=True)
def _record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the plugin."""
    record = InTreePlugin(
        plugin=NodeLicense,
        args=NodeLicenseArgs,
        watches=(StorageClass,),
        writes=(RIGHT,),
        pod_changes=without_runtime_class,
    )
    monkeypatch.setitem(IN_TREE, NAME, record)


def enabled(**args: str) -> Built:
    """Return a profile with the plugin and what every profile needs."""
    names = [{"name": name} for name in ("PrioritySort", "DefaultBinder", NAME)]
    config = a_config({"multiPoint": {"disabled": [{"name": "*"}], "enabled": names}})
    config["profiles"][0]["pluginConfig"] = [{"name": NAME, "args": args}] if args else []
    return build(load_config_object(config))


def test_the_plugin_is_built_with_its_arguments_and_not_sandboxed() -> None:
    built = enabled(runtimeClass="other")
    assert built.profiles["default-scheduler"].plugins[NAME].runtime_class == "other"
    assert built.out_of_tree == frozenset()
    assert enabled().profiles["default-scheduler"].plugins[NAME].runtime_class == "licensed"


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises((ConfigError, ValueError), match="runtimeclas"):
        enabled(runtimeclas="other")


def test_the_plugin_is_listed_with_its_arguments() -> None:
    (listed,) = [plugin for plugin in listed_plugins() if plugin.name == NAME]
    assert (listed.origin, listed.extension_points) == ("in-tree", ("filter",))
    assert listed.args is not None
    assert [(field.name, field.default) for field in listed.args.fields] == [
        ("runtimeClass", "licensed")
    ]


def test_its_kinds_are_watched_and_its_permissions_granted() -> None:
    built = enabled()
    watched = [kind.plural for kind in watched_resources(built.profiles.values())]
    assert watched == ["pods", "nodes", "namespaces", "csinodes", "storageclasses"]
    rights = needed_rights(built, Options(config=built.config))
    purposes = {right.title: right.purpose for right in rights}
    assert purposes["storageclasses.storage.k8s.io"] == f"read by {NAME}"
    assert purposes["licenses.example.com/status"] == RIGHT.purpose
    default = needed_rights(build(parse_options([]).config), parse_options([]))
    assert RIGHT.resource not in {right.resource for right in default}


def test_its_queueing_hints_requeue_pods() -> None:
    registered = enabled().profiles["default-scheduler"].event_registrations()
    assert [entry.event.label for entry in registered[NAME] or ()] == [
        "storage.k8s.io/StorageClassAdd"
    ]


def test_a_misspelt_name_is_corrected() -> None:
    error = ConfigError("build", 'FilterPlugin "NodeLicence" does not exist')
    (hint,) = advice_for("", error, IN_TREE_NAMES)
    assert hint == "there is no plugin NodeLicence, did you mean NodeLicense?"


def explained(pod: Any) -> tuple[Change, ...]:
    built, view = enabled(), a_cluster([a_node("a")])
    profile = built.profiles["default-scheduler"]
    built.handles[profile.name].view = view
    return changes_for(attempt(profile, view, pod))


def test_its_counterfactuals_are_tried() -> None:
    changes = explained(a_pod(runtimeClassName="licensed"))
    assert [(change.kind, change.plugin, change.text, change.nodes) for change in changes] == [
        ("runtime-class", NAME, "without the runtime class licensed", ("a",)),
        ("plugin", NAME, f"without {NAME}", ("a",)),
    ]
    assert explained(a_pod()) == ()


def test_default_plugins_have_records_and_those_with_a_weight_score() -> None:
    for plugin in DEFAULT_PLUGINS.multi_point.enabled:
        record = IN_TREE[plugin.name]
        assert not plugin.weight or "score" in points_of(record.plugin), plugin.name


def test_each_record_has_the_name_of_its_plugin() -> None:
    assert all(name == record.name == record.plugin.name for name, record in IN_TREE.items())
