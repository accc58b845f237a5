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
    result: list[str] = []
    for _ in range(draw(st.integers(0, 5))):
        name = draw(st.one_of(st.sampled_from(NAMES), st.text(max_size=8)))
        value = draw(st.one_of(VALUES, RAW))
        forms = ([f"--{name}={value}"], [f"--{name}", value], [f"-{value}"], [value])
        result += draw(st.sampled_from(forms))
    return result


@given(arguments())
def test_a_command_line_is_understood_or_rejected(given_arguments: list[str]) -> None:
    result: Options | OptionsError
    try:
        result = parse_options(given_arguments)
    except OptionsError as problem:
        result = problem
    assert isinstance(result, Options) or str(result)


@given(st.sampled_from(NAMES), VALUES)
def test_an_accepted_value_is_printed_and_read_the_same(name: str, value: str) -> None:
    """The printed value of a flag is parsed to the same value."""
    flags = scheduler_flags()
    kind = flags.flag(name).type.name
    try:
        flags.set(name, value)
    except ValueError:
        return
    text = flags.text(name)
    if kind in ("int32Slice", "stringSlice", "stringArray", "stringToString"):
        text = text.removeprefix("[").removesuffix("]")
    if kind in ("namedCertKey", "stringArray") or not text:
        return
    parsed = scheduler_flags()
    parsed.set(name, text)
    assert parsed.text(name) == flags.text(name)
