"""Users by token, from a file.

Owns the reading of upstream's format: a line a token, `token,user,uid,"group,group"`.
Upstream: staging/src/k8s.io/apiserver/pkg/authentication/token/tokenfile/tokenfile.go
"""

from __future__ import annotations

import csv
from pathlib import Path

from kubesched.apiserver.strategy import User


class TokenFileError(ValueError):
    """The file is not one of tokens; the text says where and why."""


def read_token_file(path: Path) -> dict[str, User]:
    """Return users by token.

    Raises:
        TokenFileError: A line is not a token.
    """
    users: dict[str, User] = {}
    with path.open(newline="", encoding="utf-8") as stream:
        for number, line in enumerate(csv.reader(stream, skipinitialspace=True), start=1):
            if not line or line[0].startswith("#"):
                continue
            if len(line) < 3:
                raise TokenFileError(
                    f"{path}: line {number}: a token, a user and a uid are needed, "
                    f"there are {len(line)} fields"
                )
            token, name, uid, *groups = line
            if not token:
                raise TokenFileError(f"{path}: line {number}: the token is empty")
            named = tuple(one.strip() for one in ",".join(groups).split(",") if one.strip())
            users[token] = User(name, uid, named)
    return users
