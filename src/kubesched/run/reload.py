"""Reloads plugins and configuration while the scheduler runs.

Watches their files, checks that only reloadable fields changed, and reports the result: in the log,
as an event, on /statusz and as a metric. A rejected change leaves everything as it is. The caller
supplies the function that reads the configuration.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

from kubesched.api.times import time_text
from kubesched.config.encode import effective
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.runtime.registry import Registry
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.metrics.instruments import Maker, Measures
from kubesched.plugins.in_tree import in_tree_registry
from kubesched.profile.plugin_loading import Forgotten, files_of, modules_of
from kubesched.run.file_changes import WatchedFiles
from kubesched.run.live_scheduler import LiveScheduler
from kubesched.run.profile_set import unsandboxed
from kubesched.run.swap import Swap

CHECK_S: Final = 0.5
"""How often the files are checked."""
READ_S_MAX: Final = 60.0
"""Time limit for reading the configuration and importing plugins."""
RELOADABLE: Final = ("profiles", "extenders")
_ALL: Final = "profiles, plugins, their args and extenders"

Result: TypeAlias = Literal["swapped", "rejected"]
RecordEvent: TypeAlias = Callable[[Literal["Normal", "Warning"], str, str], None]
"""Records an event about the scheduler itself: type, reason, note."""


class ReloadError(Exception):
    """A change that is rejected."""


@dataclass(frozen=True, slots=True)
class LoadedConfiguration:
    """Configuration and plugins as read from files."""

    config: KubeSchedulerConfiguration
    registry: Registry | None
    files: Sequence[Path]
    """The files read, without the modules of plugins."""
    modules: Sequence[str] = ()
    """The names of plugin modules in the configuration."""


@dataclass(slots=True)
class Reloader:
    """Watches files, and applies their changes to the scheduler."""

    live: LiveScheduler
    loaded: LoadedConfiguration
    """The active configuration."""
    read: Callable[[], LoadedConfiguration]
    """Reads everything again; an exception rejects the change."""
    record_event: RecordEvent
    clock: Clock
    log: Log
    measures: Measures
    fixed: frozenset[str] = frozenset()
    """Names of plugins that the program itself registers: they cannot be reloaded."""
    run_aside: Callable[[Callable[[], LoadedConfiguration]], Awaitable[LoadedConfiguration]] = (
        field(default_factory=lambda: in_thread)
    )
    """Runs a function without blocking the loop."""
    files: WatchedFiles = field(default_factory=WatchedFiles)
    rejection: str = ""
    """Why the last change was rejected; empty if it was applied."""
    _at_s: float = 0.0
    _rejected_s: float = 0.0
    _counts: dict[Result, int] = field(default_factory=lambda: {"swapped": 0, "rejected": 0})
    _counters: Mapping[Result, Any] = field(init=False)

    def __post_init__(self) -> None:
        family = Maker(self.measures, "kubesched_").counter_vec(
            "reloads_total",
            "Number of changes of plugins and configuration seen while the scheduler ran,"
            " by result: swapped or rejected.",
            "ALPHA",
            ("result",),
        )
        self._counters = {
            "swapped": family.labels("swapped"),
            "rejected": family.labels("rejected"),
        }
        self._at_s = self.clock.now_s()
        self.files.watch(self._watched_files())

    async def run(self) -> None:
        """Reload changed files until canceled."""
        self.log.info("Watching files for changes", files=[str(path) for path in self.files])
        while True:
            await self.clock.sleep(CHECK_S)
            changed = self.files.poll(counts_touched=bool(self.rejection))
            if changed:
                await self.reload(changed)

    async def reload(self, changed: Sequence[Path]) -> bool:
        """Read the files and apply them; return whether that succeeded."""
        start_s = self.clock.monotonic_s()
        forgotten = Forgotten(self._modules())
        try:
            loaded = await self.run_aside(self.read)
            self._check(loaded)
            settings = replace(
                self.live.settings, config=loaded.config, out_of_tree=loaded.registry
            )
            await Swap(self.live).apply(settings)
        except Exception as problem:  # noqa: BLE001 - the old profile set stays active
            forgotten.restore()
            # The fault may be in a module that was never imported before.
            self.files.watch(self._watched_files(with_neighbors=True))
            self._rejected(problem, changed)
            return False
        self.loaded = loaded
        self.files.watch(self._watched_files())
        self._swapped(changed, self.clock.monotonic_s() - start_s)
        return True

    def _check(self, loaded: LoadedConfiguration) -> None:
        others = changed_fields(self.loaded.config, loaded.config)
        if others:
            verb = "has" if len(others) == 1 else "have"
            raise ReloadError(
                f"{', '.join(others)} {verb} changed, which requires a restart: "
                f"only {_ALL} can be reloaded"
            )

    # -- files ------------------------------------------------------------------------------------

    def _factories(self) -> list[Any]:
        """Return the classes and factories of out-of-tree plugins."""
        ours = in_tree_registry()
        built = [
            type(unsandboxed(plugin))
            for profile in self.live.built.profiles.values()
            for plugin in profile.plugins.values()
            if plugin.name not in ours and plugin.name not in self.fixed
        ]
        registry = self.loaded.registry or Registry()
        return [*built, *(registry[name] for name in registry if name not in self.fixed)]

    def _modules(self) -> dict[str, ModuleType]:
        return modules_of(self._factories(), (*self.loaded.files, *self.loaded.modules))

    def _watched_files(self, *, with_neighbors: bool = False) -> list[Path]:
        modules = files_of(self._modules().values())
        paths = dict.fromkeys((*self.loaded.files, *modules))
        if with_neighbors:
            folders = {path.parent: None for path in paths if path.suffix == ".py"}
            paths |= dict.fromkeys(
                path for folder in folders for path in sorted(folder.glob("*.py"))
            )
        return list(paths)

    # -- reporting --------------------------------------------------------------------------------

    def _swapped(self, changed: Sequence[Path], taken_s: float) -> None:
        self.rejection, self._at_s = "", self.clock.now_s()
        self._count("swapped")
        live = self.live
        self.log.info(
            "Reloaded plugins and configuration",
            generation=live.profile_set.number,
            files=[str(path) for path in changed],
            profiles=list(live.profiles),
            milliseconds=round(taken_s * 1000),
        )
        names = ", ".join(path.name for path in changed)
        self.record_event(
            "Normal", "Reloaded", f"{names} changed: profiles {', '.join(live.profiles)}"
        )

    def _rejected(self, problem: Exception, changed: Sequence[Path]) -> None:
        self.rejection = str(problem) or type(problem).__name__
        self._rejected_s = self.clock.now_s()
        self._count("rejected")
        self.log.error(
            "Reload rejected; the previous configuration stays active",
            err=self.rejection,
            files=[str(path) for path in changed],
        )
        names = ", ".join(path.name for path in changed)
        self.record_event(
            "Warning", "ReloadRejected", f"{names} changed and was rejected: {self.rejection}"
        )

    def _count(self, result: Result) -> None:
        self._counts[result] += 1
        self._counters[result].inc()

    def notes(self) -> dict[str, str]:
        """Return the lines for /statusz."""
        counts = self._counts
        notes = {
            "Reload": f"generation {self.live.profile_set.number} active since "
            f"{time_text(self._at_s)}; changes applied: {counts['swapped']}, "
            f"rejected: {counts['rejected']}; files watched: {len(self.files)}"
        }
        if self.rejection:
            notes["Reload rejected"] = f"{time_text(self._rejected_s)}: {self.rejection}"
        return notes


async def in_thread(work: Callable[[], LoadedConfiguration]) -> LoadedConfiguration:
    """Run `work` in a thread and return its result: an import may take long."""
    done: Future[LoadedConfiguration] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as problem:  # noqa: BLE001 - raised in the waiting task
            done.set_exception(problem)
        except BaseException as problem:  # noqa: BLE001 - SystemExit must not end the loop
            done.set_exception(ReloadError(f"{type(problem).__name__}: {problem}"))

    # A daemon: a module that never returns must not keep the process from ending.
    threading.Thread(target=run, name="reload", daemon=True).start()
    try:
        return await asyncio.wait_for(asyncio.wrap_future(done), READ_S_MAX)
    except TimeoutError:
        text = f"reading configuration and plugins takes longer than {READ_S_MAX:.0f} s"
        raise ReloadError(text) from None


def changed_fields(old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration) -> list[str]:
    """Return the paths of changed fields that cannot be reloaded."""
    return list(_differing(effective(old), effective(new), ""))


def _differing(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            if path or key not in RELOADABLE:
                yield from _differing(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
    elif old != new:
        yield path
