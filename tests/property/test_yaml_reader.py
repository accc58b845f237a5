"""The YAML reader agrees with PyYAML's composer wherever Go's rules are those of YAML 1.1."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubesched.golang.yaml import YamlError, decode_yaml
from kubesched.golang.yaml_scalars import resolve

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The format of `kubectl get pod -o yaml`.
PRINTED = """\
apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{},"name":"web"}}
  creationTimestamp: "2026-11-01T08:00:00Z"
  labels:
    app: web
    on-call: "yes"
    version: "1.0"
  name: web
spec:
  containers:
  - args:
    - --port=8080
    - -v
    - |-
      if true; then

        echo "hello: world" # not a comment
      fi
    env:
    - name: EMPTY
    - name: f:k:{"type":"Ready"}
      f:value: it's
    - name: SHARE
      value: 12.50
    image: registry.example/web:1.0
    resources: {}
    tolerations: []
  priority: 0
  restartPolicy: Always
status:
  conditions:
  - lastProbeTime: null
    message: '0/5 nodes are available: 5 Insufficient cpu. It isn''t the scheduler,
      preemption: 0/5 nodes are available: 5 Preemption is not helpful.'
    reason: This one is long but has nothing in it that would have to be quoted by
      anybody
    status: "True"
  phase: Running
"""


def _by_composer(data: bytes) -> Any:
    """Return the first document as read by PyYAML's composer and Go's rules for scalars."""
    return _value(next(yaml.compose_all(data, Loader=LOADER)))


def _value(node: yaml.Node | None) -> Any:
    if isinstance(node, yaml.MappingNode):
        pairs = [(_key(key), _value(value)) for key, value in node.value]
        return dict(sorted(pairs, key=lambda pair: pair[0]))
    if isinstance(node, yaml.SequenceNode):
        return [_value(one) for one in node.value]
    assert isinstance(node, yaml.ScalarNode)
    value = resolve("", node.value)[1] if not node.style else node.value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return value


def _key(node: yaml.Node) -> str:
    key = _value(node)
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise _OtherRulesError
    return str(key)


class _OtherRulesError(Exception):
    """A document with a key or a number that the reference reader does not support."""


def _check_same(text: str) -> bool:
    """Return whether a text can be read; if so, both readers must agree."""
    data = text.encode()
    try:
        tree, strict_errors = decode_yaml(data)
    except YamlError:
        return False
    if strict_errors or tree is None or any(mark in text for mark in ("&", "!", "<<")):
        return False
    try:
        expected = _by_composer(data)
    except _OtherRulesError:
        return False
    assert json.dumps(tree) == json.dumps(expected)
    return True


def test_yaml_that_kubectl_prints() -> None:
    assert _check_same(PRINTED)
    tree, _ = decode_yaml(PRINTED.encode())
    container = tree["spec"]["containers"][0]
    assert container["args"][2] == 'if true; then\n\n  echo "hello: world" # not a comment\nfi'
    assert container["env"][0] == {"name": "EMPTY"}
    assert container["env"][2] == {"name": "SHARE", "value": 12.5}
    condition = tree["status"]["conditions"][0]
    assert "It isn't the scheduler, preemption: 0/5" in condition["message"]
    assert condition["reason"].endswith("quoted by anybody")
    assert (container["resources"], container["tolerations"]) == ({}, [])


def test_values_are_never_shared() -> None:
    first, _ = decode_yaml(b"a: &x {}\nb: []\nc: *x\n")
    second, _ = decode_yaml(b"a: &x {}\nb: []\nc: *x\n")
    first["a"]["x"] = 1
    first["b"].append(1)
    assert first["c"] == {}
    assert second == {"a": {}, "b": [], "c": {}}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        pytest.param("a: b\n\n  c\n", {"a": "b\nc"}, id="a scalar with an empty line in it"),
        pytest.param("a: 'b\n\n  c'\n", {"a": "b\nc"}, id="quotes over three lines, one empty"),
        pytest.param("a: 'b\n c'\n", {"a": "b c"}, id="quotes over two lines"),
        pytest.param("a:\n  b\n", {"a": "b"}, id="a scalar on the next line"),
        pytest.param('a: "\\n"\n', {"a": "\n"}, id="an escape"),
        pytest.param("a: &x b\nc: *x\n", {"a": "b", "c": "b"}, id="an alias"),
        pytest.param("a: b # c\n", {"a": "b"}, id="a comment"),
        pytest.param("a: 1\na: 2\n", {"a": 2}, id="a key twice"),
        pytest.param("yes: 1\n", {"true": 1}, id="a key that is no string"),
        pytest.param("a: [1, 2]\n", {"a": [1, 2]}, id="flow style"),
        pytest.param("a: é\n", {"a": "é"}, id="beyond ASCII"),
        pytest.param(
            "a: |\n  b\n\nc: d\n", {"a": "b\n", "c": "d"}, id="an empty line after a literal block"
        ),
        pytest.param("a: |\n\n  b\n", {"a": "\nb\n"}, id="an empty line before one"),
        pytest.param("a: >\n  b\n", {"a": "b\n"}, id="a folded block"),
        pytest.param("- a\n", ["a"], id="a sequence"),
        pytest.param("a: b", {"a": "b"}, id="no line break at the end"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_yaml_that_kubectl_does_not_print(text: str, tree: object) -> None:
    assert decode_yaml(text.encode())[0] == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b\n  c: d\n", "yaml: line 2: mapping values are not allowed in this context"),
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        ("a:\n\tb: c\n", "yaml: line 2: found character that cannot start any token"),
        ("a: .nan\n", "json: unsupported value: NaN"),
        ("&a {i: j?k}\n", "yaml: did not find expected ',' or '}'"),
    ],
)
def test_invalid_yaml(text: str, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        decode_yaml(text.encode())
    assert str(caught.value) == message


WORDS = st.sampled_from(
    [
        *("a", "name", "yes", "on", "null", "~", "1", "1.0", "0x1F", "08", "1e3", "2026-11-01"),
        *("a b", "a: b", "a #b", "a:", "it's", '"', "é", "", " a", "a ", "|", "{}", "[]", "-1"),
        *("a\nb", "a\n", "\na", "a\n\nb\n", "a\n\n", "  a\nb", "x" * 90, "word " * 30, "<<"),
        *("=", "\t", "+1", "-", "--x"),
    ]
)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.dictionaries(WORDS, TREES, min_size=1, max_size=4), st.data())
def test_dumped_trees_are_read_the_same(tree: Any, data: st.DataObject) -> None:
    style = data.draw(st.sampled_from((None, '"', "'", "|", ">")))
    options: dict[str, Any] = {
        "sort_keys": data.draw(st.booleans()),
        "default_style": style,
        "default_flow_style": data.draw(st.sampled_from((False, False, None))),
        "width": data.draw(st.sampled_from((40, 80, 10_000))),
        "allow_unicode": data.draw(st.booleans()),
        "indent": data.draw(st.sampled_from((2, 3, 4))),
    }
    _check_same(yaml.safe_dump(tree, **options))


PIECES = st.sampled_from(
    [
        *("\n", " ", "  ", "- ", ":", ": ", "#", " #", "'", '"', "|", "|-", ">", "{}", "[", "]"),
        *("*a", "&a ", "!!str ", "\t", "---\n", "...\n", "%", "?", "? ", "<<: ", "x", "0", "-"),
        *("\n\n", "\n  ", "\n- ", "@", "`", ",", "~", "\\", "=", "key:\n", "- - ", "null"),
        *("\x07", "yes", "\r", "é"),
    ]
)
EDITS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 12), PIECES | st.just("")),
    min_size=1,
    max_size=4,
)


def _edited(text: str, edits: list[tuple[float, int, str]]) -> str:
    for fraction, cut, piece in edits:
        position = int(fraction * len(text))
        text = text[:position] + piece + text[position + cut :]
    return text


@settings(max_examples=1500)
@given(EDITS)
@example([(0.0, 0, "")])
def test_damaged_documents_are_read_the_same(
    edits: list[tuple[float, int, str]],
) -> None:
    plain = PRINTED
    _check_same(_edited(plain, edits))


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PRINTED.splitlines()), max_size=12), st.integers(0, 6))
def test_shuffled_lines_are_read_the_same(lines: list[str], cut: int) -> None:
    _check_same("".join(f"{line[min(cut, len(line) - len(line.lstrip())) :]}\n" for line in lines))


def test_all_manifests_here_are_read_the_same() -> None:
    root = Path(__file__).parents[2]
    paths = [*(root / "examples").rglob("*.yaml"), *(root / "deploy").rglob("*.yaml")]
    texts = [part for path in sorted(paths) for part in path.read_text().split("---\n")]
    assert sum(map(_check_same, texts)) > 10
