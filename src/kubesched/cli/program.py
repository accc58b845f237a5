"""`kubesched.main`: the whole command, in a program of the user's own.

Owns nothing but the way from a program's plugins to the command line.
Upstream: cmd/kube-scheduler/app/server.go NewSchedulerCommand, which Go programs call so
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from kubesched.app.outside_plugins import GivenPlugins, registry_given
from kubesched.cli.main import main as run_command_line


def main(plugins: GivenPlugins = (), arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command `kubesched` with plugins of your own, and exit with its status.

    Args:
        plugins: Classes or factories, pairs of name and factory, texts `[NAME=]module:Class`; or a
            mapping by name. A configuration may enable them or not; without one they are enabled.
        arguments: The command line; the process's own if None.

    Raises:
        ValueError, TypeError: Something among the plugins is none.
    """
    run_command_line(arguments, plugins=registry_given(plugins, is_offer=True))
