"""The process of `kubesched apiserver`.

Owns its output and shutdown. The server is apiserver.embedded_server's.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass
from pathlib import Path

import click

from kubesched.cluster.apiserver.admission.chain import BARE, WHOLE
from kubesched.cluster.apiserver.auth.authentication import TokenFileError, read_token_file
from kubesched.cluster.apiserver.auth.kubeconfig import write_kubeconfig
from kubesched.cluster.apiserver.embedded_server import LOOPBACK, EmbeddedServer, Settings
from kubesched.cluster.apiserver.storage.persistence import DataFileError
from kubesched.kit.clock import SystemClock
from kubesched.kit.tasks import run_loop


@dataclass(frozen=True, slots=True)
class ApiServerOptions:
    """Options of the command line."""

    port: int
    bind_address: str
    data: Path | None
    write_kubeconfig: Path | None
    authorization: str
    token_auth_file: Path | None
    service_accounts: bool
    tls: bool
    verbose: bool


def run_apiserver(options: ApiServerOptions) -> None:
    """Serve until stopped."""
    logging.basicConfig(
        level=logging.INFO if options.verbose else logging.WARNING,
        format="%(levelname)s %(message)s",
    )
    try:
        settings = Settings(
            address=options.bind_address,
            port=options.port,
            data=options.data,
            tokens=read_token_file(options.token_auth_file) if options.token_auth_file else {},
            has_rbac=options.authorization == "rbac",
            has_tls=options.tls,
            admission=WHOLE if options.service_accounts else BARE,
        )
        server = EmbeddedServer(settings, SystemClock())
    except (TokenFileError, DataFileError) as error:
        raise click.ClickException(str(error)) from None
    run_loop(_serve(server, options.write_kubeconfig))


async def _serve(server: EmbeddedServer, kubeconfig: Path | None) -> None:
    try:
        await server.start()
    except OSError as error:
        settings = server.settings
        raise click.ClickException(
            f"cannot listen on {settings.address}:{settings.port}: {error.strerror}; "
            "try another --port, or --port 0 for a free one"
        ) from None
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stopped.set)
    _announce(server, kubeconfig)
    await stopped.wait()
    await server.stop()


def _announce(server: EmbeddedServer, kubeconfig: Path | None) -> None:
    click.echo(f"serving Kubernetes v1.36 at {server.url}")
    data = server.settings.data
    click.echo(f"  objects are stored in {data}" if data else "  objects are stored in memory")
    if kubeconfig is not None:
        write_kubeconfig(kubeconfig, server.kubeconfig())
        click.echo(f"  export KUBECONFIG={kubeconfig.resolve()}")
    else:
        click.echo("  for kubectl: restart with --write-kubeconfig FILE")
    if server.settings.address not in LOOPBACK or server.settings.has_rbac:
        click.echo(f"  administrator token: {server.admin_token}")
    click.echo("  press Ctrl-C to stop")
