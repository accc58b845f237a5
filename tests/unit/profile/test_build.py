"""Profiles of a configuration: their plugins, their arguments, and their common queue sort."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config_object
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.handle import Handle
from kubesched.framework.runtime.registry import Registry
from kubesched.profile.build import build


def a_config(*profiles: dict[str, Any]) -> KubeSchedulerConfiguration:
    return load_config_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles),
        }
    )


def enabling(*names: str) -> dict[str, Any]:
    """Return plugin sets with these plugins alone."""
    enabled = [{"name": name} for name in names]
    return {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}


def rejection(config: KubeSchedulerConfiguration, **plugins: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        build(config, out_of_tree=Registry(plugins))
    assert caught.value.stage == "build"
    return str(caught.value)


class Sort:
    def __init__(self, args: Any) -> None:
        self.args = args

    def less(self, first: Any, second: Any) -> bool:
        return False


def test_the_arguments_of_enabled_plugins_are_kept_in_name_order() -> None:
    plugins = enabling("PrioritySort", "DefaultBinder", "NodeResourcesFit", "InterPodAffinity")
    built = build(a_config({"plugins": plugins}))
    profile = built.profiles["default-scheduler"]
    assert list(profile.plugins) == [
        "DefaultBinder",
        "InterPodAffinity",
        "NodeResourcesFit",
        "PrioritySort",
    ]
    assert [entry.name for entry in built.config.profiles[0].plugin_config] == [
        "InterPodAffinity",
        "NodeResourcesFit",
    ]
    assert profile.plugin_names("filter") == ("NodeResourcesFit", "InterPodAffinity")


@pytest.mark.parametrize(
    ("problem", "text"), [(ValueError("no"), "no"), (KeyError("no"), "KeyError: 'no'")]
)
def test_an_error_of_a_constructor_names_profile_and_plugin(problem: Exception, text: str) -> None:
    def make_broken() -> None:
        raise problem

    plugins = enabling("PrioritySort", "DefaultBinder", "Broken")
    assert rejection(a_config({"plugins": plugins}), Broken=make_broken) == (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        f'initializing plugin "Broken": {text}'
    )


def test_all_profiles_need_the_same_queue_sort_plugin() -> None:
    config = a_config(
        {"schedulerName": "a", "plugins": enabling("PrioritySort", "DefaultBinder")},
        {"schedulerName": "b", "plugins": enabling("Mine", "DefaultBinder")},
    )
    assert rejection(config, Mine=lambda: Sort(None)) == (
        'initializing profiles: different queue sort plugins for profile "b": "Mine", '
        'first: "PrioritySort"'
    )


def test_an_in_tree_plugin_is_not_guarded_and_an_out_of_tree_plugin_is() -> None:
    class Reading:
        def __init__(self, handle: Handle) -> None:
            self.handle = handle

        def reads(self, pod: Any) -> None:
            return None

        def filter(self, state: Any, pod: Any, node: Any) -> None:
            return None

    built = build(
        a_config({"plugins": enabling("PrioritySort", "DefaultBinder", "NodeName", "Reading")}),
        out_of_tree=Registry({"Reading": Reading}),
    )
    profile = built.profiles["default-scheduler"]
    assert built.out_of_tree == {"Reading"}
    assert profile.pod_keys.guarded == {"Reading"}
    assert profile.plugins["Reading"].handle.filters is profile.filters
