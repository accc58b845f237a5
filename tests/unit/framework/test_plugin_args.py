"""Typed arguments of out-of-tree plugins: the args class, and the decoding of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kubesched.config.types import RawArgs
from kubesched.framework.runtime.plugin_args import (
    ArgsError,
    ArgsField,
    args_fields,
    args_type,
    decode_args,
)

if TYPE_CHECKING:
    from fractions import Fraction as OnlyForCheckers


class Tint(msgspec.Struct, frozen=True):
    red_part: int = 0
    name: str = ""


class SampleArgs(msgspec.Struct, frozen=True):
    favorite_color: str
    favorite_number: int = 7
    thanks_to: list[str] = []
    tints: list[Tint] = []
    by_zone: dict[str, Tint] = {}
    ratio: float | None = None


class Sample:
    def __init__(self, handle: OnlyForCheckers, args: SampleArgs) -> None:
        self.args = args

    def pre_enqueue(self, pod: Any) -> None:
        return None


class Child(Sample):
    pass


class ByNameArgs(msgspec.Struct, frozen=True):
    size: int = 1


class ByName:
    def __init__(self, args) -> None:  # type: ignore[no-untyped-def]  # As people write it.
        self.args = args


class Untaken:
    pass


class UntakenArgs(msgspec.Struct, frozen=True):
    size: int = 1


class Plain:
    def __init__(self, args: Any) -> None:
        self.args = args


class Raw:
    def __init__(self, args: RawArgs | None) -> None:
        self.args = args


class MaybeGiven:
    def __init__(self, args: ByNameArgs | None = None) -> None:
        self.args = args


class WithUnknown:
    def __init__(self, args: OnlyForCheckers) -> None:
        self.args = args


class Changeable(msgspec.Struct):
    size: int = 1


class WithChangeable:
    def __init__(self, args: Changeable) -> None:
        self.args = args


def sample_factory(args: SampleArgs, handle: Any) -> Any:
    return None


def by_name_factory(args: Any) -> ByName:
    return ByName(args)


def read(factory: Any, value: Any) -> Any:
    return decode_args(factory, RawArgs(value))


def rejection(factory: Any, value: Any) -> str:
    with pytest.raises(ArgsError) as rejected:
        read(factory, value)
    return str(rejected.value)


# -- the args class -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        pytest.param(
            Sample, SampleArgs, id="annotated, with another annotation only for type checkers"
        ),
        pytest.param(Child, SampleArgs, id="a constructor that is inherited"),
        pytest.param(MaybeGiven, ByNameArgs, id="annotated as optional"),
        pytest.param(ByName, ByNameArgs, id="by the name of the class"),
        pytest.param(sample_factory, SampleArgs, id="a factory's annotation"),
        pytest.param(by_name_factory, ByNameArgs, id="a factory by its return annotation"),
        pytest.param(Untaken, None, id="a class without the parameter"),
        pytest.param(Plain, None, id="neither annotated nor named"),
        pytest.param(Raw, None, id="undecoded"),
        pytest.param(lambda: None, None, id="a function without parameters"),
    ],
)
def test_the_args_class_is_found(factory: Any, expected: type | None) -> None:
    assert args_type(factory).struct is expected


def test_raw_arguments_need_an_annotation() -> None:
    assert args_type(Raw).is_raw
    assert not args_type(Plain).is_raw


def test_an_annotation_that_cannot_be_evaluated_is_an_error() -> None:
    with pytest.raises(ArgsError, match="the annotation 'OnlyForCheckers' of args"):
        args_type(WithUnknown)


def test_a_mutable_struct_is_rejected() -> None:
    with pytest.raises(ArgsError, match=r"class Changeable\(msgspec\.Struct, frozen=True\)$"):
        args_type(WithChangeable)


@dataclass(frozen=True)
class Loose:
    size: int = 1


def test_a_dataclass_is_rejected() -> None:
    with pytest.raises(ArgsError, match=r"write: class Loose\(msgspec\.Struct, frozen=True\)$"):
        args_type(_taking(Loose))


# -- decoding -------------------------------------------------------------------------------------


def test_keys_are_camel_case_at_every_depth_and_defaults_fill_the_rest() -> None:
    value = {
        "favoriteColor": "blue",
        "tints": [{"redPart": 3}, {"name": "dim"}],
        "byZone": {"zone_a": {"redPart": 1}},
        "ratio": 0.5,
    }
    assert read(Sample, value) == SampleArgs(
        "blue",
        7,
        [],
        [Tint(red_part=3), Tint(name="dim")],
        {"zone_a": Tint(red_part=1)},
        0.5,
    )


def test_api_version_and_kind_are_allowed() -> None:
    meta = {"apiVersion": "example.com/v1", "kind": "SampleArgs"}
    assert read(Sample, {**meta, "favoriteColor": "red"}) == SampleArgs("red")


def test_a_struct_may_have_a_field_called_kind() -> None:
    class KindArgs(msgspec.Struct, frozen=True):
        kind: str = "none"

    assert read(_taking(KindArgs), {"kind": "big", "apiVersion": "v1"}) == KindArgs("big")


def _taking(struct: type) -> Any:
    def factory(args: Any) -> None:
        return None

    factory.__annotations__["args"] = struct
    return factory


def test_a_struct_may_rename_its_fields() -> None:
    class Renamed(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
        first_part: int = 0
        other: int = msgspec.field(default=0, name="o_t_h_e_r")

    factory = _taking(Renamed)
    assert read(factory, {"first-part": 1, "o_t_h_e_r": 2}) == Renamed(1, 2)
    assert "did you mean 'first-part'?" in rejection(factory, {"firstPart": 1})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(
            {"favoriteColor": "red", "favorColor": "blue"},
            "args: unknown field 'favorColor', did you mean 'favoriteColor'?",
            id="a misspelled field",
        ),
        pytest.param(
            {"favorite_color": "red"},
            "args: unknown field 'favorite_color', did you mean 'favoriteColor'?",
            id="a field as Python spells it",
        ),
        pytest.param(
            {"favoriteColor": "red", "zzz": 1},
            "args: unknown field 'zzz', the fields are favoriteColor, favoriteNumber, thanksTo, "
            "tints, byZone, ratio",
            id="an unknown field",
        ),
        pytest.param(
            {"favoriteColor": "red", "tints": [{}, {"redPrat": 1}], "byZone": {"a": {"x": 1}}},
            "args: unknown field 'tints[1].redPrat', did you mean 'redPart'?; "
            "unknown field 'byZone.a.x', the fields are redPart, name",
            id="nested fields, all of them",
        ),
        pytest.param({}, "args: favoriteColor: a value is required", id="a missing field"),
        pytest.param(
            {"favoriteColor": "red", "favoriteNumber": "7"},
            "args: favoriteNumber: Expected `int`, got `str`",
            id="a string for a number",
        ),
        pytest.param(
            {"favoriteColor": "red", "tints": [{"redPart": 1.5}]},
            "args: tints[0].redPart: Expected `int`, got `float`",
            id="a nested value",
        ),
        pytest.param(
            {"favoriteColor": None},
            "args: favoriteColor: Expected `str`, got `null`",
            id="null for a string",
        ),
        pytest.param(["red"], "args: expected an object, got a list", id="a list"),
        pytest.param("red", "args: expected an object, got a string", id="a string"),
    ],
)
def test_an_error_names_the_path(value: Any, text: str) -> None:
    assert rejection(Sample, value) == text


def test_without_configured_args_there_are_defaults_or_none_if_optional() -> None:
    assert decode_args(ByName, None) == ByNameArgs()
    assert decode_args(MaybeGiven, None) is None
    assert read(MaybeGiven, {}) == ByNameArgs()
    with pytest.raises(ArgsError, match="favoriteColor: a value is required"):
        decode_args(Sample, None)


@pytest.mark.parametrize("factory", [Plain, Untaken, lambda: None])
def test_arguments_for_a_plugin_that_takes_none_are_an_error(factory: Any) -> None:
    assert decode_args(factory, None) is None
    assert rejection(factory, {"a": 1}).startswith("args are given, but the plugin takes none: ")
    assert rejection(factory, {}).startswith("args are given, but the plugin takes none: ")


def test_raw_arguments_are_passed_unchanged() -> None:
    raw = RawArgs({"any": ["thing"]})
    assert decode_args(Raw, raw) is raw
    assert decode_args(Raw, None) is None


# -- validating -----------------------------------------------------------------------------------


class RaisingArgs(msgspec.Struct, frozen=True):
    size: int = 0

    def validate(self) -> None:
        if self.size < 0:
            raise ValueError("size: must not be negative")


class ListingArgs(msgspec.Struct, frozen=True):
    size: int = 0

    def validate(self) -> list[str]:
        return [] if self.size else ["size: must be set", "and so on"]


class PostInitArgs(msgspec.Struct, frozen=True):
    size: int = 0

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("size: must not be negative")


def test_a_struct_validates_itself() -> None:
    assert read(_taking(RaisingArgs), {"size": 1}) == RaisingArgs(1)
    assert rejection(_taking(RaisingArgs), {"size": -1}) == "args: size: must not be negative"
    assert read(_taking(ListingArgs), {"size": 1}) == ListingArgs(1)
    assert rejection(_taking(ListingArgs), {}) == "args: size: must be set; and so on"
    assert rejection(_taking(PostInitArgs), {"size": -1}) == "args: size: must not be negative"


def test_defaults_are_validated_too() -> None:
    with pytest.raises(ArgsError, match="size: must be set"):
        decode_args(_taking(ListingArgs), None)


# -- fields ---------------------------------------------------------------------------------------


def test_fields_have_their_names_in_a_configuration() -> None:
    fields = args_fields(SampleArgs)
    assert fields[:3] == [
        ArgsField("favoriteColor", "str", required=True),
        ArgsField("favoriteNumber", "int", default=7),
        ArgsField("thanksTo", "list[str]", default=[]),
    ]
    assert fields[-1] == ArgsField("ratio", "float | None", default=None)
