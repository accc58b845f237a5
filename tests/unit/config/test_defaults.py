"""Defaults and the merge of plugin sets over them; rows follow v1/defaults_test.go's themes."""

from typing import Any

import pytest

from kubesched.config.defaults import DEFAULT_PLUGINS, merge_plugins
from kubesched.config.load import load_config, load_config_object
from kubesched.config.types import Plugin, Plugins, PluginSet

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
DEFAULTS = Plugins(multi_point=PluginSet((Plugin("A", 1), Plugin("B", 2), Plugin("C"))))


def names(*plugins: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in plugins]


@pytest.mark.parametrize(
    ("plugin_set", "enabled"),
    [
        pytest.param({}, [("A", 1), ("B", 2), ("C", 0)], id="an empty set changes nothing"),
        pytest.param(
            {"disabled": names("B")}, [("A", 1), ("C", 0)], id="a disabled default is dropped"
        ),
        pytest.param(
            {"disabled": names("*"), "enabled": names("B")},
            [("B", 0)],
            id="a star drops every default",
        ),
        pytest.param(
            {"enabled": [{"name": "B", "weight": 7}]},
            [("A", 1), ("B", 7), ("C", 0)],
            id="a repeated default keeps its position",
        ),
        pytest.param(
            {"enabled": names("A")}, [("A", 0), ("B", 2), ("C", 0)], id="and loses its weight"
        ),
        pytest.param(
            {"enabled": names("A"), "disabled": names("A")},
            [("B", 2), ("C", 0), ("A", 0)],
            id="disabled and enabled moves to the end",
        ),
        pytest.param(
            {"enabled": [{"name": "X"}, {"name": "A", "weight": 1}, {"name": "A", "weight": 9}]},
            [("A", 9), ("B", 2), ("C", 0), ("X", 0), ("A", 1)],
            id="of a repeated one the last replaces the default",
        ),
    ],
)
def test_plugin_sets_of_a_profile_override_the_defaults(
    plugin_set: dict[str, Any], enabled: list[tuple[str, int]]
) -> None:
    merged = merge_plugins(DEFAULTS, {"multiPoint": plugin_set}).multi_point
    assert [(plugin.name, plugin.weight) for plugin in merged.enabled] == enabled


def test_weights_of_disabled_plugins_are_dropped() -> None:
    merged = merge_plugins(DEFAULTS, {"score": {"disabled": [{"name": "A", "weight": 3}]}})
    assert merged.score == PluginSet((), (Plugin("A"),))


def test_a_profile_without_plugins_has_the_default_plugins() -> None:
    assert load_config(HEAD).profiles[0].plugins == DEFAULT_PLUGINS


def test_only_a_single_profile_gets_the_default_name() -> None:
    assert [p.scheduler_name for p in load_config(HEAD).profiles] == ["default-scheduler"]
    two = load_config(HEAD + "profiles: [{}, {schedulerName: x}]\n")
    assert [p.scheduler_name for p in two.profiles] == ["", "x"]


@pytest.mark.parametrize(
    ("body", "profiling", "contention"),
    [
        ("", True, True),
        ("enableProfiling: false\n", False, False),
        ("enableContentionProfiling: false\n", True, False),
        ("enableProfiling: false\nenableContentionProfiling: true\n", False, True),
    ],
)
def test_contention_profiling_follows_profiling(
    body: str, profiling: bool, contention: bool
) -> None:
    config = load_config(HEAD + body)
    assert config.enable_profiling is profiling
    assert config.enable_contention_profiling is contention


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ("", 15),
        ("leaderElection: {leaseDuration: 0s}\n", 15),
        ("leaderElection: {leaseDuration: 20s}\n", 20),
    ],
)
def test_a_zero_duration_counts_as_unset(body: str, seconds: int) -> None:
    assert load_config(HEAD + body).leader_election.lease_duration_ns == seconds * 1_000_000_000


@pytest.mark.parametrize(("value", "qps"), [(0, 50.0), (None, 50.0), (-1, -1.0), (0.1, 0.1)])
def test_zero_qps_is_replaced_and_negative_kept(value: Any, qps: float) -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": value},
    }
    assert load_config_object(document).client_connection.qps == qps


def test_default_arguments_follow_configured_ones_in_name_order() -> None:
    config = load_config(
        HEAD + "profiles: [{pluginConfig: [{name: VolumeBinding}, {name: DefaultPreemption}]}]\n"
    )
    assert [entry.name for entry in config.profiles[0].plugin_config] == [
        "VolumeBinding",
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
    ]


def test_the_type_of_a_configured_strategy_has_no_default() -> None:
    config = load_config(
        HEAD
        + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {}}}]}]\n"
    )
    args: Any = config.profiles[0].args_of("NodeResourcesFit")
    assert args.scoring_strategy.type == ""
    assert [(r.name, r.weight) for r in args.scoring_strategy.resources] == [
        ("cpu", 1),
        ("memory", 1),
    ]
