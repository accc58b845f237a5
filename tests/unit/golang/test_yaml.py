"""Decoding of YAML as by Go's YAML library.

Expected values and texts are those of sigs.k8s.io/yaml v1.6.0 over go.yaml.in/yaml/v2 v2.4.3.
"""

import pytest

from kubesched.golang.yaml import YamlError, decode_yaml


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
    document, _ = decode_yaml(f"a: {scalar}\n".encode())
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


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
def test_invalid_documents_have_gos_error(text: str, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        decode_yaml(text.encode())
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
    assert decode_yaml(text.encode())[0] == tree


def test_only_the_first_document_is_read() -> None:
    assert decode_yaml(b"a: 1\n---\n{broken")[0] == {"a": 1}


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "---\n---\na: 1\n"])
def test_an_empty_document_is_null(text: str) -> None:
    assert decode_yaml(text.encode())[0] is None


def test_keys_are_sorted_and_turned_into_strings() -> None:
    tree = decode_yaml(b"b: 1\n2: x\ntrue: y\n1.5: z\na: 2\n")[0]
    assert list(tree) == ["1.5", "2", "a", "b", "true"]


def test_a_repeated_key_is_a_strict_error_and_the_last_value_wins() -> None:
    document, strict_errors = decode_yaml(b"a: 1\nb: 2\na: 3\n")
    assert document == {"a": 3, "b": 2}
    assert strict_errors == ['yaml: unmarshal errors:\n  line 3: key "a" already set in map']


def test_a_merged_key_cannot_be_overridden() -> None:
    document, strict_errors = decode_yaml(b"a: &x {k: 1}\nb:\n  <<: *x\n  k: 2\n")
    assert document == {"a": {"k": 1}, "b": {"k": 2}}
    assert len(strict_errors) == 1
    assert 'line 4: key "k" already set in map' in strict_errors[0]


def test_of_several_merged_maps_the_first_wins() -> None:
    document, _ = decode_yaml(b"<<: [{k: 1}, {k: 2}]\n")
    assert document == {"k": 1}


def test_excessive_aliasing_is_rejected() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        aliases = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    with pytest.raises(YamlError, match="document contains excessive aliasing"):
        decode_yaml("\n".join(lines).encode())


@pytest.mark.parametrize("depth", [300, 5000])
def test_deep_nesting_is_rejected(depth: int) -> None:
    with pytest.raises(YamlError, match="exceeded max depth"):
        decode_yaml(b"a: " + b"[" * depth + b"]" * depth)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: yes", {"a": True}),
        ("a: y", {"a": True}),
        ("a: 'yes'", {"a": "yes"}),
        ("a: !!str 5", {"a": "5"}),
        ("a: 0x1F", {"a": 31}),
        ("a: 017", {"a": 15}),
        ("a: 1_000", {"a": 1000}),
        ("a: 1.0", {"a": 1}),
        ("a: 1.5e3", {"a": 1500}),
        ("a: 2020-01-01", {"a": "2020-01-01"}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("1: x", {"1": "x"}),
        ("true: x", {"true": "x"}),
        ("b: &b {x: 1}\na: *b", {"b": {"x": 1}, "a": {"x": 1}}),
        (
            "b: &b {x: 1, z: 2}\na: {<<: *b, w: 3}",
            {"b": {"x": 1, "z": 2}, "a": {"w": 3, "x": 1, "z": 2}},
        ),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("a: 1\n---\nb: 2", {"a": 1}),
        ("", None),
    ],
)
def test_plain_words_have_their_yaml_1_1_meaning(text: str, value: object) -> None:
    assert decode_yaml(text.encode()) == (value, [])


def test_repeated_keys_are_reported_with_their_lines() -> None:
    _, problems = decode_yaml(b"a: 1\nb:\n  c: 1\n  c: 2\na: 2\n")

    lines = ['  line 4: key "c" already set in map', '  line 5: key "a" already set in map']
    assert problems == ["\n".join(["yaml: unmarshal errors:", *lines])]


def test_aliases_cannot_explode() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(YamlError, match="excessive aliasing"):
        decode_yaml("\n".join(lines).encode())


@pytest.mark.parametrize("text", ["[" * 2000, "[" * 500 + "]" * 500, "a: b: c", "\x00", "a: .inf"])
def test_invalid_yaml_is_rejected(text: str) -> None:
    with pytest.raises(YamlError):
        decode_yaml(text.encode())
