"""`--reload` without a process: files change, the clock is moved, what comes of it is told."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from kubesched.app.options import OptionsError, parse_options
from kubesched.app.outside_plugins import registry_given
from kubesched.app.reload import Reloader, ReloadError, Wanted, changed_fields, in_thread
from kubesched.cli.run_reload import reloader
from kubesched.config.load import load_config_object
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import make_log
from kubesched.testing.builders import a_node, a_pod
from kubesched.testing.cluster import Cluster
from tests.unit.app.reload_world import run, swap

HEAD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
}
PLUGIN = """
from kubesched import unschedulable
{imports}

class Only:
    name = "Only"

    def __init__(self):
        self.node = {node}

    def filter(self, state, pod, node):
        return None if node.name == self.node else unschedulable("not " + self.node)
"""


def config(**fields: Any) -> str:
    plugins = {"multiPoint": {"enabled": [{"name": "Only"}]}}
    return yaml.safe_dump({**HEAD, "profiles": [{"plugins": plugins}], **fields})


@dataclass
class World:
    """A scheduler, its two files, and what it says."""

    cluster: Cluster
    reloader: Reloader
    plugin: Path
    config: Path
    logged: io.StringIO
    pods: int = 0

    def write(self, node: str, imports: str = "") -> None:
        self.plugin.write_text(PLUGIN.format(node=node, imports=imports))

    def placed(self) -> str:
        """Return where the next pod goes."""
        self.pods += 1
        self.cluster.add(a_pod(f"p{self.pods}"))
        self.cluster.schedule()
        return self.cluster.node_of(f"p{self.pods}")

    def told(self) -> list[tuple[str, str, str]]:
        """Return the events about the scheduler itself."""
        return [
            (one["involvedObject"]["name"], one["reason"], one["message"])
            for one in self.cluster._store.events
            if "involvedObject" in one
        ]


@contextmanager
def running(plugin: Path | str, file: Path) -> Iterator[World]:
    """Run a scheduler with a plugin that is there, and a configuration that enables it."""
    file.write_text(config())
    logged = io.StringIO()
    modules, path, writes = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    cluster = Cluster(log=make_log(logged, clock=SystemClock()))
    cluster.add(a_node("a"), a_node("b"))
    arguments = [f"--config={file}", f"--plugin={plugin}:Only", "--reload"]
    options = parse_options(arguments)
    registry = registry_given(list(options.plugins))
    swap(cluster, cast("type", registry["Only"]))
    made = reloader(cluster.live, options, arguments, registry)
    made.aside = at_once
    run(cluster, begin(cluster, made))
    yield World(cluster, made, Path(plugin), file, logged)
    cluster.close()
    sys.dont_write_bytecode, sys.path[:] = writes, path
    for name in set(sys.modules) - modules:
        if name.startswith(("kubesched_plugin_", "beside_")):
            del sys.modules[name]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    plugin = tmp_path / "only_plugin.py"
    plugin.write_text(PLUGIN.format(node="'a'", imports=""))
    with running(plugin, tmp_path / "scheduler.yaml") as made:
        yield made


async def at_once(work: Callable[[], Wanted]) -> Wanted:
    return work()


async def begin(cluster: Cluster, made: Reloader) -> None:
    cluster.live.tasks.start(made.run(), name="reload")


def test_a_changed_plugin_decides_from_then_on(world: World) -> None:
    assert world.placed() == "a"
    world.write("'b'")
    world.cluster.advance(0.5)
    assert world.placed() == "a"
    world.cluster.advance(1)
    assert world.placed() == "b"
    (told,) = world.told()
    assert told == (
        "kube-scheduler",
        "Reloaded",
        "only_plugin.py changed: profiles default-scheduler",
    )
    assert "changes taken over: 1, refused: 0; files watched: 2" in world.reloader.notes()["Reload"]


@pytest.mark.parametrize(
    ("node", "imports", "text"),
    [
        ("'b", "", "SyntaxError"),
        ("'b'", "import there_is_no_such_module", "No module named 'there_is_no_such_module'"),
        ("1 / 0", "", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_plugin_is_refused_and_the_next_one_taken(
    world: World, node: str, imports: str, text: str
) -> None:
    world.write(node, imports)
    world.cluster.advance(2)
    assert world.placed() == "a"
    ((_, reason, note),) = world.told()
    assert reason == "ReloadRefused"
    assert note.startswith("only_plugin.py changed and was refused: ")
    assert text in note
    assert text in world.reloader.notes()["Reload refused"]
    world.cluster.live.outside.log.flush()
    assert "Refused to reload; what was in force stays in force" in world.logged.getvalue()
    world.write("'b'")
    world.cluster.advance(2)
    assert world.placed() == "b"
    assert "Reload refused" not in world.reloader.notes()


def test_a_broken_configuration_is_refused_with_the_text_of_a_start(world: World) -> None:
    world.config.write_text(config(profilez=[]))
    world.cluster.advance(2)
    assert world.placed() == "a"
    assert 'unknown field "profilez"' in world.reloader.refusal
    world.config.write_text(config())
    world.cluster.advance(2)
    assert world.reloader.refusal == ""


def test_another_field_is_refused_by_name_whatever_else_has_changed(world: World) -> None:
    world.config.write_text(
        config(parallelism=3, leaderElection={"leaderElect": False, "leaseDuration": "20s"})
    )
    world.write("'b'")
    world.cluster.advance(2)
    assert world.reloader.refusal == (
        "parallelism, leaderElection.leaseDuration have changed, which takes a restart: only "
        "profiles, plugins, their args and extenders can be reloaded"
    )
    assert world.placed() == "a"


def test_a_module_beside_the_plugin_is_followed_and_read_anew(world: World) -> None:
    beside = world.plugin.parent / "beside_only.py"
    beside.write_text("NODE = 'b'")
    world.write("beside_only.NODE", "import beside_only")
    world.cluster.advance(2)
    assert world.placed() == "b"
    beside.write_text("NODE = 'a'")
    world.cluster.advance(2)
    assert world.placed() == "a"


def test_a_swapped_link_brings_the_modules_beside_the_plugin_with_it(tmp_path: Path) -> None:
    mount = tmp_path / "mounted"
    for version, node in (("..one", "a"), ("..two", "b")):
        (mount / version).mkdir(parents=True)
        (mount / version / "beside_mounted.py").write_text(f"NODE = {node!r}")
        text = PLUGIN.format(node="beside_mounted.NODE", imports="import beside_mounted")
        (mount / version / "only_plugin.py").write_text(text)
    (mount / "..data").symlink_to("..one")
    for name in ("beside_mounted.py", "only_plugin.py"):
        (mount / name).symlink_to(f"..data/{name}")
    with running(mount / "only_plugin.py", tmp_path / "scheduler.yaml") as world:
        assert world.placed() == "a"
        (mount / "..tmp").symlink_to("..two")
        (mount / "..tmp").replace(mount / "..data")
        world.cluster.advance(2)
        assert world.placed() == "b"


def test_a_package_is_read_anew_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "beside_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text("NODE = 'a'")
    text = PLUGIN.format(node="NODE", imports="from beside_package.words import NODE")
    (package / "plugins.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with running("beside_package.plugins", tmp_path / "scheduler.yaml") as world:
        assert world.placed() == "a"
        (package / "words.py").write_text("NODE = 'b'")
        world.cluster.advance(2)
        assert world.placed() == "b"


def test_a_module_that_only_passes_a_plugin_on_is_read_anew_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    real = elsewhere / "beside_elsewhere.py"
    real.write_text(PLUGIN.format(node="'a'", imports=""))
    plugin = tmp_path / "only_plugin.py"
    plugin.write_text("from beside_elsewhere import Only")
    monkeypatch.syspath_prepend(elsewhere)
    with running(plugin, tmp_path / "scheduler.yaml") as world:
        assert world.placed() == "a"
        real.write_text(PLUGIN.format(node="'b'", imports=""))
        world.cluster.advance(2)
        assert world.placed() == "b"


def test_the_fault_may_be_mended_in_a_module_that_was_never_imported(world: World) -> None:
    beside = world.plugin.parent / "beside_new.py"
    beside.write_text("NODE = 'b")
    world.write("beside_new.NODE", "import beside_new")
    world.cluster.advance(2)
    assert "SyntaxError" in world.reloader.refusal
    beside.write_text("NODE = 'b'")
    world.cluster.advance(2)
    assert world.placed() == "b"


def test_what_is_refused_leaves_the_old_module_where_it_was(world: World) -> None:
    before = sys.modules[type(plugin_in_force(world)).__module__]
    world.write("'b", "")
    world.cluster.advance(2)
    assert sys.modules[type(plugin_in_force(world)).__module__] is before


def plugin_in_force(world: World) -> Any:
    return world.cluster.live.profiles["default-scheduler"].plugins["Only"]


def test_what_differs_is_named_by_its_path() -> None:
    def load(**fields: Any) -> Any:
        return load_config_object({**HEAD, **fields})

    plain = load()
    assert changed_fields(plain, load()) == []
    assert changed_fields(plain, load(profiles=[{"schedulerName": "x"}])) == []
    assert changed_fields(plain, load(podMaxBackoffSeconds=20, parallelism=1)) == [
        "parallelism",
        "podMaxBackoffSeconds",
    ]
    assert changed_fields(plain, load(clientConnection={"qps": 1})) == ["clientConnection.qps"]


def test_reading_aside_gives_what_it_comes_to() -> None:
    wanted = Wanted(load_config_object(HEAD), None, ())
    assert asyncio.run(in_thread(lambda: wanted)) is wanted


def test_a_module_that_ends_the_process_ends_only_its_reading() -> None:
    def leave() -> Wanted:
        raise SystemExit(3)

    with pytest.raises(ReloadError, match="SystemExit: 3"):
        asyncio.run(in_thread(leave))


def test_a_module_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubesched.app.reload.READ_S_MAX", 0.01)
    ended = threading.Event()

    def hang() -> Wanted:
        ended.wait()
        raise ValueError("too late")

    with pytest.raises(ReloadError, match="takes longer than 0 s"):
        asyncio.run(in_thread(hang))
    ended.set()


def test_reload_and_shadow_exclude_each_other() -> None:
    with pytest.raises(OptionsError, match="--reload and --shadow cannot be given together"):
        parse_options(["--reload", "--shadow"])
