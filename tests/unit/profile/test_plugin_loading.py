"""Plugins from files, modules, installed packages and programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config_object
from kubesched.framework.runtime.registry import DuplicatePluginError, SignatureError
from kubesched.profile.build import build, config_enabling, never_enabled
from kubesched.profile.plugin_loading import (
    PluginLoadError,
    installed_plugins,
    load_plugin,
    registry_with,
    text_of,
)
from kubesched.testing.cluster import Cluster

PLUGIN = """
import msgspec

COUNT = []
COUNT.append(1)


class PackingArgs(msgspec.Struct, frozen=True):
    size: int = 3


class Packing:
    name = "packing"

    def __init__(self, args):
        self.args = args

    def score(self, state, pod, node):
        return 0


class Nameless:
    def score(self, state, pod, node):
        return 0


def make_packing(args: PackingArgs) -> Packing:
    return Packing(args)


class Outer:
    class Inner(Nameless):
        pass
"""


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the modules that a test imported."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


Written = Callable[[str, str], Path]


class Here:
    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


# -- files and modules ----------------------------------------------------------------------------


def test_a_plugin_is_loaded_from_a_file(written: Written) -> None:
    file = written("mine.py", PLUGIN)
    loaded = load_plugin(f"{file}:Packing")
    assert (loaded.name, loaded.origin) == ("packing", f"{file}:Packing")
    assert load_plugin(f"{file}:Nameless").name == "Nameless"
    assert load_plugin(f"{file}:make_packing").name == "make_packing"
    assert load_plugin(f"{file}:Outer.Inner").name == "Inner"


def test_a_plugin_may_be_loaded_under_another_name(written: Written) -> None:
    file = written("mine.py", PLUGIN)
    registry = registry_with([f"first={file}:Packing", f"second={file}:Packing"])
    assert list(registry) == ["first", "second"]
    assert [registry.make(name, None, None).name for name in registry] == ["first", "second"]


def test_a_file_is_executed_once(written: Written) -> None:
    file = written("mine.py", PLUGIN)
    packing, nameless = load_plugin(f"{file}:Packing"), load_plugin(f"{file}:Nameless")
    assert packing.factory.__module__ == nameless.factory.__module__
    assert load_plugin(f"{file}:Packing").factory is packing.factory
    file.write_text(PLUGIN.replace('"packing"', '"other"'))
    assert load_plugin(f"{file}:Packing").name == "packing"


def test_files_of_the_same_name_are_different_modules(written: Written) -> None:
    first = written("a/mine.py", PLUGIN)
    second = written("b/mine.py", PLUGIN.replace("size: int = 3", "size: int = 4"))
    built = _built({"one": load_plugin(f"{first}:Packing").factory})
    assert built["one"].args.size == 3
    built = _built({"two": load_plugin(f"{second}:Packing").factory})
    assert built["two"].args.size == 4


def _built(plugins: dict[str, Any]) -> Any:
    registry = registry_with(plugins)
    built = build(config_enabling(registry), out_of_tree=registry)
    return built.profiles["default-scheduler"].plugins


def test_a_file_can_import_its_neighbors(written: Written) -> None:
    written("neighbor_of_mine.py", "SIZE = 5\n")
    file = written("sociable.py", f"from neighbor_of_mine import SIZE\n{PLUGIN}")
    assert load_plugin(f"{file}:Packing").factory.__module__ == "kubesched_plugin_sociable"


def test_a_plugin_is_loaded_from_a_module_of_the_current_directory(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written("package_of_mine/__init__.py", "")
    written("package_of_mine/plugins.py", PLUGIN)
    monkeypatch.chdir(tmp_path)
    loaded = load_plugin("package_of_mine.plugins:Packing")
    assert loaded.name == "packing"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Packing", "'Packing' is not MODULE:CLASS"),
        ("x=:Packing", "'x=:Packing' is not MODULE:CLASS"),
        ("mine.py:", "'mine.py:' is not MODULE:CLASS"),
        ("absent.py:X", "cannot import absent.py: FileNotFoundError: there is no such file"),
        ("no_such_thing:X", "cannot import no_such_thing: ModuleNotFoundError: "),
        ("mine.py:Missing", "mine.py has no class Missing; it has Packing, Nameless"),
        ("mine.py:COUNT", "mine.py has no class COUNT; it has Packing, Nameless"),
        ("raises.py:X", "cannot import raises.py: ValueError: no tea (raises.py, line 3)"),
        ("broken.py:X", "cannot import broken.py: SyntaxError: invalid syntax (broken.py, line 2)"),
    ],
)
def test_a_load_error_is_reported_in_one_line(
    text: str, problem: str, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written("mine.py", PLUGIN)
    written("raises.py", "def tea():\n\n    raise ValueError('no\\n tea')\n\ntea()\n")
    written("broken.py", "\nclass class\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PluginLoadError) as rejected:
        load_plugin(text)
    assert problem in str(rejected.value)
    assert "\n" not in str(rejected.value)


def test_a_file_that_failed_can_be_tried_again(written: Written) -> None:
    file = written("mine.py", "raise ValueError('not yet')\n")
    with pytest.raises(PluginLoadError):
        load_plugin(f"{file}:Packing")
    file.write_text(PLUGIN)
    assert load_plugin(f"{file}:Packing").name == "packing"


# -- plugins of programs --------------------------------------------------------------------------


def test_programs_pass_classes_pairs_texts_and_mappings(written: Written) -> None:
    file = written("mine.py", PLUGIN)
    assert list(registry_with([Here, ("other", Here), f"{file}:Packing"])) == [
        "Here",
        "other",
        "packing",
    ]
    assert list(registry_with({"by-name": Here})) == ["by-name"]
    assert list(registry_with(())) == []


def test_a_value_that_is_not_a_plugin_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"^plugins is a list, not the text 'x:Y'$"):
        registry_with("x:Y")
    with pytest.raises(TypeError, match="42 is not a plugin"):
        registry_with([42])
    with pytest.raises(DuplicatePluginError, match="a plugin named Here already exists"):
        registry_with([Here, Here])
    with pytest.raises(SignatureError, match="extends no extension point"):
        registry_with([object])


def test_the_name_of_an_in_tree_plugin_is_taken() -> None:
    registry = registry_with({"NodeName": Here})
    with pytest.raises(ConfigError, match=r"^a plugin named NodeName already exists, in-tree; "):
        build(config_enabling(None), out_of_tree=registry)


def test_a_plugin_must_be_enabled_unless_it_is_an_offer() -> None:
    built = build(config_enabling(None))
    assert never_enabled(built, registry_with([Here])) == ["Here"]
    assert never_enabled(built, registry_with([Here], is_offer=True)) == []
    merged = registry_with({"a": Here}).merge(registry_with({"b": Here}, is_offer=True))
    assert never_enabled(built, merged) == ["a"]


def test_another_process_loads_a_plugin_by_its_text(written: Written) -> None:
    file = written("mine.py", PLUGIN)
    factory = load_plugin(f"{file}:Packing").factory
    assert text_of("p", factory) == f"p={file}:Packing"
    assert text_of("s", Cluster) == "s=kubesched.testing.cluster:Cluster"
    with pytest.raises(PluginLoadError, match="plugin l is not a named attribute of a module"):
        text_of("l", lambda: None)


# -- arguments in a configuration -----------------------------------------------------------------


def config(*plugins: str, args: dict[str, Any] | None = None) -> Any:
    enabled = [{"name": name} for name in plugins]
    configured = [{"name": name, "args": values} for name, values in (args or {}).items()]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}, "pluginConfig": configured}
    return load_config_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )


PREFIX = "initializing profiles: creating profile for scheduler name default-scheduler: "


def test_arguments_are_configured_by_the_alias(written: Written) -> None:
    file = written("mine.py", PLUGIN)
    registry = registry_with([f"big={file}:Packing", f"made={file}:make_packing"])
    args = {"big": {"size": 9}, "made": {"size": 8, "kind": "PackingArgs", "apiVersion": "x/v1"}}
    built = build(config("big", "made", args=args), out_of_tree=registry)
    plugins = built.profiles["default-scheduler"].plugins
    assert (plugins["big"].args.size, plugins["made"].args.size) == (9, 8)
    assert built.out_of_tree == {"big", "made"}


def test_wrong_arguments_are_an_error_of_the_configuration(written: Written) -> None:
    file = written("mine.py", PLUGIN)
    registry = registry_with([f"{file}:Packing", f"{file}:Nameless"])
    with pytest.raises(ConfigError) as rejected:
        build(config("packing", args={"packing": {"sise": 1}}), out_of_tree=registry)
    assert str(rejected.value) == (
        f"{PREFIX}initializing plugin \"packing\": args: unknown field 'sise', did you mean 'size'?"
    )
    with pytest.raises(ConfigError, match="args are given, but the plugin takes none"):
        build(config("Nameless", args={"Nameless": {}}), out_of_tree=registry)


def test_arguments_of_a_plugin_that_is_not_enabled_are_ignored(written: Written) -> None:
    file = written("mine.py", PLUGIN)
    registry = registry_with([f"{file}:Packing"])
    assert not build(config(args={"packing": {"sise": 1}}), out_of_tree=registry).out_of_tree


def test_arguments_of_an_in_tree_plugin_without_any_are_ignored_as_upstream() -> None:
    assert build(config(args={"NodeName": {"any": 1}})).config.profiles


# -- installed packages ---------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package: a module and its entry points."""

    def install(name: str, module: str, declared: str) -> None:
        site = tmp_path / f"site-{name}"
        info = site / f"{name}-1.2.dist-info"
        info.mkdir(parents=True)
        (site / f"{name}.py").write_text(module)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[kubesched.plugins]\n{declared}\n")
        monkeypatch.syspath_prepend(str(site))

    return install


def test_a_configuration_loads_the_plugin_of_an_installed_package(
    package: Callable[..., None],
) -> None:
    package("packed_one", PLUGIN, "Packed = packed_one:Packing\nSpare = packed_one:Nameless")
    built = build(config("Packed", args={"Packed": {"size": 6}}))
    plugin = built.profiles["default-scheduler"].plugins["Packed"]
    assert (plugin.name, plugin.args.size) == ("Packed", 6)
    assert built.out_of_tree == {"Packed"}


def test_an_unused_package_is_not_imported(package: Callable[..., None]) -> None:
    package("packed_two", "raise RuntimeError('broken')\n", "Broken = packed_two:Packing")
    assert build(config()).profiles
    assert "packed_two" not in sys.modules
    assert [entry.name for entry in installed_plugins()] == ["Broken"]


@pytest.mark.parametrize(
    ("module", "declared", "problem"),
    [
        (
            "raise RuntimeError('no tea')\n",
            "packed_three:Packing",
            "package packed_three 1.2: cannot load packed_three:Packing: RuntimeError: no tea",
        ),
        ("X = 1\n", "packed_three:X", "packed_three:X is neither a class nor a factory"),
        ("", "packed_three:X", "cannot load packed_three:X: AttributeError: "),
        ("class X: pass\n", "packed_three:X", "package packed_three 1.2: plugin P: X extends no"),
    ],
)
def test_an_error_of_a_package_names_the_package(
    module: str, declared: str, problem: str, package: Callable[..., None]
) -> None:
    package("packed_three", module, f"P = {declared}")
    with pytest.raises(ConfigError) as rejected:
        build(config("P"))
    assert 'initializing plugin "P": ' in str(rejected.value)
    assert problem in str(rejected.value)


def test_two_packages_with_the_same_plugin_are_an_error(package: Callable[..., None]) -> None:
    package("packed_four", PLUGIN, "P = packed_four:Packing")
    package("packed_five", PLUGIN, "P = packed_five:Packing")
    with pytest.raises(ConfigError, match=r"package packed_five 1\.2, package packed_four 1\.2"):
        build(config("P"))


def test_plugin_options_precede_installed_packages(package: Callable[..., None]) -> None:
    package("packed_six", "raise RuntimeError\n", "P = packed_six:X\nNodeName = packed_six:X")
    registry = registry_with({"P": Here})
    assert build(config("P"), out_of_tree=registry).profiles["default-scheduler"].plugins["P"]


def test_an_unknown_name_has_upstreams_error() -> None:
    with pytest.raises(ConfigError) as rejected:
        build(config("Nobody"))
    assert str(rejected.value) == f'{PREFIX}PreFilterPlugin "Nobody" does not exist'
