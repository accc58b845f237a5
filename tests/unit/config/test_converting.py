"""Conversion of old files to v1, and hints about removed fields and plugins."""

from typing import Any

import pytest
import yaml

from kubesched.config.advice import advice_for
from kubesched.config.convert import convert_old
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config
from kubesched.config.validate import validate_config
from kubesched.golang.yaml_output import dump_yaml
from kubesched.plugins.in_tree import IN_TREE_NAMES

GROUP = "kubescheduler.config.k8s.io"


def old(version: str, **fields: Any) -> str:
    return dump_yaml(
        {"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", **fields}
    )


def converted(version: str, **fields: Any) -> tuple[Any, list[str]]:
    text, changes = convert_old(old(version, **fields))
    assert validate_config(load_config(text)) == []
    return yaml.safe_load(text), changes


def test_v1beta3_only_changes_its_version() -> None:
    document, changes = converted("v1beta3", parallelism=4)
    assert document == {
        "apiVersion": f"{GROUP}/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 4,
    }
    assert changes == [f"apiVersion: {GROUP}/v1beta3 became {GROUP}/v1"]


def test_a_v1_file_is_left_alone() -> None:
    text = old("v1", parallelism=4)
    assert convert_old(text) == (text, [])


def test_removed_addresses_and_locks_are_replaced() -> None:
    document, changes = converted(
        "v1beta3",
        healthzBindAddress="0.0.0.0:10251",
        metricsBindAddress="",
        leaderElection={"resourceLock": "endpointsleases"},
    )
    assert "healthzBindAddress" not in document
    assert document["leaderElection"] == {"resourceLock": "leases"}
    assert len(changes) == 4


def test_v1beta2_keeps_its_default_weights() -> None:
    document, _ = converted("v1beta2", profiles=[{"schedulerName": "a"}])
    config = load_config(dump_yaml(document))
    weights = {p.name: p.weight for p in config.profiles[0].plugins.multi_point.enabled}
    assert (weights["InterPodAffinity"], weights["NodeAffinity"], weights["TaintToleration"]) == (
        1,
        1,
        1,
    )
    assert weights["PodTopologySpread"] == 2


def test_configured_weights_of_v1beta2_stay_unchanged() -> None:
    score = {
        "enabled": [{"name": "TaintToleration", "weight": 9}],
        "disabled": [{"name": "NodeAffinity"}],
    }
    document, _ = converted("v1beta2", profiles=[{"plugins": {"score": score}}])
    plugins = document["profiles"][0]["plugins"]
    assert plugins["score"] == score
    assert plugins["multiPoint"]["enabled"] == [{"name": "InterPodAffinity", "weight": 1}]


def test_removed_plugins_are_dropped_everywhere() -> None:
    document, changes = converted(
        "v1beta3",
        profiles=[
            {
                "plugins": {
                    "score": {
                        "enabled": [{"name": "SelectorSpread"}, {"name": "ImageLocality"}],
                        "disabled": [{"name": "NodePreferAvoidPods"}],
                    }
                },
                "pluginConfig": [{"name": "ServiceAffinity", "args": {}}],
            }
        ],
    )
    (profile,) = document["profiles"]
    assert profile == {
        "plugins": {"score": {"enabled": [{"name": "ImageLocality"}], "disabled": []}}
    }
    assert len(changes) == 4


@pytest.mark.parametrize(
    ("plugin", "kind", "fields"),
    [
        ("NodeResourcesMostAllocated", "MostAllocated", {}),
        ("NodeResourcesLeastAllocated", "LeastAllocated", {}),
        (
            "RequestedToCapacityRatio",
            "RequestedToCapacityRatio",
            {"requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 10}]}},
        ),
    ],
)
def test_scoring_plugins_become_strategies(plugin: str, kind: str, fields: dict[str, Any]) -> None:
    args = {"apiVersion": f"{GROUP}/v1beta1", "resources": [{"name": "cpu", "weight": 3}]}
    if fields:
        args["shape"] = fields["requestedToCapacityRatio"]["shape"]
    document, _ = converted(
        "v1beta1",
        profiles=[
            {
                "plugins": {"score": {"enabled": [{"name": plugin, "weight": 5}]}},
                "pluginConfig": [{"name": plugin, "args": args}],
            }
        ],
    )
    (profile,) = document["profiles"]
    assert profile["plugins"]["score"]["enabled"] == [{"name": "NodeResourcesFit", "weight": 5}]
    assert profile["pluginConfig"] == [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": kind,
                    "resources": [{"name": "cpu", "weight": 3}],
                    **fields,
                }
            },
        }
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\n", "not a KubeSchedulerConfiguration: there is nothing to convert"),
        (
            old("v1alpha1"),
            f'cannot convert apiVersion "{GROUP}/v1alpha1": supported: v1beta1, v1beta2, v1beta3',
        ),
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
    ],
)
def test_other_documents_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert_old(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        pytest.param(
            'strict decoding error: unknown field "profiles[0].schedulername"',
            (
                "profiles[0].schedulername: field names are case sensitive, did you "
                "mean schedulerName?"
            ),
            id="the case of a name",
        ),
        pytest.param(
            'strict decoding error: unknown field "profiles[0].plugins.score.enable"',
            "profiles[0].plugins.score.enable: did you mean enabled?",
            id="a misspelt name",
        ),
        pytest.param(
            'strict decoding error: unknown field "healthzBindAddress"',
            "healthzBindAddress: v1 has no such field, health and metrics are served on the secure "
            "port",
            id="a removed field",
        ),
        pytest.param(
            "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
            "decoding args for plugin VolumeBinding: strict decoding error: unknown field "
            '"bindTimeoutSecond"',
            "bindTimeoutSecond: did you mean bindTimeoutSeconds?",
            id="a misspelt name in arguments",
        ),
        pytest.param(
            'leaderElection.resourceLock: Invalid value: "endpointsleases": '
            "resourceLock value must "
            'be "leases"',
            "resourceLock endpointsleases was removed: use leases, or leave the field out",
            id="a removed lock",
        ),
        pytest.param(
            'PreFilterPlugin "SelectorSpread" does not exist',
            (
                "SelectorSpread was removed: PodTopologySpread spreads the pods of a "
                "workload by default"
            ),
            id="a removed plugin",
        ),
        pytest.param(
            'FilterPlugin "NodePort" does not exist',
            "there is no plugin NodePort, did you mean NodePorts?",
            id="a misspelt plugin",
        ),
        pytest.param(
            'PreFilterPlugin "sample-plugin" does not exist',
            "if sample-plugin is an out-of-tree plugin, load it with --plugin",
            id="an out-of-tree plugin",
        ),
        pytest.param(
            'time: missing unit in duration "8"',
            'a duration needs a unit, such as "8s"',
            id="a duration without a unit",
        ),
    ],
)
def test_an_error_has_a_hint(error: str, advice: str) -> None:
    assert advice_for("", ConfigError("decode", error), IN_TREE_NAMES) == [advice]


def test_an_old_version_points_to_the_converter() -> None:
    text = old("v1beta2")
    with pytest.raises(ConfigError) as caught:
        load_config(text)
    (advice,) = advice_for(text, caught.value, IN_TREE_NAMES)
    assert "kubesched config convert" in advice


def test_a_valid_file_has_no_hints() -> None:
    assert advice_for(old("v1"), None, IN_TREE_NAMES) == []
