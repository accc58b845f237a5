"""`kubesched new-plugin`: a project for a plugin of one's own.

Owns the names that are made of the one that is given, where the files go, and the commands that
lead from there to a decision. The files are those of new_plugin_files, which stand for a plugin
called MyPlugin; the words in them that name it are replaced. Never writes over anything.
"""

from __future__ import annotations

import keyword
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import click

_FILES: Final = Path(__file__).parent / "new_plugin_files"
_ENDING: Final = ".tmpl"
_HIDDEN: Final = "dot_"
_LENGTH_MAX: Final = 40
_WORDS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+|[0-9]+")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
_EDITED: Final = Path("src", "my_plugin", "plugin.py")
"""The file with the one line to edit."""
_FROM, _TO = "zone-a", "zone-b"

_EPILOG = """\b
Examples:
  kubesched new-plugin SpareGpu
  kubesched new-plugin spare-gpu --directory ~/plugins/spare-gpu
"""


class _Names(NamedTuple):
    """One name, as every language spells it."""

    plugin: str
    """The class, and what configurations call the plugin: `SpareGpu`."""
    module: str
    """The package: `spare_gpu`."""
    project: str
    """The project, the scheduler, what it is called on a cluster: `spare-gpu`."""

    def put_in(self, text: str) -> str:
        """Return a text with the names in their places."""
        for word, name in zip(("MyPlugin", "my_plugin", "my-plugin"), self, strict=True):
            text = text.replace(word, name)
        return text


@click.command("new-plugin", short_help="Write a project for a plugin of your own.", epilog=_EPILOG)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the project goes.  [default: a directory of the plugin's name]",
)
@click.argument("name")
def new_plugin(directory: Path | None, name: str) -> None:
    """Write a project: a plugin with typed arguments, tests, a README, a Dockerfile, manifests.

    NAME is the plugin's: SpareGpu, spare-gpu and spare_gpu mean the same. The tests pass as they
    are written; what is printed leads to a first decision.
    """
    names = _names(name)
    place = directory or Path(names.project)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise click.ClickException(f"{place} is there already, and is not an empty directory")
    count = 0
    for path, text in _files(names):
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        count += 1
    click.echo(f"Wrote {count} files to {place}; {place / 'README.md'} says what they are.")
    click.echo()
    for line in _next_steps(names, place):
        click.echo(line)


def _names(name: str) -> _Names:
    """Return the names of a plugin; refuse those that cannot be."""
    if not _NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} is not made of letters, digits and single dashes, a letter first",
            param_hint="NAME",
        )
    words = [word for part in re.split("[-_]", name) for word in _WORDS.findall(part)]
    is_spelled_out = name[0].isupper() and name.isalnum()
    plugin = name if is_spelled_out else "".join(word[0].upper() + word[1:] for word in words)
    module = "_".join(words).lower()
    project = module.replace("_", "-")
    if len(project) > _LENGTH_MAX:
        raise click.BadParameter(f"{name!r} is longer than {_LENGTH_MAX}", param_hint="NAME")
    _refuse_taken(plugin)
    if module in sys.stdlib_module_names or keyword.iskeyword(module) or module == "kubesched":
        module = f"{module}_plugin"
    return _Names(plugin, module, project)


def _refuse_taken(plugin: str) -> None:
    from kubesched.plugins.in_tree import IN_TREE_NAMES  # noqa: PLC0415 - brings every plugin

    if plugin in IN_TREE_NAMES:
        raise click.BadParameter(
            f"{plugin} is a plugin that every scheduler has; give yours another name",
            param_hint="NAME",
        )


def _files(names: _Names) -> Iterator[tuple[Path, str]]:
    """Yield each file's place and text."""
    for source in sorted(_FILES.rglob(f"*{_ENDING}")):
        path = names.put_in(source.relative_to(_FILES).as_posix().removesuffix(_ENDING))
        folder, _, name = path.rpartition("/")
        if name.startswith(_HIDDEN):
            name = "." + name.removeprefix(_HIDDEN)
        text = source.read_text(encoding="utf-8").replace("KUBESCHED_VERSION", version("kubesched"))
        yield Path(folder, name), names.put_in(text)


def _next_steps(names: _Names, place: Path) -> Iterator[str]:
    """Yield the commands from here to a decision, the two that were given included."""
    edited = place / names.put_in(_EDITED.as_posix())
    kubeconfig = shlex.quote(str(place / "kubeconfig"))
    plugin = shlex.quote(f"{edited}:{names.plugin}")
    yield "From nothing to a decision of your own in five commands, two of which you gave:"
    yield "  pip install kubesched"
    yield f"  kubesched new-plugin {names.plugin}"
    yield f"  sed -i.old s/{_FROM}/{_TO}/ {shlex.quote(str(edited))}"
    yield f"  kubesched playground --plugin {plugin} --write-kubeconfig {kubeconfig}"
    yield f"  kubectl --kubeconfig {kubeconfig} run web --image=nginx"
    yield ""
    line = _line_of(edited)
    yield f"The third edits line {line} of the plugin, as any editor does. The last is for another"
    yield f"terminal: the playground then says that default/web goes to a node of {_TO}."


def _line_of(file: Path) -> int:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if _FROM in line)
