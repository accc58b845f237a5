"""Running the API server from the command line.

Owns what the command prints and how it ends. The server is apiserver.embedded's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kubesched.apiserver.admission.chain import BARE, WHOLE
from kubesched.apiserver.auth.kubeconfig import write_kubeconfig
from kubesched.apiserver.auth.token_file import TokenFileError, read_token_file
from kubesched.apiserver.embedded import LOOPBACK, EmbeddedServer, Settings
from kubesched.apiserver.persistence import DataFileError
from kubesched.kit.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    port: int
    bind_address: str
    data: Path | None
    kubeconfig: Path | None
    has_rbac: bool
    token_auth_file: Path | None
    has_service_accounts: bool
    has_tls: bool
    is_verbose: bool


def run_apiserver(wanted: Wanted) -> None:
    """Serve until told to stop."""
    logging.basicConfig(
        level=logging.INFO if wanted.is_verbose else logging.WARNING,
        format="%(levelname)s %(message)s",
    )
    try:
        server = EmbeddedServer(_settings(wanted), SystemClock())
    except (TokenFileError, DataFileError) as problem:
        raise click.ClickException(str(problem)) from None
    _run(_serve(server, wanted.kubeconfig))


def _settings(wanted: Wanted) -> Settings:
    tokens = read_token_file(wanted.token_auth_file) if wanted.token_auth_file else {}
    return Settings(
        address=wanted.bind_address,
        port=wanted.port,
        data=wanted.data,
        tokens=tokens,
        has_rbac=wanted.has_rbac,
        has_tls=wanted.has_tls,
        admission=WHOLE if wanted.has_service_accounts else BARE,
    )


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run on the quicker event loop where there is one."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415  # Not everywhere.

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


async def _serve(server: EmbeddedServer, kubeconfig: Path | None) -> None:
    try:
        await server.start()
    except OSError as problem:
        settings = server.settings
        raise click.ClickException(
            f"cannot listen on {settings.address}:{settings.port}: {problem.strerror}; "
            "try another --port, or --port 0 for any that is free"
        ) from None
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    _announce(server, kubeconfig)
    await stopped.wait()
    await server.stop()


def _announce(server: EmbeddedServer, kubeconfig: Path | None) -> None:
    click.echo(f"serving Kubernetes v1.36 at {server.url}")
    kept = server.settings.data
    click.echo(f"  objects are kept in {kept}" if kept else "  objects are kept in memory only")
    if kubeconfig is not None:
        write_kubeconfig(kubeconfig, server.kubeconfig())
        click.echo(f"  export KUBECONFIG={kubeconfig.resolve()}")
    else:
        click.echo("  for kubectl: start it with --write-kubeconfig FILE")
    if server.settings.address not in LOOPBACK or server.settings.has_rbac:
        click.echo(f"  administrator's token: {server.admin_token}")
    click.echo("  Ctrl-C ends it")
