"""Users by token, from a file in kube-apiserver's format."""

from pathlib import Path

import pytest

from kubesched.cluster.apiserver.auth.authentication import TokenFileError, read_token_file
from kubesched.cluster.apiserver.strategy import User


def test_a_line_is_token_user_uid_and_groups(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('abc,jane,7,"devs,ops"\n\nxyz,bob,8\n')

    assert read_token_file(path) == {
        "abc": User("jane", "7", ("devs", "ops")),
        "xyz": User("bob", "8"),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("abc,jane\n", "line 1: a token, a user and a uid are needed", id="short"),
        pytest.param("a,b,c\n,jane,7\n", "line 2: the token is empty", id="no token"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(text)

    with pytest.raises(TokenFileError, match=problem):
        read_token_file(path)
