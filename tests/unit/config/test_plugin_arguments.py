"""Rules for plugin arguments, as plugin constructors call them: paths start at the arguments.

Texts are kube-scheduler v1.36.4's own.
"""

from typing import Any

import pytest

from kubesched.config.defaults import default_args
from kubesched.config.types import NodeResourcesFitArgs
from kubesched.config.validate_args import (
    validate_default_preemption_args,
    validate_dynamic_resources_args,
    validate_inter_pod_affinity_args,
    validate_node_affinity_args,
    validate_node_resources_balanced_allocation_args,
    validate_node_resources_fit_args,
    validate_pod_topology_spread_args,
    validate_volume_binding_args,
)

RULES: dict[str, Any] = {
    "DefaultPreemption": validate_default_preemption_args,
    "DynamicResources": validate_dynamic_resources_args,
    "InterPodAffinity": validate_inter_pod_affinity_args,
    "NodeAffinity": validate_node_affinity_args,
    "NodeResourcesBalancedAllocation": validate_node_resources_balanced_allocation_args,
    "NodeResourcesFit": validate_node_resources_fit_args,
    "PodTopologySpread": validate_pod_topology_spread_args,
    "VolumeBinding": validate_volume_binding_args,
}
RATIO = "scoringStrategy.requestedToCapacityRatio"


def strategy(**fields: Any) -> dict[str, Any]:
    return {"scoringStrategy": fields}


def ratio(*points: tuple[int, int]) -> dict[str, Any]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


@pytest.mark.parametrize("plugin", RULES)
def test_defaults_are_valid(plugin: str) -> None:
    assert RULES[plugin](default_args(plugin, {})) == []


@pytest.mark.parametrize(
    ("plugin", "values", "errors"),
    [
        pytest.param(
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                (
                    "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the "
                    "same time as "
                    "minCandidateNodesAbsolute"
                ),
                (
                    "minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the "
                    "same time as "
                    "minCandidateNodesPercentage"
                ),
            ],
            id="preemption: both zero",
        ),
        pytest.param(
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
            [
                "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
            id="preemption: out of range",
        ),
        pytest.param(
            "DynamicResources",
            {"filterTimeout": -1, "bindingTimeout": 999_999_999},
            [
                'filterTimeout: Invalid value: "-1ns": must be zero or positive',
                'bindingTimeout: Invalid value: "999.999999ms": must be at least 1 second',
            ],
            id="dynamic resources: timeouts",
        ),
        pytest.param(
            "InterPodAffinity",
            {"hardPodAffinityWeight": -1},
            ["hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]"],
            id="inter-pod affinity: weight",
        ),
        pytest.param(
            "NodeAffinity",
            {
                "addedAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "preference": {
                                "matchExpressions": [{"key": "a", "operator": "In", "values": []}]
                            },
                        }
                    ]
                }
            },
            [
                (
                    "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
                    ".matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, "
                    "values set can't be empty"
                )
            ],
            id="node affinity: values of a preferred term",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu"}, {"name": "cpu", "weight": 2}]},
            [
                'resources[1].name: Duplicate value: "cpu"',
                "resources[1].weight: Invalid value: 2: must be 1",
            ],
            id="balanced allocation: a resource twice",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"ignoredResourceGroups": ["a/b"]},
            [
                (
                    'ignoredResourceGroups[0]: Invalid value: "a/b": resource group name '
                    "can't contain '/'"
                )
            ],
            id="fit: a group with a slash",
        ),
        pytest.param(
            "NodeResourcesFit",
            strategy(type="<No>"),
            [
                (
                    'scoringStrategy.type: Unsupported value: "\\u003cNo\\u003e": '
                    "supported values: "
                    '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
                )
            ],
            id="fit: a named type is shown as JSON",
        ),
        pytest.param(
            "NodeResourcesFit",
            strategy(type="MostAllocated", requestedToCapacityRatio={}),
            [f"{RATIO}: Forbidden: must be nil when type is not RequestedToCapacityRatio"],
            id="fit: an unused shape",
        ),
        pytest.param(
            "NodeResourcesFit",
            strategy(type="RequestedToCapacityRatio"),
            [f"{RATIO}: Required value: must be specified when type is RequestedToCapacityRatio"],
            id="fit: no shape",
        ),
        pytest.param(
            "NodeResourcesFit",
            ratio(),
            [f"{RATIO}.shape: Required value: at least one point must be specified"],
            id="fit: an empty shape",
        ),
        pytest.param(
            "NodeResourcesFit",
            ratio((50, 11), (50, 0), (40, -1), (101, 5)),
            [
                (
                    f"{RATIO}.shape[1].utilization: Invalid value: 50: values must be sorted in "
                    "increasing order"
                ),
                f"{RATIO}.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
                f"{RATIO}.shape[2].score: Invalid value: -1: not in valid range [0, 10]",
                f"{RATIO}.shape[3].utilization: Invalid value: 101: not in valid range [0, 100]",
            ],
            id="fit: only the first point out of order is named",
        ),
        pytest.param(
            "PodTopologySpread",
            {"defaultingType": "System", "defaultConstraints": [{"labelSelector": {}}]},
            [
                'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
                "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "defaultConstraints[0].topologyKey: Required value: can not be empty",
                "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
                (
                    "defaultConstraints[0].labelSelector: Forbidden: constraint must not define a "
                    "selector, as they deduced for each pod"
                ),
            ],
            id="topology spread: everything wrong at once",
        ),
        pytest.param(
            "VolumeBinding",
            {"bindTimeoutSeconds": -1, "shape": []},
            [
                (
                    "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, "
                    "should not be "
                    "a negative value"
                ),
                (
                    "shape: Invalid value: []: unexpected field `shape`, remove it or turn on the "
                    "feature gate StorageCapacityScoring"
                ),
            ],
            id="volume binding: an empty shape is a shape",
        ),
    ],
)
def test_every_error_has_upstreams_text(
    plugin: str, values: dict[str, Any], errors: list[str]
) -> None:
    assert RULES[plugin](default_args(plugin, values)) == errors


def test_errors_begin_with_the_path() -> None:
    args = default_args("InterPodAffinity", {"hardPodAffinityWeight": 101})
    (error,) = RULES["InterPodAffinity"](args, "profiles[0].pluginConfig[1].args")
    assert error.startswith("profiles[0].pluginConfig[1].args.hardPodAffinityWeight: ")


def test_fit_needs_a_strategy() -> None:
    args = NodeResourcesFitArgs(scoring_strategy=None)
    assert validate_node_resources_fit_args(args) == [
        "scoringStrategy: Required value: ScoringStrategy field is required"
    ]
