"""Credentials that a program says."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubesched.client.auth import AccessError
from kubesched.client.exec_plugin import ExecPlugin, ExecSettings, clean_hint
from kubesched.objects.times import time_text
from tests.unit.client.election_world import HandClock
from tests.unit.client.kubeconfig_world import client_pair
from tests.unit.client.request_world import on_a_loop

V1 = "client.authentication.k8s.io/v1"

PROGRAM = """\
import json, os, pathlib, sys
here = pathlib.Path(sys.argv[1])
with (here / "calls").open("a") as calls:
    info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
    told = {"info": info, "arguments": sys.argv[2:], "env": os.environ.get("EXTRA")}
    calls.write(json.dumps({**told, "stdin": sys.stdin.read()}) + "\\n")
sys.stdout.write((here / "answer").read_text())
sys.exit(int((here / "code").read_text()))
"""


class World:
    """A program, what it answers, and what it was told."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.clock = HandClock()
        (place / "program.py").write_text(PROGRAM)
        self.answer(token="one")
        self.settings = ExecSettings(
            command=sys.executable,
            arguments=(str(place / "program.py"), str(place), "--flag"),
            env=(("EXTRA", "x"),),
            environ=dict(os.environ),
        )

    def answer(self, *, version: str = V1, code: int = 0, **status: str) -> None:
        self.say({"apiVersion": version, "kind": "ExecCredential", "status": status}, code=code)

    def say(self, document: Any, *, code: int = 0) -> None:
        (self.place / "answer").write_text(json.dumps(document))
        (self.place / "code").write_text(str(code))

    def plugin(self, **changes: Any) -> ExecPlugin:
        return ExecPlugin(replace(self.settings, **changes), self.clock)

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.place / "calls").read_text().splitlines()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@on_a_loop
async def test_what_a_program_is_told(world: World) -> None:
    cluster = {"server": "https://c", "config": None}
    assert (await world.plugin(cluster=cluster).fetch()).authorization == "Bearer one"
    (call,) = world.calls
    assert (call["arguments"], call["env"], call["stdin"]) == (["--flag"], "x", "")
    assert call["info"] == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {"cluster": cluster, "interactive": False},
    }
    await world.plugin().fetch()
    assert world.calls[1]["info"]["spec"] == {"interactive": False}


@on_a_loop
async def test_it_runs_once_for_all_who_ask(world: World) -> None:
    plugin = world.plugin()
    assert plugin.cached() is None
    found = await asyncio.gather(*(plugin.fetch() for _ in range(5)))
    assert all(one is found[0] for one in found)
    assert plugin.cached() is found[0]
    assert len(world.calls) == 1


@on_a_loop
async def test_it_runs_again_when_the_credential_has_expired(world: World) -> None:
    plugin = world.plugin()
    world.answer(token="one", expirationTimestamp=time_text(world.clock.now_s() + 100))
    first = await plugin.fetch()
    await world.clock.advance(98)
    assert plugin.cached() is first
    await world.clock.advance(3)
    assert plugin.cached() is None
    world.answer(token="two")
    assert (await plugin.fetch()).authorization == "Bearer two"
    # Without a time it holds for good.
    await world.clock.advance(10**9)
    assert plugin.cached() is not None


@on_a_loop
async def test_it_runs_again_when_the_server_refuses_what_it_said(world: World) -> None:
    plugin = world.plugin()
    first = await plugin.fetch()
    plugin.reject(first)
    world.answer(token="two")
    second = await plugin.fetch()
    assert second.authorization == "Bearer two"
    plugin.reject(first)  # a late answer to an earlier request
    assert plugin.cached() is second


@on_a_loop
async def test_a_certificate_stays_the_same_object(world: World) -> None:
    pair = client_pair()
    plugin = world.plugin()
    world.answer(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode())
    first = await plugin.fetch()
    assert first.authorization == ""
    assert first.certificate is not None
    assert first.certificate.key == pair.key
    plugin.reject(first)
    second = await plugin.fetch()
    assert second is not first
    assert second.certificate is first.certificate


@on_a_loop
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("", "decoding stdout: "),
        ({"kind": "Pod", "apiVersion": V1}, "decoding stdout: "),
        (
            {"kind": "ExecCredential", "apiVersion": f"{V1}beta1"},
            f"exec plugin is configured to use API version {V1}, plugin returned version {V1}beta1",
        ),
        ({"kind": "ExecCredential", "apiVersion": V1}, "exec plugin didn't return a status field"),
        (
            {"kind": "ExecCredential", "apiVersion": V1, "status": {}},
            "exec plugin didn't return a token or cert/key pair",
        ),
        (
            {"kind": "ExecCredential", "apiVersion": V1, "status": {"clientKeyData": "k"}},
            "exec plugin returned only certificate or key, not both",
        ),
        (
            {
                "kind": "ExecCredential",
                "apiVersion": V1,
                "status": {"token": "t", "expirationTimestamp": "soon"},
            },
            "decoding stdout: ",
        ),
    ],
)
async def test_answers_that_are_none(world: World, document: Any, expected: str) -> None:
    world.say(document)
    with pytest.raises(AccessError) as error:
        await world.plugin().fetch()
    assert str(error.value).startswith(expected)


@on_a_loop
async def test_a_program_that_fails(world: World) -> None:
    world.answer(token="one", code=3)
    with pytest.raises(AccessError) as error:
        await world.plugin().fetch()
    assert str(error.value) == f"exec: executable {sys.executable} failed with exit code 3"


@on_a_loop
async def test_a_program_that_is_not_there_and_its_hint(world: World) -> None:
    plugin = world.plugin(command="no-such-login", install_hint="brew install login")
    said = []
    for _ in range(11):
        with pytest.raises(AccessError) as error:
            await plugin.fetch()
        said.append(str(error.value))
    assert said[0].startswith(
        "exec: executable no-such-login not found\n\n"
        "It looks like you are trying to use a client-go credential plugin that is not installed."
    )
    assert said[0].endswith("\n\nbrew install login")
    # Not for ever: whoever tries again all the time fills no log.
    assert said[10] == "exec: executable no-such-login not found"


@on_a_loop
async def test_a_program_that_needs_a_terminal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoTerminal:
        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", NoTerminal())
    with pytest.raises(AccessError) as error:
        await world.plugin(interactive_mode="Always").fetch()
    assert str(error.value) == (
        "exec plugin cannot support interactive mode: standard input is not a terminal"
    )
    await world.plugin(interactive_mode="IfAvailable").fetch()
    assert world.calls[0]["info"]["spec"]["interactive"] is False


@on_a_loop
async def test_whoever_gives_up_ends_the_program(world: World, tmp_path: Path) -> None:
    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); "
    script += f"open({str(tmp_path / 'fifo')!r}).read()"
    os.mkfifo(tmp_path / "fifo")
    plugin = world.plugin(arguments=("-c", script))
    task = asyncio.ensure_future(plugin.fetch())
    # Opening the other end waits until the program reads.
    end = await asyncio.to_thread(os.open, tmp_path / "fifo", os.O_WRONLY)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    os.close(end)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_hints_cannot_upset_a_terminal() -> None:
    assert clean_hint("a\x1b[1mb\tc\nd é\x07") == "aU+001B[1mb\tc\nd éU+0007"
