"""`kubesched new-plugin`: create a project for an out-of-tree plugin.

Owns the derived names, the destination and the printed next steps. The templates in
new_plugin_files describe a plugin called MyPlugin, whose names are replaced. Never overwrites a
file.
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
    """The names of a plugin."""

    plugin: str
    """The class and the name in configurations: `SpareGpu`."""
    module: str
    """The package: `spare_gpu`."""
    project: str
    """The project, the scheduler and its objects in a cluster: `spare-gpu`."""

    def put_in(self, text: str) -> str:
        for word, name in zip(("MyPlugin", "my_plugin", "my-plugin"), self, strict=True):
            text = text.replace(word, name)
        return text


@click.command("new-plugin", epilog=_EPILOG)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Create the project in DIR.  [default: the plugin's name]",
)
@click.argument("name")
def new_plugin(directory: Path | None, name: str) -> None:
    """Create a plugin project: plugin with typed arguments, tests, README, Dockerfile, manifests.

    NAME is the plugin's name: SpareGpu, spare-gpu and spare_gpu are equivalent. The tests pass
    without changes. The printed commands lead to a first decision.
    """
    names = _names(name)
    place = directory or Path(names.project)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise click.ClickException(f"{place} already exists and is not an empty directory")
    count = 0
    for path, text in _files(names):
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        count += 1
    click.echo(f"Created {count} files in {place}; {place / 'README.md'} describes them.")
    click.echo()
    for line in _next_steps(names, place):
        click.echo(line)


def _names(name: str) -> _Names:
    """Return the names of a plugin; raise BadParameter if NAME is invalid."""
    if not _NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} must consist of letters, digits and single dashes, and start with a letter",
            param_hint="NAME",
        )
    words = [word for part in re.split("[-_]", name) for word in _WORDS.findall(part)]
    is_spelled_out = name[0].isupper() and name.isalnum()
    plugin = name if is_spelled_out else "".join(word[0].upper() + word[1:] for word in words)
    module = "_".join(words).lower()
    project = module.replace("_", "-")
    if len(project) > _LENGTH_MAX:
        text = f"{name!r} is longer than {_LENGTH_MAX} characters"
        raise click.BadParameter(text, param_hint="NAME")
    from kubesched.plugins.in_tree import IN_TREE_NAMES  # noqa: PLC0415 - brings every plugin

    if plugin in IN_TREE_NAMES:
        text = f"{plugin} is an in-tree plugin; choose another name"
        raise click.BadParameter(text, param_hint="NAME")
    if module in sys.stdlib_module_names or keyword.iskeyword(module) or module == "kubesched":
        module = f"{module}_plugin"
    return _Names(plugin, module, project)


def _files(names: _Names) -> Iterator[tuple[Path, str]]:
    """Yield the path and the contents of each file."""
    for source in sorted(_FILES.rglob(f"*{_ENDING}")):
        path = names.put_in(source.relative_to(_FILES).as_posix().removesuffix(_ENDING))
        folder, _, name = path.rpartition("/")
        if name.startswith(_HIDDEN):
            name = "." + name.removeprefix(_HIDDEN)
        text = source.read_text(encoding="utf-8").replace("KUBESCHED_VERSION", version("kubesched"))
        yield Path(folder, name), names.put_in(text)


def _next_steps(names: _Names, place: Path) -> Iterator[str]:
    """Yield the commands from installation to a decision, including the two already run."""
    edited = place / names.put_in(_EDITED.as_posix())
    kubeconfig = shlex.quote(str(place / "kubeconfig"))
    plugin = shlex.quote(f"{edited}:{names.plugin}")
    yield "From installation to a decision by your plugin in five commands; you have run two:"
    yield "  pip install kubesched"
    yield f"  kubesched new-plugin {names.plugin}"
    yield f"  sed -i.old s/{_FROM}/{_TO}/ {shlex.quote(str(edited))}"
    yield f"  kubesched playground --plugin {plugin} --write-kubeconfig {kubeconfig}"
    yield f"  kubectl --kubeconfig {kubeconfig} run web --image=nginx"
    yield ""
    lines = edited.read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if _FROM in text)
    yield f"The third command edits line {line} of the plugin. Run the last in another terminal:"
    yield f"the playground then shows that default/web goes to a node of {_TO}."
