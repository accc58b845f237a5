"""Rules for a whole configuration; texts are kube-scheduler v1.36.4's own."""

import pytest

from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config
from kubesched.config.validate import check_config, validate_config

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
LABEL_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        pytest.param("", [], id="the defaults are valid"),
        pytest.param(
            "podInitialBackoffSeconds: 0\n",
            ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"],
            id="no backoff",
        ),
        pytest.param(
            "leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: x}\n",
            [],
            id="without election its settings do not matter",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: -1s, renewDeadline: 1500ms}\n",
            [
                'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
                (
                    'leaderElection.leaseDuration: Invalid value: "1.5s": must be greater than '
                    "`RenewDeadline`"
                ),
            ],
            id="a lease shows the deadline as its value",
        ),
        pytest.param(
            "profiles: [{}, {}]\n",
            [
                "profiles[0].schedulerName: Required value",
                "profiles[1].schedulerName: Required value",
                "profiles[1].schedulerName: Duplicate value: {}",
            ],
            id="several profiles need names",
        ),
        pytest.param(
            "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}, "
            "multiPoint: {enabled: [{name: GCEPDLimits}]}}, pluginConfig: [{name: "
            "CinderLimits}]}]\n",
            [
                (
                    'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": '
                    "was invalid in "
                    'version "v1" (KubeSchedulerConfiguration is version '
                    '"kubescheduler.config.k8s.io/v1")'
                ),
                (
                    'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": was invalid in '
                    'version "v1" (KubeSchedulerConfiguration is version '
                    '"kubescheduler.config.k8s.io/v1")'
                ),
            ],
            id="removed plugins are found everywhere but in multiPoint",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: X}, {name: X}]}]\n",
            ['profiles[0].pluginConfig[1]: Duplicate value: "X"'],
            id="arguments given twice",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesFitArgs, args: {b: 1, a: '<'}}]}]\n",
            [
                (
                    "profiles[0].pluginConfig[0].args: Invalid value: "
                    '{"a":"\\u003c","b":1}: has to '
                    "match plugin args"
                )
            ],
            id="the name under which upstream filed Fit's rule",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: "
            "{type: Least}}}]}]\n",
            [],
            id="Fit's arguments are not checked",
        ),
        pytest.param(
            "profiles: [{plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}]\n",
            [
                (
                    "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort "
                    "plugin can be enabled"
                )
            ],
            id="two queue sort plugins",
        ),
        pytest.param(
            "extenders: [{managedResources: [{name: a.b/c}, {name: a.b/c}, {name: 'x y'}]}]\n",
            [
                (
                    'extenders[0].managedResources[1].name: Invalid value: "a.b/c": duplicate '
                    "extender managed resource name"
                ),
                f'extenders[0].managedResources[2].name: Invalid value: "x y": {LABEL_RULE}',
            ],
            id="managed resources",
        ),
    ],
)
def test_every_error_has_upstreams_text(body: str, errors: list[str]) -> None:
    assert validate_config(load_config(HEAD + body)) == errors


def test_queue_sort_arguments_are_compared_across_profiles() -> None:
    body = """
profiles:
- schedulerName: a
  plugins: {queueSort: {enabled: [{name: PrioritySort}]}}
- schedulerName: b
  plugins: {queueSort: {enabled: [{name: PrioritySort}]}}
  pluginConfig: [{name: PrioritySort, args: {x: 1}}]
"""
    assert validate_config(load_config(HEAD + body)) == [
        (
            'profiles[1].pluginConfig.args: Invalid value: {"x":1}: queueSort must be the same for '
            "all profiles"
        )
    ]


def test_several_errors_are_in_brackets_without_duplicates() -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(load_config(HEAD + "parallelism: 0\nclientConnection: {burst: -1}\n"))
    assert caught.value.stage == "validate"
    assert str(caught.value) == (
        "[clientConnection.burst: Invalid value: -1: must be non-negative, "
        "parallelism: Invalid value: 0: should be an integer value greater than zero]"
    )
