from collections.abc import Iterator

import click
import pytest

from kubesched.cli.main import cli
from tests.unit.cli.running import kubesched


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


EVERY = [pytest.param(path, id=" ".join(("kubesched", *path))) for path in commands(cli)]


def test_the_list_of_commands() -> None:
    assert {(), ("explain",), ("decide",), ("config", "view")} <= set(commands(cli))


@pytest.mark.parametrize("path", EVERY)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_has_usage_and_description(path: tuple[str, ...], option: str) -> None:
    ran = kubesched(*path, option)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: kubesched {' '.join(path)}".rstrip())


@pytest.mark.parametrize("path", EVERY)
def test_help_has_one_example_per_line(path: tuple[str, ...]) -> None:
    help_text = kubesched(*path, "--help").out
    assert "\b" not in help_text
    assert "\\b" not in help_text
    lines = help_text.split("Examples:\n")[1].splitlines()
    examples = []
    for line in lines:
        if not line.strip():
            break
        examples.append(line.strip())
    assert examples
    assert all(f"kubesched {' '.join(path)}".strip() in example for example in examples)


def test_the_version_is_reported() -> None:
    ran = kubesched("--version")
    assert ran.status == 0
    assert ran.out.startswith("kubesched, version ")
