"""Changed plugins and configuration, put in force while the scheduler runs.

Owns the watch over their files, what may change and what may not, and how it is told what became
of a change: in the log, by an event, on /statusz, in a metric. A change that is refused leaves
everything as it is. Never reads a configuration itself: whoever starts the scheduler says how.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

from kubesched.app.changed_files import ChangedFiles
from kubesched.app.fresh_modules import Forgotten, files_of, modules_of
from kubesched.app.generation import of_user
from kubesched.app.live import LiveScheduler
from kubesched.app.swap import Swap
from kubesched.config.encode import effective
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.registry import Registry
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.measures import Maker, Measures
from kubesched.objects.times import time_text
from kubesched.plugins.in_tree import in_tree_registry

LOOK_S: Final = 0.5
"""How often the files are looked at."""
READ_S_MAX: Final = 60.0
"""How long it may take to read the configuration and to import plugins."""
RELOADABLE: Final = ("profiles", "extenders")
_ALL: Final = "profiles, plugins, their args and extenders"

Result: TypeAlias = Literal["swapped", "refused"]
Tell: TypeAlias = Callable[[Literal["Normal", "Warning"], str, str], None]
"""Records an event about the scheduler itself: type, reason, note."""


class ReloadError(Exception):
    """A change that is refused, and why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the files say."""

    config: KubeSchedulerConfiguration
    registry: Registry | None
    files: Sequence[Path]
    """Those that say it, plugins' modules apart."""
    modules: Sequence[str] = ()
    """The names of modules that plugins are said to be in."""


@dataclass(slots=True)
class Reloader:
    """Looks at files, and has the scheduler go by what they say."""

    live: LiveScheduler
    wanted: Wanted
    """What is in force."""
    read: Callable[[], Wanted]
    """Reads everything anew; whatever it raises is why a change is refused."""
    tell: Tell
    clock: Clock
    log: Log
    measures: Measures
    fixed: frozenset[str] = frozenset()
    """The plugins that the program itself brings, by name: they cannot be read again."""
    aside: Callable[[Callable[[], Wanted]], Awaitable[Wanted]] = field(
        default_factory=lambda: in_thread
    )
    """Has something done while pods are placed."""
    files: ChangedFiles = field(default_factory=ChangedFiles)
    refusal: str = ""
    """Why the last change was refused; empty if it was not."""
    _at_s: float = 0.0
    _refused_s: float = 0.0
    _counts: dict[Result, int] = field(default_factory=lambda: {"swapped": 0, "refused": 0})
    _counters: Mapping[Result, Any] = field(init=False)

    def __post_init__(self) -> None:
        family = Maker(self.measures, "kubesched_").counter_vec(
            "reloads_total",
            "Number of changes of plugins and configuration that were seen while the scheduler ran,"
            " by the result: swapped or refused.",
            "ALPHA",
            ("result",),
        )
        self._counters = {"swapped": family.labels("swapped"), "refused": family.labels("refused")}
        self._at_s = self.clock.now_s()
        self.files.follow(self._followed())

    async def run(self) -> None:
        """Reload whatever changes, until cancelled."""
        self.log.info("Watching files for changes", files=[str(path) for path in self.files])
        while True:
            await self.clock.sleep(LOOK_S)
            changed = self.files.look(counts_touched=bool(self.refusal))
            if changed:
                await self.reload(changed)

    async def reload(self, changed: Sequence[Path]) -> bool:
        """Put in force what the files say now; return whether it is."""
        start_s = self.clock.monotonic_s()
        forgotten = Forgotten(self._modules())
        try:
            wanted = await self.aside(self.read)
            self._check(wanted)
            settings = replace(
                self.live.settings, config=wanted.config, out_of_tree=wanted.registry
            )
            await Swap(self.live).put_in_force(settings)
        except Exception as problem:  # noqa: BLE001 - whatever is wrong, the old rules stay
            forgotten.restore()
            # The fault may lie in a module that was never imported before.
            self.files.follow(self._followed(with_neighbours=True))
            self._refused(problem, changed)
            return False
        self.wanted = wanted
        self.files.follow(self._followed())
        self._swapped(changed, self.clock.monotonic_s() - start_s)
        return True

    def _check(self, wanted: Wanted) -> None:
        others = changed_fields(self.wanted.config, wanted.config)
        if others:
            one = len(others) == 1
            raise ReloadError(
                f"{', '.join(others)} {'has' if one else 'have'} changed, which takes a restart: "
                f"only {_ALL} can be reloaded"
            )

    # -- files ------------------------------------------------------------------------------------

    def _factories(self) -> list[Any]:
        """Return the classes and functions that make plugins which are not ours."""
        ours = in_tree_registry()
        built = [
            type(of_user(plugin))
            for profile in self.live.built.profiles.values()
            for plugin in profile.plugins.values()
            if plugin.name not in ours and plugin.name not in self.fixed
        ]
        registry = self.wanted.registry or Registry()
        return [*built, *(registry[name] for name in registry if name not in self.fixed)]

    def _modules(self) -> dict[str, ModuleType]:
        return modules_of(self._factories(), (*self.wanted.files, *self.wanted.modules))

    def _followed(self, *, with_neighbours: bool = False) -> list[Path]:
        modules = files_of(self._modules().values())
        paths = dict.fromkeys((*self.wanted.files, *modules))
        if with_neighbours:
            folders = {path.parent: None for path in paths if path.suffix == ".py"}
            paths |= dict.fromkeys(near for one in folders for near in sorted(one.glob("*.py")))
        return list(paths)

    # -- telling ----------------------------------------------------------------------------------

    def _swapped(self, changed: Sequence[Path], taken_s: float) -> None:
        self.refusal, self._at_s = "", self.clock.now_s()
        self._count("swapped")
        live = self.live
        self.log.info(
            "Reloaded plugins and configuration",
            generation=live.generation.number,
            files=[str(path) for path in changed],
            profiles=list(live.profiles),
            milliseconds=round(taken_s * 1000),
        )
        names = ", ".join(path.name for path in changed)
        self.tell("Normal", "Reloaded", f"{names} changed: profiles {', '.join(live.profiles)}")

    def _refused(self, problem: Exception, changed: Sequence[Path]) -> None:
        self.refusal = str(problem) or type(problem).__name__
        self._refused_s = self.clock.now_s()
        self._count("refused")
        self.log.error(
            "Refused to reload; what was in force stays in force",
            err=self.refusal,
            files=[str(path) for path in changed],
        )
        names = ", ".join(path.name for path in changed)
        self.tell("Warning", "ReloadRefused", f"{names} changed and was refused: {self.refusal}")

    def _count(self, result: Result) -> None:
        self._counts[result] += 1
        self._counters[result].inc()

    def notes(self) -> dict[str, str]:
        """Return what /statusz says."""
        counts = self._counts
        found = {
            "Reload": f"generation {self.live.generation.number} in force since "
            f"{time_text(self._at_s)}; changes taken over: {counts['swapped']}, "
            f"refused: {counts['refused']}; files watched: {len(self.files)}"
        }
        if self.refusal:
            found["Reload refused"] = f"{time_text(self._refused_s)}: {self.refusal}"
        return found


async def in_thread(work: Callable[[], Wanted]) -> Wanted:
    """Return what work comes to in a thread: importing takes its time."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Wanted] = loop.create_future()

    def settle(result: Wanted | None, problem: Exception | None) -> None:
        if done.done():
            return
        if problem is not None:
            done.set_exception(problem)
        elif result is not None:
            done.set_result(result)

    def run() -> None:
        found, failure = None, None
        try:
            found = work()
        except BaseException as problem:  # noqa: BLE001 - told to whoever waits
            failure = _as_error(problem)
        with suppress(RuntimeError):  # The loop may have ended meanwhile.
            loop.call_soon_threadsafe(settle, found, failure)

    # A daemon: a module that never ends must not keep the process from ending.
    threading.Thread(target=run, name="reload", daemon=True).start()
    try:
        return await asyncio.wait_for(done, READ_S_MAX)
    except TimeoutError:
        text = f"reading configuration and plugins takes longer than {READ_S_MAX:.0f} s"
        raise ReloadError(text) from None


def _as_error(problem: BaseException) -> Exception:
    # SystemExit of a module must end the reading, not the loop.
    if isinstance(problem, Exception):
        return problem
    return ReloadError(f"{type(problem).__name__}: {problem}")


def changed_fields(old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration) -> list[str]:
    """Return what differs beside that which can be reloaded, by its path in the file."""
    return list(_differing(effective(old), effective(new), ""))


def _differing(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            if path or key not in RELOADABLE:
                yield from _differing(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
    elif old != new:
        yield path
