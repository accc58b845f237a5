"""Input shared by `explain`, `capacity` and `simulate`: manifests, configurations, plugins.

Owns how files are read and named in messages, and how invalid input becomes a one-line error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from kubesched.api.errors import one_line
from kubesched.cli.printer import reading_progress
from kubesched.framework.runtime.registry import Registry
from kubesched.manifests.documents import STDIN, ManifestError
from kubesched.manifests.scenario import ExplainError, Scenario
from kubesched.manifests.scenario_reader import read_scenario
from kubesched.profile.build import Built, ConfiguredError, configured

FILE_HELP = "Read manifests (YAML or JSON) from a file, a directory, or - for stdin. Repeatable."
CONFIG_HELP = (
    "Read a KubeSchedulerConfiguration from FILE, or - for stdin.  "
    "[default: kube-scheduler's defaults]"
)


def note(text: str) -> None:
    """Print a note to standard error."""
    click.echo(f"note: {one_line(text)}", err=True)


def file_title(file: str) -> str:
    """Return the name of a file in messages."""
    return "standard input" if file == STDIN else file


def reject_two_readers(*files: str | None) -> None:
    """Raise a usage error if standard input would be read twice."""
    if files.count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once")


def read_bytes(file: str) -> bytes:
    """Return the contents of a file or of standard input."""
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise click.ClickException(f"{file_title(file)}: {reason}") from None


def read_files(files: Sequence[str]) -> Scenario:
    """Read manifests."""
    with one_line_errors(), reading_progress(files):
        return read_scenario(files, stdin=sys.stdin.buffer)


def load_scheduler(
    config_file: str | None,
    registry: Registry | None,
    *,
    seed: int = 0,
    must_enable: bool = False,
) -> Built:
    """Build the profiles of a configuration file, or of the default configuration.

    Args:
        config_file: the file; None for the defaults, with all plugins of the registry enabled.
        registry: out-of-tree plugins.
        seed: the random seed.
        must_enable: fail if a plugin of the registry is not enabled.
    """
    text = None if config_file is None else read_bytes(config_file)
    if config_file is None and registry is not None:
        note(f"enabled at multiPoint of the default profile: {', '.join(registry)}")
    try:
        built = configured(text, registry=registry, seed=seed, uses_all=must_enable)
    except ConfiguredError as problem:
        raise click.ClickException(f"{config_prefix(config_file)}{problem}") from None
    if built.config.extenders:
        note("extenders of the configuration are not called")
    return built


def config_prefix(config_file: str | None) -> str:
    """Return the prefix of messages about a configuration."""
    return "" if config_file is None else f"{file_title(config_file)}: "


@contextmanager
def one_line_errors(
    *expected: type[Exception], has_own_plugins: bool = False, about: str = ""
) -> Iterator[None]:
    """Turn expected errors, and any error of a user's plugin, into one-line errors.

    Args:
        expected: error types beside those of manifests and of the choice of a pod.
        has_own_plugins: whether out-of-tree plugins run, which may raise anything.
        about: prefix for errors of plugins.
    """
    caught: tuple[type[Exception], ...] = (ManifestError, ExplainError, *expected)
    try:
        yield
    except caught as problem:
        raise click.ClickException(str(problem)) from None
    except click.ClickException:
        raise
    except Exception as problem:
        if not has_own_plugins:
            raise
        text = f"{about}a plugin failed: {type(problem).__name__}: {problem}"
        raise click.ClickException(text) from None
