"""Decoding any document returns an object or raises MalformedObject."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.check import check_object
from kubesched.api.decode import STRUCTS, KubeObject, decode_object
from kubesched.api.errors import MalformedObject
from kubesched.api.shapes import Shape, shape_of

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**20, 10**30)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "1Gi", "x", "In", "2024-05-02T08:00:00Z", "\ud800"])
)
KEYS = st.text(max_size=5)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def near(shape: Shape, depth: int = 0) -> st.SearchStrategy[Any]:
    """Documents that mostly follow a shape, so that odd values are found deep inside too."""
    if shape.fields:
        return st.lists(st.sampled_from(sorted(shape.fields)), max_size=3, unique=True).flatmap(
            lambda chosen: st.fixed_dictionaries(
                {name: near(shape.fields[name][1], depth + 1) for name in chosen}
            )
        )
    if shape.item is not None and shape.is_map:
        return st.dictionaries(KEYS, near(shape.item, depth + 1), max_size=2)
    if shape.item is not None:
        return st.lists(near(shape.item, depth + 1), max_size=2)
    return ANYTHING if depth < 2 else LEAVES


DOCUMENTS = st.sampled_from(sorted(STRUCTS)).flatmap(
    lambda known: near(shape_of(STRUCTS[known])).map(
        lambda parts: {**parts, "apiVersion": known[0], "kind": known[1]}
    )
)


def decode_and_check(data: Any) -> KubeObject | None:
    """Return the object, or None where it is malformed; anything else raised fails the test."""
    malformed: MalformedObject | None = None
    obj: KubeObject | None = None
    try:
        obj = decode_object(data)
        check_object(obj)
    except MalformedObject as error:
        malformed = error
    assert malformed is None or str(malformed).isprintable()
    return obj if malformed is None else None


@given(document=st.dictionaries(KEYS, ANYTHING, max_size=3) | DOCUMENTS)
@settings(max_examples=300)
def test_any_mapping(document: dict[str, Any]) -> None:
    decode_and_check(document)


@given(document=ANYTHING | DOCUMENTS)
@settings(max_examples=300)
def test_any_json_text(document: Any) -> None:
    text = json.dumps(document)
    from_text = decode_and_check(text)
    from_bytes = decode_and_check(text.encode())
    assert from_text == from_bytes


@given(data=st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    decode_and_check(data)
    decode_and_check(b'{"apiVersion":"v1","kind":"Pod","metadata":' + data + b"}")


@given(document=DOCUMENTS, odd=ANYTHING)
def test_nulls_do_not_make_a_valid_document_malformed(document: dict[str, Any], odd: Any) -> None:
    sound = dict.fromkeys(document)
    sound |= {"apiVersion": document["apiVersion"], "kind": document["kind"], "unknown": odd}
    decoded = decode_object(sound)
    assert decoded == STRUCTS[document["apiVersion"], document["kind"]]()
