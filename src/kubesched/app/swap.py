"""Other rules for a running scheduler, put in force between two decisions.

Owns what has to be there before a generation can take over, the one step in which it does, and the
end of the one before: pods that its plugins hold or bind are finished by them. Never reads a file
and never judges a configuration: `app.reload` and `app.generation` do.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from kubesched.app.generation import Generation, make_generation, of_user
from kubesched.app.live import LiveScheduler
from kubesched.app.live_settings import LiveSettings
from kubesched.app.watching import POD_SELECTOR, WatchError
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import PODS, Resource
from kubesched.config.errors import ConfigError
from kubesched.kit.tasks import Tasks
from kubesched.objects.pod import Pod
from kubesched.queue.rules import QueueRules

WATCH_S_MAX: Final = 30.0
"""How long a kind that is new to the scheduler may take to be read."""
LOOK_S: Final = 0.2
"""How often it is looked whether the last pod of a former generation is bound."""


class SwapError(Exception):
    """Rules that cannot be put in force, and why; the old ones still are."""


class _Pods(msgspec.Struct):
    items: list[msgspec.Raw] = []


@dataclass(slots=True)
class Swap:
    """Replaces the rules of one scheduler, one generation after the other."""

    live: LiveScheduler

    async def put_in_force(self, settings: LiveSettings) -> Generation:
        """Build what a configuration describes, and have it decide from the next pod on.

        Raises:
            SwapError: It is refused; nothing has changed.
        """
        tasks = Tasks()
        try:
            self.live.preparing, rules = self._built(settings, tasks)
            await self._provide(self.live.preparing)
            await self._between_two_decisions(self.live.preparing, rules)
            return self.live.preparing
        except BaseException:
            await tasks.stop()
            if self.live.preparing is not None:
                await self.live.preparing.extenders.close()
            raise
        finally:
            self.live.preparing = None

    def _built(self, settings: LiveSettings, tasks: Tasks) -> tuple[Generation, QueueRules]:
        live, number = self.live, self.live.generation.number + 1
        view = live.cache.snapshot()
        try:
            new = make_generation(
                settings, live.outside, view, tasks, number=number, stand_in=live.cache.stand_in
            )
            rules = live.queue.rules_of(new.queueing, less=new.less, key=new.key)
        except (ConfigError, ValueError) as problem:
            raise SwapError(str(problem)) from problem
        live.lend(new.lent)
        return new, rules

    # -- what it needs beside what there is -------------------------------------------------------

    async def _provide(self, new: Generation) -> None:
        """Have everything known that the new plugins read."""
        live = self.live
        is_shown_more = new.shows_bound_pods and not live.watching.keeps_bound_json
        live.watching.keeps_bound_json |= is_shown_more
        if not live.reflectors:  # Nothing is watched yet, and all of it will be.
            more = [one for one in new.resources if one not in live.watching.resources]
            live.watching.resources += more
            live.watching.unsynced.update(more)
            if new.reads_bound_pods:
                live.cache.keep_whole_pods()
            return
        try:
            await live.watching.add(
                new.resources, live.tasks, timeout_s=WATCH_S_MAX, forget=self._forget_kind
            )
            if is_shown_more or (new.reads_bound_pods and not live.cache.keeps_whole_pods):
                await self._read_whole_pods()
        except (WatchError, ApiError, TransportError) as problem:
            raise SwapError(str(problem)) from problem

    def _forget_kind(self, resource: Resource) -> None:
        live = self.live
        live.scheduler.handlers.others.pop(resource, None)
        kind = live.cache.kind_of(resource.kind)
        if kind is not None:
            live.cache.drop_kind(kind)

    async def _read_whole_pods(self) -> None:
        """Keep bound pods whole: those that change from now on, and all others as listed now."""
        live = self.live
        live.cache.keep_whole_pods()
        token = ""
        while True:
            query: dict[str, str | int | bool] = {"fieldSelector": POD_SELECTOR, "limit": 500}
            if token:
                query["continue"] = token
            body = await live.outside.client.request("GET", PODS.path(), query=query)
            token = self._take_whole(body)
            if not token:
                return

    def _take_whole(self, body: bytes) -> str:
        """Take over a page of pods; return where the next one is."""
        cache = self.live.cache
        for raw in msgspec.json.decode(body, type=_Pods).items:
            pod = msgspec.json.decode(raw, type=Pod)
            if pod.spec.node_name:
                cache.add_whole(cache.pod_info(pod, bytes(raw)))
        return msgspec.json.decode(body, type=_Page).metadata.token

    # -- the step itself --------------------------------------------------------------------------

    async def _between_two_decisions(self, new: Generation, rules: QueueRules) -> None:
        done = asyncio.get_running_loop().create_future()

        def step() -> None:
            if done.cancelled():
                return
            try:
                self._swap(new, rules)
            except SwapError as problem:
                done.set_exception(problem)
            else:
                done.set_result(None)

        if not self.live.reflectors and not self.live.scheduler.is_scheduling:
            step()  # Nobody decides yet.
        else:
            self.live.inbox.put(step)
        await done

    def _swap(self, new: Generation, rules: QueueRules) -> None:
        live, old = self.live, self.live.generation
        _take_over(new, old)
        # From here on nothing can fail.
        added = new.profiles.keys() - live.profiles.keys()
        live.generation, live.settings = new, new.settings
        live.profiles.clear()
        live.profiles.update(new.profiles)
        live.know_recorders()
        live.scheduler.cycle.go_by(new.extenders)
        live.cache.drop_stand_ins()
        live.queue.swap(rules)
        live.scheduler.handlers.rules_changed(added)
        live.outside.log.info("Other rules are in force", level=1, generation=new.number)
        live.retiring.append(old)
        live.tasks.start(self._retire(old), name=f"former plugins {old.number}")

    async def _retire(self, old: Generation) -> None:
        """End the background of former plugins once no pod is bound by them any more."""
        live = self.live
        binders, profiles = live.scheduler.binders, list(old.profiles.values())
        while any(map(binders.is_used, profiles)):
            await live.outside.clock.sleep(LOOK_S)
        await old.end()
        for profile in profiles:
            binders.forget(profile)
        live.retiring.remove(old)
        await self._drop_unread_kinds(old)
        live.outside.log.info("Former plugins have ended", level=2, generation=old.number)

    async def _drop_unread_kinds(self, old: Generation) -> None:
        live = self.live

        def unread() -> list[Resource]:
            used = (live.generation, live.preparing, *live.retiring)
            read = {kind for one in used if one is not None for kind in one.resources}
            return [kind for kind in old.resources if kind not in read]

        if live.reflectors:
            await live.watching.drop(unread, forget=self._forget_kind)


class _Continued(msgspec.Struct):
    token: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _Continued = msgspec.field(default_factory=_Continued)


def _take_over(new: Generation, old: Generation) -> None:
    """Have plugins go on with what those of the same name and profile know, if they want to."""
    for name, profile in new.profiles.items():
        former = old.profiles.get(name)
        known = {} if former is None else former.plugins
        for plugin in profile.plugins.values():
            take_over = getattr(of_user(plugin), "take_over", None)
            if take_over is None or plugin.name not in known:
                continue
            try:
                take_over(of_user(known[plugin.name]))
            except Exception as problem:
                text = f'plugin "{plugin.name}": take_over(): {type(problem).__name__}: {problem}'
                raise SwapError(text) from problem
