"""Credentials from exec plugins."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api.times import time_text
from kubesched.client.auth.credentials import AccessError
from kubesched.client.auth.exec_plugin import ExecPlugin, clean_hint
from kubesched.client.auth.kubeconfig_files import EnvVar, ExecConfig
from tests.unit.client.election_world import HandClock
from tests.unit.client.kubeconfig_world import client_pair
from tests.unit.client.request_world import on_a_loop

V1 = "client.authentication.k8s.io/v1"

PROGRAM = """\
import json, os, pathlib, sys
place = pathlib.Path(sys.argv[1])
with (place / "calls").open("a") as calls:
    info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
    call = {"info": info, "arguments": sys.argv[2:], "env": os.environ.get("EXTRA")}
    calls.write(json.dumps({**call, "stdin": sys.stdin.read()}) + "\\n")
sys.stdout.write((place / "answer").read_text())
sys.exit(int((place / "code").read_text()))
"""


class World:
    """An exec plugin with its output and its recorded input."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.clock = HandClock()
        (place / "program.py").write_text(PROGRAM)
        self.answer(token="one")
        self.config = ExecConfig(
            command=sys.executable,
            args=[str(place / "program.py"), str(place), "--flag"],
            env=[EnvVar("EXTRA", "x")],
            api_version=V1,
            interactive_mode="Never",
        )

    def answer(self, *, version: str = V1, code: int = 0, **status: str) -> None:
        self.say({"apiVersion": version, "kind": "ExecCredential", "status": status}, code=code)

    def say(self, document: Any, *, code: int = 0) -> None:
        (self.place / "answer").write_text(json.dumps(document))
        (self.place / "code").write_text(str(code))

    def plugin(self, cluster: Mapping[str, Any] | None = None, **changes: Any) -> ExecPlugin:
        config = replace(self.config, **changes)
        return ExecPlugin(config, self.clock, cluster=cluster, environ=dict(os.environ))

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.place / "calls").read_text().splitlines()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@on_a_loop
async def test_input_of_the_program(world: World) -> None:
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
async def test_concurrent_callers_share_one_run(world: World) -> None:
    plugin = world.plugin()
    assert plugin.cached() is None
    credentials = await asyncio.gather(*(plugin.fetch() for _ in range(5)))
    assert all(credential is credentials[0] for credential in credentials)
    assert plugin.cached() is credentials[0]
    assert len(world.calls) == 1


@on_a_loop
async def test_the_program_runs_again_after_the_expiry(world: World) -> None:
    plugin = world.plugin()
    world.answer(token="one", expirationTimestamp=time_text(world.clock.now_s() + 100))
    first = await plugin.fetch()
    await world.clock.advance(98)
    assert plugin.cached() is first
    await world.clock.advance(3)
    assert plugin.cached() is None
    world.answer(token="two")
    assert (await plugin.fetch()).authorization == "Bearer two"
    # Without a time it never expires.
    await world.clock.advance(10**9)
    assert plugin.cached() is not None


@on_a_loop
async def test_the_program_runs_again_after_a_rejection(world: World) -> None:
    plugin = world.plugin()
    first = await plugin.fetch()
    plugin.reject(first)
    world.answer(token="two")
    second = await plugin.fetch()
    assert second.authorization == "Bearer two"
    plugin.reject(first)  # a late answer to an earlier request
    assert plugin.cached() is second


@on_a_loop
async def test_an_equal_certificate_stays_the_same_object(world: World) -> None:
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
async def test_invalid_output(world: World, document: Any, expected: str) -> None:
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
async def test_the_install_hint_of_a_missing_program(world: World) -> None:
    plugin = world.plugin(command="no-such-login", install_hint="brew install login")
    texts = []
    for _ in range(11):
        with pytest.raises(AccessError) as error:
            await plugin.fetch()
        texts.append(str(error.value))
    assert texts[0].startswith(
        "exec: executable no-such-login not found\n\n"
        "It looks like you are trying to use a client-go credential plugin that is not installed."
    )
    assert texts[0].endswith("\n\nbrew install login")
    # The hint is rate limited, so that retries do not fill the log.
    assert texts[10] == "exec: executable no-such-login not found"


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
async def test_cancellation_kills_the_program(world: World, tmp_path: Path) -> None:
    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); "
    script += f"open({str(tmp_path / 'fifo')!r}).read()"
    os.mkfifo(tmp_path / "fifo")
    plugin = world.plugin(args=["-c", script])
    task = asyncio.ensure_future(plugin.fetch())
    # Opening the pipe for writing blocks until the program reads.
    end = await asyncio.to_thread(os.open, tmp_path / "fifo", os.O_WRONLY)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    os.close(end)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_hints_have_no_control_characters() -> None:
    assert clean_hint("a\x1b[1mb\tc\nd é\x07") == "aU+001B[1mb\tc\nd éU+0007"
