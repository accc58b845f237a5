"""From text to a configuration: kinds, strictness, types, plugin arguments.

Expected texts are kube-scheduler v1.36.4's own answers to the same files.
"""

import json
from typing import Any

import pytest

from kubesched.config.errors import ConfigError
from kubesched.config.load import default_config, load_config, load_config_object
from kubesched.config.types import InterPodAffinityArgs, RawArgs

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
META = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SCHEME = 'in scheme "pkg/scheduler/apis/config/scheme/scheme.go:29"'
META_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
NO_KIND = "couldn't get version/kind; json parse error: "


def rejection(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(text)
    assert caught.value.stage == "decode"
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "Object 'Kind' is missing in ''", id="an empty file"),
        pytest.param("kind: X\n", "Object 'apiVersion' is missing in 'kind: X\n'", id="no version"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\n",
            f'no kind "Pod" is registered for version "v1" {SCHEME}',
            id="another kind",
        ),
        pytest.param(
            "apiVersion: a/b/c\nkind: X\n",
            "unexpected GroupVersion string: a/b/c",
            id="two slashes",
        ),
        pytest.param(
            "apiVersion: 1\nkind: X\n",
            (
                f"{NO_KIND}json: cannot unmarshal number into Go struct field "
                f".apiVersion of type string"
            ),
            id="a number for a version",
        ),
        pytest.param(
            "[]",
            f"{NO_KIND}json: cannot unmarshal array into Go value of type {META_TYPE}",
            id="a list",
        ),
        pytest.param(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: VolumeBindingArgs\n",
            "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, "
            "Kind=VolumeBindingArgs: ",
            id="arguments in place of a configuration",
        ),
        pytest.param(
            HEAD.replace("kind", "Kind"),
            'strict decoding error: unknown field "Kind"',
            id="a capital",
        ),
        pytest.param(
            '{"a":1,}',
            f"{NO_KIND}invalid character '}}' looking for beginning of object key string",
            id="JSON",
        ),
    ],
)
def test_other_documents_are_rejected_with_upstreams_text(text: str, message: str) -> None:
    assert rejection(text) == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            "enableProfiling: maybe\n",
            "json: cannot unmarshal string into Go struct field "
            "KubeSchedulerConfiguration.DebuggingConfiguration.enableProfiling of type bool",
            id="embedded structs show in the path",
        ),
        pytest.param(
            "parallelism: 2147483648\n",
            "json: cannot unmarshal number 2147483648 into Go struct field "
            "KubeSchedulerConfiguration.parallelism of type int32",
            id="an int32 that is too large",
        ),
        pytest.param(
            "profiles: {}\n",
            "json: cannot unmarshal object into Go struct field "
            "KubeSchedulerConfiguration.profiles of type []v1.KubeSchedulerProfile",
            id="an object for a list",
        ),
        pytest.param(
            "profiles: [5]\n",
            "json: cannot unmarshal number into Go struct field "
            "KubeSchedulerConfiguration.profiles of type v1.KubeSchedulerProfile",
            id="list indexes do not show",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: null}\n",
            'time: invalid duration ""',
            id="a null duration",
        ),
        pytest.param(
            "enableProfiling: x\nleaderElection: {leaseDuration: 5}\n",
            "json: cannot unmarshal number into Go struct field "
            "LeaderElectionConfiguration.leaderElection.leaseDuration of type string",
            id="the error of a duration precedes earlier ones",
        ),
        pytest.param(
            "extenders: [{tlsConfig: {caData: '!'}}]\n",
            "illegal base64 data at input byte 0",
            id="base64",
        ),
        pytest.param(
            "parallelism: x\nfoo: 1\n",
            "json: cannot unmarshal string into Go struct field "
            "KubeSchedulerConfiguration.parallelism of type int32",
            id="type errors precede strict ones",
        ),
    ],
)
def test_values_of_the_wrong_type(body: str, message: str) -> None:
    assert rejection(HEAD + body) == message


def test_unknown_fields_of_yaml_are_listed_in_key_order() -> None:
    assert rejection(HEAD + "zeta: 1\nalpha: 2\n") == (
        'strict decoding error: unknown field "alpha", unknown field "zeta"'
    )


def test_unknown_and_repeated_fields_of_json_are_listed_in_document_order() -> None:
    text = json.dumps({**META, "zeta": 1, "alpha": 2})[:-1] + ', "kind": "x"}'
    assert rejection(text.replace('"kind": "x"', '"parallelism": 1, "parallelism": 2')) == (
        'strict decoding error: unknown field "zeta", unknown field "alpha", '
        'duplicate field "parallelism"'
    )


def entry(name: str, args: Any) -> dict[str, Any]:
    return {**META, "profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        pytest.param(
            "VolumeBinding",
            {"kind": "NodeAffinityArgs"},
            "args for plugin VolumeBinding were not of type "
            "VolumeBindingArgs.kubescheduler.config.k8s.io, got "
            "NodeAffinityArgs.kubescheduler.config.k8s.io",
            id="arguments of another plugin",
        ),
        pytest.param(
            "VolumeBinding",
            {"apiVersion": "v1"},
            "decoding args for plugin VolumeBinding: no kind "
            f'"VolumeBindingArgs" is registered for version "v1" {SCHEME}',
            id="another version",
        ),
        pytest.param(
            "VolumeBinding",
            [],
            f"decoding args for plugin VolumeBinding: {NO_KIND}json: cannot unmarshal array into "
            f"Go value of type {META_TYPE}",
            id="a list",
        ),
        pytest.param(
            "VolumeBinding",
            {"bindTimeoutSeconds": "x"},
            "decoding args for plugin VolumeBinding: json: cannot unmarshal string into Go struct "
            "field VolumeBindingArgs.bindTimeoutSeconds of type int64",
            id="a wrong type",
        ),
    ],
)
def test_plugin_arguments_that_do_not_decode(name: str, args: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config_object(entry(name, args))
    assert str(caught.value) == f"decoding .profiles[0].pluginConfig[0]: {message}"


def test_null_arguments_mean_the_defaults() -> None:
    config = load_config_object(entry("InterPodAffinity", None))
    assert config.profiles[0].args_of("InterPodAffinity") == InterPodAffinityArgs()


def test_arguments_of_unknown_plugins_are_kept_unchanged() -> None:
    config = load_config_object(entry("Mine", {"b": 1, "a": [1.5]}))
    assert config.profiles[0].args_of("Mine") == RawArgs({"b": 1, "a": [1.5]})


def test_a_parsed_document_means_the_same_as_its_text() -> None:
    document = entry("VolumeBinding", {"bindTimeoutSeconds": 5})
    assert load_config_object(document) == load_config(json.dumps(document))


def test_the_default_configuration_needs_no_file() -> None:
    assert default_config() == load_config(HEAD)
