"""Options that say which running cluster is meant.

Owns the options of `kubesched explain --live`. What they lead to is `explain_live`'s.
"""

from __future__ import annotations

from typing import Final

import click

from kubesched.cli.options import CommandT, with_options

_OPTIONS: Final = (
    click.option("--live", is_flag=True, help="A pod of a running cluster, not of files."),
    click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="With --live: which cluster.  [default: as kubectl has it]",
    ),
    click.option("--context", default="", metavar="NAME", help="With --live: of the kubeconfig."),
    click.option(
        "--endpoint",
        default="",
        metavar="URL",
        help="With --live: where a running kubesched serves, to ask it what it decided.",
    ),
    click.option(
        "--token",
        default="",
        metavar="TOKEN",
        help="For the endpoint.  [default: the kubeconfig's credentials]",
    ),
    click.option("--token-file", default="", metavar="FILE", help="The same in a file."),
    click.option(
        "--certificate-authority",
        default="",
        metavar="FILE",
        help="Who signed the endpoint's certificate.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="Take any certificate of the endpoint; shows it nothing but --token.",
    ),
)


def live_options(command: CommandT) -> CommandT:
    """Add them to a command."""
    return with_options(command, _OPTIONS)
