"""Schemas of custom resources in protobuf: a schema, or a bool or list in its place."""

from kubesched.cluster.apiserver.http.protobuf import decode_protobuf


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def test_all_forms_of_a_schema_are_read() -> None:
    string = _text(5, "string")  # JSONSchemaProps.type
    yes = bytes([1 << 3, 1])  # JSONSchemaPropsOrBool.allows
    # Numbers over 15 take a tag of two bytes: items is 24, additionalProperties 30.
    items = bytes([0xC2, 0x01, len(_field(1, string))]) + _field(1, string)
    extra_schema = yes + _field(2, string)
    extra = bytes([0xF2, 0x01, len(extra_schema)]) + extra_schema
    extra_bool = bytes([0xF2, 0x01, len(yes)]) + yes
    properties = b"".join(
        bytes([0xEA, 0x01, len(entry)]) + entry  # JSONSchemaProps.properties is 29.
        for entry in (
            _text(1, "a") + _field(2, items),
            _text(1, "b") + _field(2, extra),
            _text(1, "c") + _field(2, extra_bool),
        )
    )
    version = _text(1, "v1") + _field(4, _field(1, properties))
    spec = _text(1, "ex.io") + _field(7, version)
    kind = _text(1, "apiextensions.k8s.io/v1") + _text(2, "CustomResourceDefinition")

    document = decode_protobuf(b"k8s\x00" + _field(1, kind) + _field(2, _field(2, spec)))

    assert document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] == {
        "a": {"items": {"type": "string"}},
        "b": {"additionalProperties": {"type": "string"}},
        "c": {"additionalProperties": True},
    }
