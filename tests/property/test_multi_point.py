"""Enabling a plugin at `multiPoint` and at each of its points by name gives the same profile."""

from typing import Any

import pytest

from kubesched.config.load import load_config_object
from kubesched.framework.interface import EXTENSION_POINTS, points_of
from kubesched.framework.runtime.profile import Profile
from kubesched.plugins.in_tree import IN_TREE
from kubesched.profile.build import build
from tests.unit.builders import a_config

ALL: list[dict[str, str]] = [{"name": "*"}]
PLUGINS: dict[str, Any] = {name: record.plugin for name, record in IN_TREE.items()}


def profile(plugins: dict[str, Any]) -> Profile:
    return build(load_config_object(a_config(plugins))).profiles["default-scheduler"]


def names(*plugins: str) -> list[dict[str, str]]:
    return [{"name": plugin} for plugin in plugins]


@pytest.mark.parametrize("name", PLUGINS)
def test_both_forms_give_the_same_profile(name: str) -> None:
    # A profile cannot do without these two.
    needed = [plugin for plugin in ("PrioritySort", "DefaultBinder") if plugin != name]
    at_once = profile({"multiPoint": {"disabled": ALL, "enabled": names(*needed, name)}})
    points = sorted(points_of(PLUGINS[name]))
    by_name: dict[str, Any] = {point: {"enabled": names(name)} for point in points}
    by_name["multiPoint"] = {"disabled": ALL, "enabled": names(*needed)}
    singly = profile(by_name)
    assert points
    for point in EXTENSION_POINTS:
        assert at_once.plugin_names(point) == singly.plugin_names(point)
        assert (name in at_once.plugin_names(point)) is (point in points)
    assert at_once.list_plugins() == singly.list_plugins()


def test_the_whole_default_set_named_point_by_point_is_the_default_profile() -> None:
    usual = profile({})
    by_name: dict[str, Any] = {
        point: {
            "enabled": [
                {"name": name, "weight": weight} if weight else {"name": name}
                for name, weight in plugins
            ]
        }
        for point, plugins in usual.list_plugins().items()
    }
    by_name["multiPoint"] = {"disabled": ALL}
    assert profile(by_name).list_plugins() == usual.list_plugins()
