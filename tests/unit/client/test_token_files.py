"""Tokens in files that are rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.client.auth.credentials import AccessError, TokenFile
from tests.unit.client.election_world import HandClock
from tests.unit.client.request_world import Script, ScriptedAnswer, on_a_loop, rejection


async def token(source: TokenFile) -> str:
    return (source.cached() or await source.fetch()).authorization


@on_a_loop
async def test_the_file_is_read_again_within_a_minute(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", HandClock()
    file.write_text(" one\n")
    source = TokenFile(file, clock=clock)
    assert await token(source) == "Bearer one"
    file.write_text("two")
    await clock.advance(49)
    assert await token(source) == "Bearer one"
    await clock.advance(2)
    assert await token(source) == "Bearer two"


@on_a_loop
async def test_the_same_token_stays_the_same_credential(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", HandClock()
    file.write_text("one")
    source = TokenFile(file, clock=clock)
    first = await source.fetch()
    await clock.advance(60)
    assert source.cached() is None
    assert await source.fetch() is first


@on_a_loop
async def test_the_last_token_stays_when_the_file_cannot_be_read(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", HandClock()
    file.write_text("one")
    source = TokenFile(file, clock=clock)
    await source.fetch()
    await clock.advance(60)
    file.write_text("\n")
    assert await token(source) == "Bearer one"
    file.unlink()
    assert await token(source) == "Bearer one"
    file.write_text("two")
    assert await token(source) == "Bearer two"


@on_a_loop
async def test_a_missing_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(AccessError, match=f'^failed to read token file "{file}": '):
        await TokenFile(file).fetch()
    file.write_text(" ")
    with pytest.raises(AccessError, match=f'^read empty token from file "{file}"$'):
        await TokenFile(file).fetch()
    assert await token(TokenFile(file, first="first")) == "Bearer first"


@on_a_loop
async def test_a_rejected_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    script = Script(ScriptedAnswer(200), rejection(401, "Unauthorized"), ScriptedAnswer(200, b"ok"))
    client = script.client(credentials=TokenFile(file, clock=script.clock))
    await client.request("GET", "/x")
    file.write_text("two")
    assert await client.request("POST", "/x", body=b"{}") == b"ok"
    used = [request.headers["Authorization"] for request in script.sent]
    assert used == ["Bearer one", "Bearer one", "Bearer two"]
