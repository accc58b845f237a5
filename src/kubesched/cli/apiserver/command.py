"""`kubesched apiserver`: a Kubernetes API server in this process.

Owns the command's options. `process` runs it and is imported on demand.
"""

from __future__ import annotations

from typing import Any

import click

from kubesched.cli.options import file_option

_EPILOG = """\b
Examples:
  kubesched apiserver --write-kubeconfig ./kubeconfig
  kubesched apiserver --port 6443 --data cluster.db --authorization rbac

Then run `kubectl --kubeconfig ./kubeconfig get namespaces`. The server runs alone: without nodes,
scheduler or controllers.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="Port to listen on; 0 selects a free one.",
)
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDR",
    help="Address to listen on. Addresses other than loopback require a token.",
)
@file_option("--data", help="Store objects in this SQLite file.  [default: in memory]")
@file_option("--write-kubeconfig", help="Write the administrator's kubeconfig to this file.")
@click.option(
    "--authorization",
    type=click.Choice(["always-allow", "rbac"]),
    default="always-allow",
    show_default=True,
    help="Authorization mode: allow everything, or RBAC.",
)
@file_option(
    "--token-auth-file", exists=True, help="CSV file of additional users: token,user,uid,groups."
)
@click.option(
    "--service-accounts",
    is_flag=True,
    help="Enable the admission plugins that add service accounts to pods and taint new nodes until "
    "they are ready. Requires a controller manager, which creates the accounts.",
)
@click.option(
    "--tls/--no-tls",
    default=True,
    show_default=True,
    help="Serve HTTPS with a generated certificate, or plain HTTP.",
)
@click.option("-v", "--verbose", is_flag=True, help="Enable verbose logging.")
def apiserver(**options: Any) -> None:
    """Serve the Kubernetes API from this process, for kubectl, controllers and tests."""
    from kubesched.cli.apiserver.process import ApiServerOptions, run_apiserver  # noqa: PLC0415

    run_apiserver(ApiServerOptions(**options))
