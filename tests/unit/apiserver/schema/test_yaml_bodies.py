import pytest

from kubesched.apiserver.yaml_bodies import NotYamlError, decode_yaml


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
        ("b: &b {x: 1, z: 2}\na: {<<: *b, z: 3}", {"b": {"x": 1, "z": 2}, "a": {"x": 1, "z": 3}}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("a: 1\n---\nb: 2", {"a": 1}),
        ("", None),
    ],
)
def test_plain_words_mean_what_yaml_1_1_says(text: str, value: object) -> None:
    assert decode_yaml(text.encode()) == (value, [])


def test_keys_given_twice_are_named_with_their_lines() -> None:
    _, problems = decode_yaml(b"a: 1\nb:\n  c: 1\n  c: 2\na: 2\n")

    lines = ['  line 4: key "c" already set in map', '  line 5: key "a" already set in map']
    assert problems == ["\n".join(["yaml: unmarshal errors:", *lines])]


def test_aliases_cannot_blow_a_document_up() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(NotYamlError, match="excessive aliasing"):
        decode_yaml("\n".join(lines).encode())


@pytest.mark.parametrize("text", ["[" * 2000, "[" * 500 + "]" * 500, "a: b: c", "\x00", "a: .inf"])
def test_what_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(NotYamlError):
        decode_yaml(text.encode())
