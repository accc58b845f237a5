"""Loading any text returns a configuration or raises ConfigError."""

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conformance.fuzz_config import config_cases
from kubesched.config.advice import advice_for
from kubesched.config.encode import to_yaml
from kubesched.config.errors import ConfigError
from kubesched.config.extenders import build_extenders
from kubesched.config.load import load_config, load_config_object
from kubesched.config.validate import validate_config
from kubesched.plugins.in_tree import IN_TREE_NAMES

META = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FIELDS = st.sampled_from(
    [
        "profiles", "plugins", "pluginConfig", "name", "args", "score", "multiPoint", "enabled",
        "disabled", "weight", "leaderElection", "leaseDuration", "extenders", "tlsConfig", "caData",
        "clientConnection", "qps", "parallelism", "schedulerName", "scoringStrategy", "resources",
        "addedAffinity", "defaultConstraints", "shape", "kind", "<<", "",
    ]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["NodeResourcesFit", "NodeAffinity", "*", "5s", "VolumeBinding"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=20,
)


def outcome(text: str | bytes) -> None:
    rejected: ConfigError | None = None
    try:
        config = load_config(text)
        if not validate_config(config):
            to_yaml(build_extenders(config))
    except ConfigError as error:
        rejected = error
    shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
    assert rejected is None or str(rejected)
    assert all("\n" not in hint for hint in advice_for(shown, rejected, IN_TREE_NAMES))


@given(st.text())
def test_any_text(text: str) -> None:
    outcome(text)


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    outcome(data)


@given(st.dictionaries(FIELDS, VALUES, max_size=4))
def test_any_document(fields: dict[str, Any]) -> None:
    document = {**META, **fields}
    outcome(json.dumps(document))
    with contextlib.suppress(ConfigError):
        load_config_object(document)


@given(st.integers(0, 10_000))
def test_generated_files(seed: int) -> None:
    for case in config_cases(seed, 3):
        outcome(case["text"])
