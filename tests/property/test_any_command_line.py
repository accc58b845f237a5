"""Any command line is either accepted or rejected with an error message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubesched.run.options.parse import OptionsError, parse_options
from kubesched.run.options.scheduler_flags import scheduler_flags
from kubesched.run.options.values import Options

NAMES = [flag.name for flag in scheduler_flags()]
VALUES = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "true", "0", "1s", "a=b", "a,b", "1.35", "kube=1.35", "::", "1Ki", '"']),
    st.integers().map(str),
    st.floats().map(str),
    st.text("0123456789.+-eExXpP_aAbBoOinfNy=,:\"'smhuµ[]*/ \n", max_size=12),
)
# How Python decodes arguments that are not UTF-8.
RAW = st.binary(max_size=12).map(lambda data: data.decode("utf-8", "surrogateescape"))


@st.composite
def arguments(draw: st.DrawFn) -> list[str]:
    made: list[str] = []
    for _ in range(draw(st.integers(0, 5))):
        name = draw(st.one_of(st.sampled_from(NAMES), st.text(max_size=8)))
        value = draw(st.one_of(VALUES, RAW))
        forms = ([f"--{name}={value}"], [f"--{name}", value], [f"-{value}"], [value])
        made += draw(st.sampled_from(forms))
    return made


@given(arguments())
def test_a_command_line_is_understood_or_rejected(given_arguments: list[str]) -> None:
    found: Options | OptionsError
    try:
        found = parse_options(given_arguments)
    except OptionsError as problem:
        found = problem
    assert isinstance(found, Options) or str(found)


@given(st.sampled_from(NAMES), VALUES)
def test_a_value_that_is_taken_can_be_given_again(name: str, value: str) -> None:
    """What a flag shows of its value is read as the same value."""
    flags = scheduler_flags()
    kind = flags.flag(name).type.name
    try:
        flags.set(name, value)
    except ValueError:
        return
    shown = flags.text(name)
    if kind in ("int32Slice", "stringSlice", "stringArray", "stringToString"):
        shown = shown.removeprefix("[").removesuffix("]")
    if kind in ("namedCertKey", "stringArray") or not shown:
        return
    again = scheduler_flags()
    again.set(name, shown)
    assert again.text(name) == flags.text(name)
