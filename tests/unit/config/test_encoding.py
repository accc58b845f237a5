"""Encoding of the effective configuration."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubesched.config.encode import effective, to_yaml
from kubesched.config.load import load_config
from kubesched.golang.yaml import decode_yaml
from kubesched.golang.yaml_output import dump_yaml

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize(
    "text",
    ["", "yes", "NO", "y", "on", "1", "1e3", "0x1f", "017", "0o17", "1_0", "1:30", ".5", "~",
     "null", "true", ".inf", "2001-01-01", "=", "<<", "-", "*", "&a", "a: b", "#x", " a", "1.",
     "+1", "é"],
)  # fmt: skip
def test_strings_that_look_like_something_else_are_quoted(text: str) -> None:
    written = dump_yaml({"a": text})
    assert yaml.safe_load(written) == {"a": text}
    assert decode_yaml(written.encode())[0] == {"a": text}


def test_numbers_of_yaml_1_2_are_quoted_too() -> None:
    assert dump_yaml({"a": "1e3"}) == 'a: "1e3"\n'
    assert dump_yaml({"a": "0o17"}) == 'a: "0o17"\n'
    assert dump_yaml({"a": "10m0s"}) == "a: 10m0s\n"


@given(st.text())
def test_any_string_round_trips(text: str) -> None:
    assert yaml.safe_load(dump_yaml({"a": text})) == {"a": text}


def test_an_encoded_configuration_loads_unchanged() -> None:
    config = load_config(
        HEAD
        + "profiles:\n- schedulerName: '1e3'\n  pluginConfig:\n  - name: NodeAffinity\n    args:\n"
        "      addedAffinity:\n        requiredDuringSchedulingIgnoredDuringExecution:\n"
        "          nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]\n"
    )
    reloaded = load_config(to_yaml(config))
    assert effective(reloaded) == effective(config)


def test_a_required_list_is_encoded_as_null_or_empty() -> None:
    body = (
        "profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {{addedAffinity: "
        "{{requiredDuringSchedulingIgnoredDuringExecution: {}}}}}}}]}}]\n"
    )

    def terms(selector: str) -> object:
        encoded = effective(load_config(HEAD + body.format(selector)))
        entry = encoded["profiles"][0]["pluginConfig"][0]
        affinity = entry["args"]["addedAffinity"]
        return affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert terms("{}") is None
    assert terms("{nodeSelectorTerms: []}") == []


def test_empty_optional_fields_are_left_out() -> None:
    encoded = effective(load_config(HEAD + "extenders: [{tlsConfig: {caData: YQ==}}]\n"))
    assert encoded["extenders"] == [
        {"urlPrefix": "", "httpTimeout": "0s", "tlsConfig": {"caData": "YQ=="}}
    ]
    assert "delayCacheUntilActive" not in encoded


def test_whole_floats_are_written_as_integers() -> None:
    encoded = effective(load_config(HEAD + "clientConnection: {qps: 33.333333}\n"))
    assert encoded["clientConnection"]["qps"] == 33.333332
    assert effective(load_config(HEAD))["clientConnection"]["qps"] == 50
