"""`kubesched apiserver`: the Kubernetes API in this process.

Owns the command's options. What it does is cli.apiserver_run's, which is imported only when the
command is given: other commands need no web server.
"""

from __future__ import annotations

from pathlib import Path

import click

_EPILOG = """\b
Examples:
  kubesched apiserver --write-kubeconfig ./kubeconfig
  kubesched apiserver --port 6443 --data cluster.db --authorization rbac

Then `kubectl --kubeconfig ./kubeconfig get namespaces`. Nothing runs on it by itself: no nodes,
no scheduler, no controllers. It is what they talk to.
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="Port to listen on; 0 takes any that is free.",
)
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDR",
    help="Address to listen on. On another than loopback everyone must show a token.",
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep everything in this file (SQLite). In memory if it is not given.",
)
@click.option(
    "--write-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a kubeconfig of the administrator.",
)
@click.option(
    "--authorization",
    type=click.Choice(["always-allow", "rbac"]),
    default="always-allow",
    show_default=True,
    help="What users may do: everything, or what roles and bindings allow.",
)
@click.option(
    "--token-auth-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="More users, a line each: token,user,uid,groups.",
)
@click.option(
    "--service-accounts",
    is_flag=True,
    help="Give pods a service account and its token, and taint new nodes until they are ready, "
    "as a whole cluster does. Needs a controller manager, which makes the accounts.",
)
@click.option(
    "--tls/--no-tls",
    default=True,
    show_default=True,
    help="HTTPS with a certificate made at the start, or plain HTTP.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what the server does.")
def apiserver(  # noqa: PLR0913  # One argument an option, as click hands them over.
    *,
    port: int,
    bind_address: str,
    data: Path | None,
    write_kubeconfig: Path | None,
    authorization: str,
    token_auth_file: Path | None,
    service_accounts: bool,
    tls: bool,
    verbose: bool,
) -> int:
    """Serve the Kubernetes API from this process, for kubectl, controllers and tests."""
    from kubesched.cli.apiserver_run import Wanted, run_apiserver  # noqa: PLC0415

    wanted = Wanted(
        port=port,
        bind_address=bind_address,
        data=data,
        kubeconfig=write_kubeconfig,
        has_rbac=authorization == "rbac",
        token_auth_file=token_auth_file,
        has_service_accounts=service_accounts,
        has_tls=tls,
        is_verbose=verbose,
    )
    run_apiserver(wanted)
    return 0
