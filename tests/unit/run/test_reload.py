"""`--reload` inside the test process: files change, the test moves the clock."""

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

from kubesched.api.builders import a_node, a_pod
from kubesched.cli.run.reload import reloader
from kubesched.config.load import load_config_object
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import make_log
from kubesched.profile.plugin_loading import registry_with
from kubesched.run.options.parse import OptionsError, parse_options
from kubesched.run.reload import (
    LoadedConfiguration,
    Reloader,
    ReloadError,
    changed_fields,
    in_thread,
)
from kubesched.testing.cluster import Cluster
from tests.unit.run.reload_world import run, swap

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
    """A scheduler, its two files, its log and its events."""

    cluster: Cluster
    reloader: Reloader
    plugin: Path
    config: Path
    logged: io.StringIO
    pods: int = 0

    def write(self, node: str, imports: str = "") -> None:
        self.plugin.write_text(PLUGIN.format(node=node, imports=imports))

    def placed(self) -> str:
        """Return the node of the next pod."""
        self.pods += 1
        self.cluster.add(a_pod(f"p{self.pods}"))
        self.cluster.schedule()
        return self.cluster.node_of(f"p{self.pods}")

    def events(self) -> list[tuple[str, str, str]]:
        """Return the events about the scheduler itself."""
        return [
            (event["involvedObject"]["name"], event["reason"], event["message"])
            for event in self.cluster._store.events
            if "involvedObject" in event
        ]


@contextmanager
def running(plugin: Path | str, file: Path) -> Iterator[World]:
    """Run a scheduler with a plugin file and a configuration that enables it."""
    file.write_text(config())
    logged = io.StringIO()
    modules, path, writes = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    cluster = Cluster(log=make_log(logged, clock=SystemClock()))
    cluster.add(a_node("a"), a_node("b"))
    arguments = [f"--config={file}", f"--plugin={plugin}:Only", "--reload"]
    options = parse_options(arguments)
    registry = registry_with(list(options.plugins))
    swap(cluster, cast("type", registry["Only"]))
    made = reloader(cluster.live, options, arguments, registry)
    made.run_aside = at_once
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


async def at_once(work: Callable[[], LoadedConfiguration]) -> LoadedConfiguration:
    return work()


async def begin(cluster: Cluster, made: Reloader) -> None:
    cluster.live.tasks.start(made.run(), name="reload")


def test_a_changed_plugin_decides_after_the_reload(world: World) -> None:
    assert world.placed() == "a"
    world.write("'b'")
    world.cluster.advance(0.5)
    assert world.placed() == "a"
    world.cluster.advance(1)
    assert world.placed() == "b"
    (event,) = world.events()
    assert event == (
        "kube-scheduler",
        "Reloaded",
        "only_plugin.py changed: profiles default-scheduler",
    )
    assert "changes applied: 1, rejected: 0; files watched: 2" in world.reloader.notes()["Reload"]


@pytest.mark.parametrize(
    ("node", "imports", "text"),
    [
        ("'b", "", "SyntaxError"),
        ("'b'", "import there_is_no_such_module", "No module named 'there_is_no_such_module'"),
        ("1 / 0", "", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_plugin_is_rejected_and_the_fixed_one_applied(
    world: World, node: str, imports: str, text: str
) -> None:
    world.write(node, imports)
    world.cluster.advance(2)
    assert world.placed() == "a"
    ((_, reason, note),) = world.events()
    assert reason == "ReloadRejected"
    assert note.startswith("only_plugin.py changed and was rejected: ")
    assert text in note
    assert text in world.reloader.notes()["Reload rejected"]
    world.cluster.live.environment.log.flush()
    assert "Reload rejected; the previous configuration stays active" in world.logged.getvalue()
    world.write("'b'")
    world.cluster.advance(2)
    assert world.placed() == "b"
    assert "Reload rejected" not in world.reloader.notes()


def test_an_invalid_configuration_is_rejected_with_the_startup_error(world: World) -> None:
    world.config.write_text(config(profilez=[]))
    world.cluster.advance(2)
    assert world.placed() == "a"
    assert 'unknown field "profilez"' in world.reloader.rejection
    world.config.write_text(config())
    world.cluster.advance(2)
    assert world.reloader.rejection == ""


def test_a_change_of_a_field_that_needs_a_restart_is_rejected(world: World) -> None:
    world.config.write_text(
        config(parallelism=3, leaderElection={"leaderElect": False, "leaseDuration": "20s"})
    )
    world.write("'b'")
    world.cluster.advance(2)
    assert world.reloader.rejection == (
        "parallelism, leaderElection.leaseDuration have changed, which requires a restart: only "
        "profiles, plugins, their args and extenders can be reloaded"
    )
    assert world.placed() == "a"


def test_a_module_beside_the_plugin_is_watched_and_reloaded(world: World) -> None:
    beside = world.plugin.parent / "beside_only.py"
    beside.write_text("NODE = 'b'")
    world.write("beside_only.NODE", "import beside_only")
    world.cluster.advance(2)
    assert world.placed() == "b"
    beside.write_text("NODE = 'a'")
    world.cluster.advance(2)
    assert world.placed() == "a"


def test_a_swapped_link_reloads_the_modules_beside_the_plugin(tmp_path: Path) -> None:
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


def test_a_package_is_reloaded_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_module_that_reexports_a_plugin_is_reloaded(
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


def test_a_fix_in_a_module_that_was_never_imported_is_seen(world: World) -> None:
    beside = world.plugin.parent / "beside_new.py"
    beside.write_text("NODE = 'b")
    world.write("beside_new.NODE", "import beside_new")
    world.cluster.advance(2)
    assert "SyntaxError" in world.reloader.rejection
    beside.write_text("NODE = 'b'")
    world.cluster.advance(2)
    assert world.placed() == "b"


def test_a_rejected_reload_restores_the_old_module(world: World) -> None:
    before = sys.modules[type(plugin_in_force(world)).__module__]
    world.write("'b", "")
    world.cluster.advance(2)
    assert sys.modules[type(plugin_in_force(world)).__module__] is before


def plugin_in_force(world: World) -> Any:
    return world.cluster.live.profiles["default-scheduler"].plugins["Only"]


def test_changed_fields_are_listed_by_path() -> None:
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


def test_in_thread_returns_the_result() -> None:
    loaded = LoadedConfiguration(load_config_object(HEAD), None, ())
    assert asyncio.run(in_thread(lambda: loaded)) is loaded


def test_a_module_that_exits_fails_the_reload_only() -> None:
    def leave() -> LoadedConfiguration:
        raise SystemExit(3)

    with pytest.raises(ReloadError, match="SystemExit: 3"):
        asyncio.run(in_thread(leave))


def test_a_module_that_never_returns_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubesched.run.reload.READ_S_MAX", 0.01)
    ended = threading.Event()

    def hang() -> LoadedConfiguration:
        ended.wait()
        raise ValueError("too late")

    with pytest.raises(ReloadError, match="takes longer than 0 s"):
        asyncio.run(in_thread(hang))
    ended.set()


def test_reload_and_shadow_exclude_each_other() -> None:
    with pytest.raises(OptionsError, match="--reload and --shadow cannot be given together"):
        parse_options(["--reload", "--shadow"])
