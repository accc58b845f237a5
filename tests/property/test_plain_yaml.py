"""Plain YAML is read line by line just as the full reader reads it, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubesched.config.gojson import to_builtins
from kubesched.config.goyaml import yaml_to_json
from kubesched.config.plain_yaml import PlainYamlReader
from kubesched.config.yaml_scalars import YamlError

# As `kubectl get pod -o yaml` prints it.
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


def _by_full_reader(data: bytes) -> tuple[str, str | None]:
    """Return what the full reader says, keys in its order, or that it refuses."""
    try:
        document = yaml_to_json(data)
    except YamlError as problem:
        return f"refused: {problem}", None
    return json.dumps(to_builtins(document.tree)), document.strict_error


def _check_same(text: str, reader: PlainYamlReader | None = None) -> bool:
    """Return whether a text is plain; if it is, both readers must read the same."""
    data = text.encode()
    tree = (reader or PlainYamlReader()).read(data)
    if tree is None:
        return False
    assert (json.dumps(tree), None) == _by_full_reader(data)
    return True


def test_what_kubectl_prints_is_plain() -> None:
    text = PRINTED
    assert _check_same(text)
    tree = PlainYamlReader().read(text.encode())
    assert tree is not None
    container = tree["spec"]["containers"][0]
    assert container["args"][2] == 'if true; then\n\n  echo "hello: world" # not a comment\nfi'
    assert container["env"][0] == {"name": "EMPTY"}
    assert container["env"][2] == {"name": "SHARE", "value": 12.5}
    condition = tree["status"]["conditions"][0]
    assert "It isn't the scheduler, preemption: 0/5" in condition["message"]
    assert condition["reason"].endswith("quoted by anybody")
    assert (container["resources"], container["tolerations"]) == ({}, [])


def test_lines_that_were_seen_before_do_not_share_what_is_in_them() -> None:
    reader = PlainYamlReader()
    first, second = reader.read(b"a: {}\nb: []\n"), reader.read(b"a: {}\nb: []\n")
    assert first is not None
    assert second is not None
    first["a"]["x"] = 1
    first["b"].append(1)
    assert second == {"a": {}, "b": []}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: b\n\n  c\n", id="a scalar with an empty line in it"),
        pytest.param("a: b\n  c: d\n", id="a mapping in the place of a scalar's next line"),
        pytest.param("a: 'b\n\n  c'\n", id="quotes over three lines, one empty"),
        pytest.param("a: 'b\nc'\n", id="quotes over two lines, not indented"),
        pytest.param("a:\n  b\n", id="a scalar on the next line"),
        pytest.param('a: "\\n"\n', id="an escape"),
        pytest.param("a: &x b\nc: *x\n", id="an alias"),
        pytest.param("a: b # c\n", id="a comment"),
        pytest.param("a: 1\na: 2\n", id="a key twice"),
        pytest.param("yes: 1\n", id="a key that is no string"),
        pytest.param("a: [1, 2]\n", id="flow style"),
        pytest.param("a: b: c\n", id="a mapping within a line"),
        pytest.param("a:\n\tb: c\n", id="a tab"),
        pytest.param("a: é\n", id="beyond ASCII"),
        pytest.param("a: |\n  b\n\nc: d\n", id="an empty line after a literal block"),
        pytest.param("a: |\n\n  b\n", id="an empty line before one"),
        pytest.param("a: >\n  b\n", id="a folded block"),
        pytest.param("- a\n", id="a sequence"),
        pytest.param("a: .nan\n", id="not a number"),
        pytest.param("a: b", id="no line break at the end"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_is_not_plain_is_left_to_the_full_reader(text: str) -> None:
    assert PlainYamlReader().read(text.encode()) is None


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
def test_dumped_trees_are_read_the_same_or_not_at_all(tree: Any, data: st.DataObject) -> None:
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
    for where, cut, piece in edits:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + cut :]
    return text


@settings(max_examples=1500)
@given(EDITS)
@example([(0.0, 0, "")])
def test_damaged_documents_are_read_the_same_or_not_at_all(
    edits: list[tuple[float, int, str]],
) -> None:
    plain = PRINTED
    _check_same(_edited(plain, edits))


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PRINTED.splitlines()), max_size=12), st.integers(0, 6))
def test_shuffled_lines_are_read_the_same_or_not_at_all(lines: list[str], cut: int) -> None:
    _check_same("".join(f"{line[min(cut, len(line) - len(line.lstrip())) :]}\n" for line in lines))


def test_all_manifests_here_are_read_the_same_or_not_at_all() -> None:
    root = Path(__file__).parents[2]
    reader = PlainYamlReader()
    plain = 0
    for path in sorted((root / "examples").rglob("*.yaml")) + sorted(
        (root / "deploy").rglob("*.yaml")
    ):
        plain += sum(_check_same(part, reader) for part in path.read_text().split("---\n"))
    assert plain > 10
