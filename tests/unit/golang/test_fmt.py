"""Formats without arguments."""

import pytest

from kubesched.golang.fmt import go_format_without_args


# The answers are those of fmt.Sprintf of Go 1.26.
@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("no sign at all", "no sign at all"),
        ("100%", "100%!(NOVERB)"),
        ("100% sure", "100%!s(MISSING)ure"),
        ("50%% off", "50% off"),
        ("%d of %s", "%!d(MISSING) of %!s(MISSING)"),
        ("%+#0- 5.2f", "%!f(MISSING)"),
        ("%é", "%!é(MISSING)"),
        ("%.", "%!.(MISSING)"),
        ("%.*d", "%!(BADPREC)%!d(MISSING)"),
        ("%*d", "%!(BADWIDTH)%!d(MISSING)"),
        ("%[1]d", "%!d(BADINDEX)"),
        ("%[3]2d", "%!d(BADINDEX)"),
        ("%[3].2d", "%!d(BADINDEX)"),
        ("%[x]d", "%!d(BADINDEX)"),
        ("%[", "%!(NOVERB)"),
        ("%[1", "%!(NOVERB)"),
        ("%99999999d", "%!(NOVERB)"),
        ("%\n", "%!\n(MISSING)"),
    ],
)
def test_format_without_arguments(text: str, rendered: str) -> None:
    assert go_format_without_args(text) == rendered
