"""Any input gets an answer or an error in one line, never a traceback.

`kubesched` lets every exception through that `run` does not turn into a status, so that a call
that returns is a call that a user survives.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.cli.running import EXAMPLE_PLUGINS, SAMPLE_CLUSTER, kubesched

FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
DOCUMENTS = [
    document
    for name in ("nodes", "running", "policy", "storage", "pending")
    for document in yaml.safe_load_all((Path(SAMPLE_CLUSTER) / f"{name}.yaml").read_text("utf-8"))
    if document
]
CONFIG = yaml.safe_load((EXAMPLE_PLUGINS / "scheduler.yaml").read_text(encoding="utf-8"))
CONFIG["profiles"][0] = {
    "schedulerName": "default-scheduler",
    "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
    "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1}}],
}

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "-1", "1e400", "0", "a/b", "*", "\x00", "\ud800", "Exists", "NoSchedule"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
YAML_TEXTS = st.text("abk:-[]{}&*!?|>%@`'\"#,. \n\t0123~<\x00é", max_size=60)


def paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a document."""
    paths_in_tree = [path]
    if isinstance(tree, dict):
        paths_in_tree += [
            inner for key, part in tree.items() for inner in paths(part, (*path, key))
        ]
    elif isinstance(tree, list):
        paths_in_tree += [
            inner for index, part in enumerate(tree) for inner in paths(part, (*path, index))
        ]
    return paths_in_tree


def replaced(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the document with one value in it replaced."""
    if not path:
        return value
    changed = copy.deepcopy(tree)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


@st.composite
def broken(draw: st.DrawFn, whole: Any) -> bytes:
    """Return a document as JSON, one or two values in it replaced by anything."""
    tree = whole
    for _ in range(draw(st.integers(1, 2))):
        tree = replaced(tree, draw(st.sampled_from(paths(tree))), draw(VALUES))
    return json.dumps(tree).encode()


A_CASE = {
    "id": "x",
    "config": {**CONFIG},
    "objects": DOCUMENTS[:-2],
    "pod": DOCUMENTS[-1],
}
A_LIST = {"apiVersion": "v1", "kind": "List", "items": DOCUMENTS}
COMMANDS = [
    pytest.param(("explain", "-f", "-", "trainer-0"), A_LIST, id="a manifest"),
    pytest.param(
        ("explain", "-f", SAMPLE_CLUSTER, "--config", "-", "web-7"), CONFIG, id="a configuration"
    ),
    pytest.param(("config", "view", "-f", "-"), CONFIG, id="a configuration to view"),
    pytest.param(("config", "validate", "-f", "-"), CONFIG, id="a configuration to check"),
    pytest.param(("config", "convert", "-f", "-"), CONFIG, id="a configuration to convert"),
    pytest.param(("decide", "--cases", "-"), A_CASE, id="cases"),
]


def survives(arguments: tuple[str, ...], stdin: bytes) -> None:
    ran = kubesched(*arguments, stdin=stdin)
    assert ran.status in (0, 1)
    assert "Traceback" not in ran.err
    assert ran.out or ran.err or arguments[0] == "decide"
    if ran.status:
        assert ran.err.strip()
    if arguments[0] == "explain":
        problems = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
        assert len(problems) == ran.status


@pytest.mark.parametrize(("arguments", "whole"), COMMANDS)
def test_the_original_document_is_accepted(arguments: tuple[str, ...], whole: Any) -> None:
    ran = kubesched(*arguments, stdin=json.dumps(whole).encode())
    assert ran.status == 0, ran.err


@pytest.mark.parametrize(("arguments", "whole"), COMMANDS)
@given(data=st.data())
@FEW
def test_a_document_with_replaced_values(
    arguments: tuple[str, ...], whole: Any, data: st.DataObject
) -> None:
    survives(arguments, data.draw(broken(whole)))


@pytest.mark.parametrize("arguments", [param.values[0] for param in COMMANDS])
@given(stdin=st.binary(max_size=60))
@FEW
def test_any_bytes(arguments: tuple[str, ...], stdin: bytes) -> None:
    survives(arguments, stdin)


@pytest.mark.parametrize("arguments", [param.values[0] for param in COMMANDS])
@given(text=YAML_TEXTS)
@FEW
def test_any_yaml(arguments: tuple[str, ...], text: str) -> None:
    survives(arguments, text.encode())


@pytest.mark.parametrize("arguments", [param.values[0] for param in COMMANDS])
@given(value=VALUES)
@FEW
def test_any_json(arguments: tuple[str, ...], value: Any) -> None:
    survives(arguments, json.dumps(value).encode())


@pytest.mark.parametrize("arguments", [param.values[0] for param in COMMANDS])
@pytest.mark.parametrize(
    "stdin",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[" * 50_000, id="deeply nested brackets"),
        pytest.param(b'{"a":' * 50_000, id="deeply nested braces"),
        pytest.param(b"- " * 5_000, id="deeply nested sequences"),
        pytest.param(b"? " * 5_000, id="deeply nested keys"),
        pytest.param(b"a: &a\n - *a\n", id="a loop"),
        pytest.param(
            b"a0: &a0 [x]\n"
            + b"".join(
                b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9))
                for n in range(1, 12)
            ),
            id="aliases of aliases",
        ),
        pytest.param(b"9" * 10_000, id="a long number"),
        pytest.param(b'{"kind": ' + b"9" * 10_000 + b"}", id="a long number in JSON"),
        pytest.param(b"\xff\xfea\x00:\x00", id="another encoding"),
        pytest.param(b"%YAML 1.9\n---\na: b\n", id="another YAML version"),
        pytest.param(b"!!python/object/apply:os.system [exit]", id="a tag that runs code"),
    ],
)
def test_known_attacks_on_parsers(arguments: tuple[str, ...], stdin: bytes) -> None:
    survives(arguments, stdin)
