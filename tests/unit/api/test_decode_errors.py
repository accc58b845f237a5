"""Errors of malformed documents name kind, object, field and value."""

import pickle
from typing import Any

import pytest

from kubesched.api.decode import decode_as, decode_object
from kubesched.api.errors import MalformedObject, short_repr
from kubesched.api.pod import Pod


def a_pod(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, **parts}


@pytest.mark.parametrize(
    ("document", "field", "value", "problem"),
    [
        pytest.param(
            a_pod(spec={"nodeName": 5}),
            "spec.nodeName",
            "5",
            "Expected `str`, got `int`",
            id="type",
        ),
        pytest.param(
            a_pod(spec={"containers": [{}, {"ports": [{"hostPort": "80"}]}]}),
            "spec.containers[1].ports[0].hostPort",
            "'80'",
            "Expected `int`, got `str`",
            id="deep inside lists",
        ),
        pytest.param(
            a_pod(spec={"containers": [{"resources": {"requests": {"memory": "1", "cpu": True}}}]}),
            "spec.containers[0].resources.requests.cpu",
            "True",
            "Expected `int | float | str`, got `bool`",
            id="the entry of a map",
        ),
        pytest.param(
            a_pod(spec={"overhead": {"a.io/b": []}}),
            "spec.overhead[a.io/b]",
            "[]",
            "Expected `int | float | str`, got `array`",
            id="an entry whose key is not a plain word",
        ),
        pytest.param(
            a_pod(spec={"nodeSelector": {"a": None, "b": 1}}),
            "spec.nodeSelector.b",
            "1",
            "Expected `str`, got `int`",
            id="beside a null, which is fine",
        ),
        pytest.param(
            a_pod(spec={"priority": 2**31}),
            "spec.priority",
            "2147483648",
            "Expected `int` <= 2147483647",
            id="an integer past 32 bits",
        ),
        pytest.param(
            a_pod(spec={"priority": 1.5}),
            "spec.priority",
            "1.5",
            "Expected `int | null`, got `float`",
            id="a fraction for an integer",
        ),
        pytest.param(
            a_pod(spec=[]), "spec", "[]", "Expected `object`, got `array`", id="a list for a struct"
        ),
    ],
)
def test_field_and_value_are_named(
    document: dict[str, Any], field: str, value: str, problem: str
) -> None:
    with pytest.raises(MalformedObject) as caught:
        decode_object(document)
    error = caught.value
    assert (error.kind, error.key) == ("Pod", "d/p")
    assert (error.field, error.value, error.problem) == (field, value, problem)
    assert str(error) == f"Pod d/p: {field}: {problem} (value {value})"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "object: not readable as JSON: Input data was truncated", id="nothing"),
        pytest.param(
            b"[1]", "object: Expected `object`, got `array` (value [1])", id="a list at the top"
        ),
        pytest.param(b"{}", "object: Object 'Kind' is missing", id="no kind"),
        pytest.param(
            b'{"kind": "Pod"}',
            "Pod: kind: Object 'apiVersion' is missing (value 'Pod')",
            id="no version",
        ),
        pytest.param(
            b'{"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "x"}}',
            "Foo x: kind: no kind 'Foo' is known for version 'v1' (value 'Foo')",
            id="an unknown kind",
        ),
        pytest.param(
            b'{"apiVersion": "apps/v1", "kind": "Pod"}',
            "Pod: kind: no kind 'Pod' is known for version 'apps/v1' (value 'Pod')",
            id="a known kind of the wrong group",
        ),
        pytest.param(
            b'{"kind": ["x"]}',
            "object: kind: Expected `str | null`, got `array` (value ['x'])",
            id="a kind that is not a string",
        ),
    ],
)
def test_documents_without_a_known_kind(data: bytes, text: str) -> None:
    with pytest.raises(MalformedObject) as caught:
        decode_object(data)
    assert str(caught.value) == text


HEAD = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, '


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HEAD + b'"spec": {"nodeName": "\xff"}}', id="bytes that are not UTF-8"),
        pytest.param(HEAD + b'"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", id="deep nesting"),
        pytest.param(HEAD + b'"spec": {"priority": ' + b"9" * 6000 + b"}}", id="a huge integer"),
        pytest.param(HEAD + b'"spec": {"overhead": {"cpu": NaN}}}', id="NaN"),
        pytest.param(HEAD + b'"spec": {"overhead": {"cpu": 1e999}}}', id="a float out of range"),
        pytest.param(HEAD + b'"spec": {"nodeName": "\\ud800"}}', id="half a surrogate pair"),
        pytest.param('{"kind": "\ud800"}', id="half a surrogate pair in a Python text"),
        pytest.param(HEAD + b'"spec": {"nodeName": "x"', id="a truncated document"),
        pytest.param(a_pod(spec={1: 2, "nodeName": object()}), id="odd Python values"),
        pytest.param(a_pod(spec={"priority": 10**6000}), id="a huge Python integer"),
    ],
)
def test_hostile_documents_raise_only_malformed_object(data: Any) -> None:
    with pytest.raises(MalformedObject) as caught:
        decode_object(data)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_the_requested_type_names_the_kind_of_a_list_item() -> None:
    with pytest.raises(MalformedObject) as caught:
        decode_as(Pod, b'{"metadata": {"name": "p"}, "spec": {"nodeName": 1}}')
    assert str(caught.value) == "Pod p: spec.nodeName: Expected `str`, got `int` (value 1)"


def test_the_error_survives_pickling() -> None:
    error = MalformedObject(kind="Pod", key="d/p", field="spec", value="1", problem="wrong")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "Pod d/p: spec: wrong (value 1)"
    assert (copy.kind, copy.key, copy.field, copy.value, copy.problem) == (
        "Pod", "d/p", "spec", "1", "wrong",
    )  # fmt: skip


def test_long_values_are_shortened() -> None:
    with pytest.raises(MalformedObject) as caught:
        decode_object(
            {"kind": "K" * 9999, "apiVersion": "v" * 9999, "metadata": {"name": "n" * 9999}}
        )
    assert len(str(caught.value)) < 2000
    assert len(short_repr("x" * 1000)) < 100
    assert short_repr([10**6000]) == "[an integer of 19932 bits]"
    assert short_repr("a\nb") == r"'a\nb'"
