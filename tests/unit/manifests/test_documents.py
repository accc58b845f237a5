import io
import json
from pathlib import Path

import pytest

from kubesched.manifests.documents import ManifestError
from kubesched.manifests.objects import read_manifests

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: %s}\n"


def names(*paths: Path | str, stdin: bytes = b"") -> list[str]:
    found = read_manifests([str(path) for path in paths], stdin=io.BytesIO(stdin)).objects
    return [f"{obj.kind} {obj.key}" for obj in found if obj.key != "default"]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NODE % "a" + "---\n" + NODE % "b", id="two documents"),
        pytest.param("---\n" + NODE % "a" + "---\n" + NODE % "b" + "---\n", id="separators around"),
        pytest.param(
            "---\n# nothing\n---\n" + NODE % "a" + "--- # next\n" + NODE % "b", id="comments"
        ),
        pytest.param(NODE % "a" + "...\n---\n" + NODE % "b" + "...\n", id="ends of documents"),
        pytest.param(NODE % "a" + "...\n" + NODE % "b", id="an end in place of a separator"),
        pytest.param((NODE % "a" + "---\n" + NODE % "b").replace("\n", "\r\n"), id="windows lines"),
        pytest.param("\ufeff" + NODE % "a" + "---\n" + NODE % "b", id="a byte order mark"),
        pytest.param(
            "null\n---\n" + NODE % "a" + "---\n~\n---\n" + NODE % "b", id="empty documents"
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems:\n"
            "- {apiVersion: v1, kind: Node, metadata: {name: a}}\n"
            "- {apiVersion: v1, kind: Node, metadata: {name: b}}\n",
            id="a list",
        ),
        pytest.param(
            "kind: NodeList\napiVersion: v1\nmetadata: {resourceVersion: '7'}\nitems:\n"
            "- {metadata: {name: a}}\n- {metadata: {name: b}}\n",
            id="a typed list with untyped items",
        ),
        pytest.param(
            '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}\n'
            '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}\n',
            id="concatenated JSON values",
        ),
        pytest.param(
            '[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}},'
            ' {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}]',
            id="a JSON array",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n"
            "{apiVersion: v1, kind: Node, metadata: {name: b}}\n",
            id="YAML that starts like JSON",
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems:\n- kind: List\n  apiVersion: v1\n  items:\n"
            "  - &a {apiVersion: v1, kind: Node, metadata: {name: a}}\n"
            "- {<<: *a, metadata: {name: b}}\n",
            id="lists within lists, an alias and a merge",
        ),
    ],
)
def test_both_nodes_are_read(tmp_path: Path, text: str) -> None:
    assert names(write(tmp_path / "nodes.yaml", text)) == ["Node a", "Node b"]


def test_a_directory_yields_its_manifests_by_name(tmp_path: Path) -> None:
    write(tmp_path / "b.yml", NODE % "b")
    write(tmp_path / "a.yaml", NODE % "a")
    write(
        tmp_path / "c.json",
        json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}),
    )
    write(tmp_path / "README.md", "not: a\nmanifest")
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper" / "d.yaml", NODE % "d")
    assert names(tmp_path) == ["Node a", "Node b", "Node c"]


def test_standard_input_is_read_among_files(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", NODE % "a")
    assert names(file, "-", stdin=(NODE % "b").encode()) == ["Node a", "Node b"]


def test_times_stay_text(tmp_path: Path) -> None:
    file = write(
        tmp_path / "pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, creationTimestamp: 2026-03-02T08:00:00Z}\n"
        "status: {startTime: 2026-03-02T08:00:01Z}\n",
    )
    pod = read_manifests([str(file)]).objects[0]
    assert pod.metadata.creation_timestamp == "2026-03-02T08:00:00Z"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"\xff\xfe", "not UTF-8 (byte 0)", id="bytes that are not UTF-8"),
        pytest.param("a: [1", "document 1: yaml: line", id="an open bracket"),
        pytest.param(
            NODE % "a" + "---\nkind: Node\n  metadata: x\n",
            "document 2: yaml: line 6: mapping values are not allowed in this context",
            id="the line is the file's, not the document's",
        ),
        pytest.param(
            "a: &x [*x]", "document 1: yaml: anchor 'x' value contains itself", id="a loop"
        ),
        pytest.param("a: *x", "document 1: yaml: unknown anchor 'x' referenced", id="no anchor"),
        pytest.param(
            "--- a\n", "invalid Yaml document separator: 'a'", id="text after a separator"
        ),
        pytest.param("just text", "document 1: expected an object, got 'just text'", id="a text"),
        pytest.param("- 1\n- 2\n", "document 1[0]: expected an object, got 1", id="numbers"),
        pytest.param("{}", "document 1: object: Object 'Kind' is missing", id="nothing inside"),
        pytest.param(
            "kind: Pod\nmetadata:\n\tname: a\n",
            "found character that cannot start any token; line 3 is indented with a tab, YAML "
            "requires spaces",
            id="tabs",
        ),
        pytest.param(
            "NAME     STATUS\nnode-1   Ready\n",
            "'NAME     STATUS node-1   Ready'; this is a table, use kubectl get -o yaml or -o json",
            id="a table of kubectl",
        ),
        pytest.param(
            "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: a\n",
            "'Kind' is missing; the list has no kind, the file may be truncated",
            id="a list that was cut off between two lines",
        ),
        pytest.param(
            "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  meta",
            "could not find expected ':'; the file may be truncated",
            id="a list that was cut off within a line",
        ),
        pytest.param(
            'a: b\nc: "d\n',
            "; the file may be truncated",
            id="a text that was cut off",
        ),
        pytest.param("kind: Pod", "Object 'apiVersion' is missing", id="no version"),
        pytest.param(
            "{apiVersion: v1, kind: List, items: {}}",
            "document 1: List: items: expected an array, got {}",
            id="a list of another type",
        ),
        pytest.param('{"a": ' * 100_000, "nested too deeply|yaml: |not readable", id="depth"),
        pytest.param(
            '{"kind":"List","apiVersion":"v1","items":[' * 12 + "]}" * 12,
            "more than 10 nested lists",
            id="lists without end",
        ),
    ],
)
def test_an_error_is_reported_in_one_line(tmp_path: Path, text: str | bytes, problem: str) -> None:
    file = write(tmp_path / "bad.yaml", text)
    with pytest.raises(ManifestError) as raised:
        names(file)
    shown = str(raised.value)
    assert shown.startswith(f"{file}: ")
    assert any(part in shown for part in problem.split("|"))
    assert "\n" not in shown
    assert len(shown) < 1000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no byte"),
        pytest.param("# nothing\n---\n", id="comments alone"),
        pytest.param("null\n", id="a null"),
    ],
)
def test_a_file_without_objects_is_reported(tmp_path: Path, text: str) -> None:
    empty = write(tmp_path / "empty.yaml", text)
    filled = write(tmp_path / "filled.yaml", NODE % "a")
    notes = read_manifests([str(empty), str(filled)]).notes
    assert f"{empty}: no objects" in notes
    assert not any("filled" in note for note in notes)


def test_an_empty_list_is_valid(tmp_path: Path) -> None:
    file = write(tmp_path / "none.json", '{"apiVersion": "v1", "kind": "List", "items": []}')
    assert read_manifests([str(file)]).notes == ()


def test_aliases_cannot_explode(tmp_path: Path) -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10))
    file = write(tmp_path / "laughs.yaml", f"l0: &l0 [a]\n{levels}\n")
    with pytest.raises(ManifestError, match="document contains excessive aliasing"):
        names(file)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("missing.yaml", "No such file or directory", id="a missing file"),
        pytest.param(
            "empty", "the directory has no .yaml, .yml, .json files", id="an empty directory"
        ),
        pytest.param("nul\0.yaml", "null", id="a name that no file can have"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, path: str, problem: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ManifestError) as raised:
        names(tmp_path / path)
    assert problem in str(raised.value)
    assert path.split("\0", maxsplit=1)[0] in str(raised.value)


def test_malformed_json_is_not_tried_as_yaml(tmp_path: Path) -> None:
    file = write(tmp_path / "bad.json", '{"kind": "Node", }')
    with pytest.raises(ManifestError, match="invalid JSON") as raised:
        names(file)
    assert "cut off" not in str(raised.value)


@pytest.mark.parametrize("length", range(1, 60, 7))
def test_truncated_json_gets_a_hint(tmp_path: Path, length: int) -> None:
    whole = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}'
    file = write(tmp_path / "bad.json", whole[:length])
    with pytest.raises(ManifestError, match=r"; the file may be truncated$"):
        names(file)
