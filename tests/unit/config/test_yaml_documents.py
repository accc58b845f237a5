"""What Go's YAML library makes of a document.

Expected values and texts are those of sigs.k8s.io/yaml v1.6.0 over go.yaml.in/yaml/v2 v2.4.3.
"""

import pytest

from kubesched.config.gojson import to_builtins
from kubesched.config.goyaml import yaml_to_json
from kubesched.config.yaml_scalars import YamlError


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        pytest.param("yes", True, id="YAML 1.1 booleans: yes"),
        pytest.param("off", False, id="YAML 1.1 booleans: off"),
        pytest.param("y", True, id="even a single letter"),
        pytest.param("~", None, id="tilde is null"),
        pytest.param("", None, id="nothing is null"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("017", 15, id="a leading zero is octal"),
        pytest.param("0o17", 15, id="and so is 0o"),
        pytest.param("08", 8, id="not octal, so a float"),
        pytest.param("0b11", 3, id="binary"),
        pytest.param("1_000", 1000, id="underscores are passed over"),
        pytest.param("+1", 1, id="an explicit plus"),
        pytest.param("1e3", 1000, id="a whole float is written without a point"),
        pytest.param("12.5", 12.5, id="a float"),
        pytest.param("1e400", "1e400", id="too large a float is a string"),
        pytest.param("18446744073709551615", (1 << 64) - 1, id="the largest unsigned integer"),
        pytest.param("2001-01-01", "2001-01-01", id="a date stays a string"),
        pytest.param("1:30", "1:30", id="no base 60"),
        pytest.param("'5'", "5", id="quotes make strings"),
        pytest.param("!!str 5", "5", id="and so does a tag"),
        pytest.param("!!float 3", 3, id="an integer may be tagged a float"),
        pytest.param("!!binary aGk=", "hi", id="binary is decoded"),
        pytest.param("!local 5", "5", id="unknown tags leave strings"),
        pytest.param("! 5", "5", id="the non-specific tag makes a string"),
    ],
)
def test_scalars_are_resolved_as_go_resolves_them(scalar: str, value: object) -> None:
    document = yaml_to_json(f"a: {scalar}\n".encode())
    assert to_builtins(document.tree) == {"a": value}
    assert type(to_builtins(document.tree)["a"]) is type(value)  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "a: b: c", "yaml: mapping values are not allowed in this context", id="first line"
        ),
        pytest.param(
            "a: 1\nb: c: d",
            "yaml: line 2: mapping values are not allowed in this context",
            id="line",
        ),
        pytest.param(
            "a:\n\t- b", "yaml: line 2: found character that cannot start any token", id="tab"
        ),
        pytest.param(
            "z: 1\na: {b:{c: 1}}", "yaml: line 1: did not find expected ',' or '}'", id="no space"
        ),
        pytest.param(
            "z: 1\na: {b: http://x/y?z=1}",
            "yaml: line 1: did not find expected ',' or '}'",
            id="a question mark in braces",
        ),
        pytest.param(
            "z: 1\na: {b: c\n  d?e}",
            "yaml: line 2: did not find expected ',' or '}'",
            id="a question mark in the second line of a scalar",
        ),
        pytest.param(
            "z: 1\na: [b: c?d]",
            "yaml: line 1: did not find expected ',' or ']'",
            id="a question mark in a pair in brackets",
        ),
        pytest.param(
            "[a?b]", "yaml: did not find expected ',' or ']'", id="a question mark in line one"
        ),
        pytest.param("a: *x", "yaml: unknown anchor 'x' referenced", id="unknown anchor"),
        pytest.param("a: &x [*x]", "yaml: anchor 'x' value contains itself", id="endless anchor"),
        pytest.param(
            "a: {{ x }}",
            'yaml: invalid map key: map[interface {}]interface {}{"x":interface {}(nil)}',
            id="an unrendered template",
        ),
        pytest.param(
            "<<: 5", "yaml: map merge requires map or sequence of maps as the value", id="merge"
        ),
        pytest.param("a: !!int x", "yaml: cannot decode !!str `x` as a !!int", id="wrong tag"),
        pytest.param("a: .nan", "json: unsupported value: NaN", id="not a number"),
        pytest.param(
            "a: !!binary '*'", "yaml: !!binary value contains invalid base64 data", id="base64"
        ),
        pytest.param("a: \x07", "yaml: control characters are not allowed", id="control character"),
        pytest.param(
            "%YAML 1.2\n---\na: 1", "yaml: found incompatible YAML document", id="YAML 1.2"
        ),
        pytest.param(
            "~: 1",
            "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1",
            id="null as a key",
        ),
    ],
)
def test_refused_documents_are_named_as_go_names_them(text: str, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        yaml_to_json(text.encode())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        pytest.param("{a:}", {"a:": None}, id="before a brace"),
        pytest.param("[a:, b::, c]", ["a:", "b::", "c"], id="before commas"),
        pytest.param("{a:b, é: c:}", {"a:b": None, "é": "c:"}, id="after other letters"),
        pytest.param("\ufeff{\ue000:}", {"\ue000:": None}, id="beside odd letters"),
        pytest.param("{a: 'b?c:', d: \"e?\"}", {"a": "b?c:", "d": "e?"}, id="in quotes"),
        pytest.param("a: b?c:d", {"a": "b?c:d"}, id="outside of braces"),
    ],
)
def test_a_colon_before_a_brace_belongs_to_the_scalar(text: str, tree: object) -> None:
    assert to_builtins(yaml_to_json(text.encode()).tree) == tree


def test_only_the_first_document_is_read() -> None:
    assert to_builtins(yaml_to_json(b"a: 1\n---\n{broken").tree) == {"a": 1}


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "---\n---\na: 1\n"])
def test_an_empty_document_is_null(text: str) -> None:
    assert yaml_to_json(text.encode()).tree is None


def test_keys_are_sorted_and_turned_into_strings() -> None:
    tree = to_builtins(yaml_to_json(b"b: 1\n2: x\ntrue: y\n1.5: z\na: 2\n").tree)
    assert list(tree) == ["1.5", "2", "a", "b", "true"]  # type: ignore[call-overload]


def test_a_repeated_key_is_a_strict_error_and_the_last_value_wins() -> None:
    document = yaml_to_json(b"a: 1\nb: 2\na: 3\n")
    assert to_builtins(document.tree) == {"a": 3, "b": 2}
    assert document.strict_error == (
        'yaml: unmarshal errors:\n  line 3: key "a" already set in map'
    )


def test_a_merged_key_cannot_be_overridden() -> None:
    document = yaml_to_json(b"a: &x {k: 1}\nb:\n  <<: *x\n  k: 2\n")
    assert to_builtins(document.tree) == {"a": {"k": 1}, "b": {"k": 2}}
    assert document.strict_error is not None
    assert 'line 4: key "k" already set in map' in document.strict_error


def test_of_several_merged_maps_the_first_wins() -> None:
    document = yaml_to_json(b"<<: [{k: 1}, {k: 2}]\n")
    assert to_builtins(document.tree) == {"k": 1}


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        aliases = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    with pytest.raises(YamlError, match="document contains excessive aliasing"):
        yaml_to_json("\n".join(lines).encode())


@pytest.mark.parametrize("depth", [300, 5000])
def test_deep_nesting_ends_in_a_message(depth: int) -> None:
    with pytest.raises(YamlError, match="exceeded max depth"):
        yaml_to_json(b"a: " + b"[" * depth + b"]" * depth)
