"""Replaces the profile set of a running scheduler between two attempts.

Prepares what the new profile set needs, swaps in one step, and retires the old one: its plugins
finish the pods that they hold or bind. Never reads a file (`run.reload` does), and never validates
a configuration (`run.profile_set` does).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from kubesched.api.pod import Pod
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import PODS, Resource
from kubesched.config.errors import ConfigError
from kubesched.kit.tasks import Tasks
from kubesched.queue.queue_rules import QueueRules
from kubesched.run.live_scheduler import LiveScheduler
from kubesched.run.profile_set import ProfileSet, build_profile_set, unsandboxed
from kubesched.run.reflectors import POD_SELECTOR, WatchError
from kubesched.run.settings import LiveSettings

WATCH_S_MAX: Final = 30.0
"""Time limit for the first list of a resource that was not watched before."""
CHECK_S: Final = 0.2
"""How often to check whether a retired profile set still binds pods."""


class SwapError(Exception):
    """A profile set that cannot be applied; the old one stays active."""


class _ListMeta(msgspec.Struct, frozen=True, rename={"continue_": "continue"}):
    continue_: str = ""


class _PodList(msgspec.Struct):
    items: list[msgspec.Raw] = []
    metadata: _ListMeta = _ListMeta()


@dataclass(slots=True)
class Swap:
    """Replaces the profile sets of one scheduler."""

    live: LiveScheduler

    async def apply(self, settings: LiveSettings) -> ProfileSet:
        """Build the profile set of a configuration, and use it from the next pod on.

        Raises:
            SwapError: It is rejected; nothing has changed.
        """
        tasks = Tasks()
        try:
            self.live.preparing, rules = self._built(settings, tasks)
            await self._prepare(self.live.preparing)
            await self._swap_between_attempts(self.live.preparing, rules)
            return self.live.preparing
        except BaseException:
            await tasks.stop()
            if self.live.preparing is not None:
                await self.live.preparing.extenders.close()
            raise
        finally:
            self.live.preparing = None

    def _built(self, settings: LiveSettings, tasks: Tasks) -> tuple[ProfileSet, QueueRules]:
        live, number = self.live, self.live.profile_set.number + 1
        view = live.cache.snapshot()
        try:
            new = build_profile_set(
                settings,
                live.environment,
                view,
                tasks,
                number=number,
                add_placeholders=live.cache.add_placeholders,
            )
            rules = live.queue.rules_of(new.queueing, less=new.less, key=new.key)
        except (ConfigError, ValueError) as problem:
            raise SwapError(str(problem)) from problem
        live.provide(new.services)
        return new, rules

    # -- preparation ------------------------------------------------------------------------------

    async def _prepare(self, new: ProfileSet) -> None:
        """Watch and read everything that the new plugins and extenders need."""
        live = self.live
        needs_more_json = new.shows_bound_pods and not live.watching.keeps_bound_json
        live.watching.keeps_bound_json |= needs_more_json
        if not live.watching.reflectors:  # Watching has not started yet.
            more = [kind for kind in new.resources if kind not in live.watching.resources]
            live.watching.resources += more
            live.watching.unsynced.update(more)
            if new.reads_bound_pods:
                live.cache.keep_whole_pods()
            return
        try:
            await live.watching.add(
                new.resources, live.tasks, timeout_s=WATCH_S_MAX, forget=self._forget_kind
            )
            if needs_more_json or (new.reads_bound_pods and not live.cache.keeps_whole_pods):
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
        """Keep the JSON of bound pods: of new updates, and of all others from a list."""
        live = self.live
        live.cache.keep_whole_pods()
        token = ""
        while True:
            query: dict[str, str | int | bool] = {"fieldSelector": POD_SELECTOR, "limit": 500}
            if token:
                query["continue"] = token
            body = await live.environment.client.request("GET", PODS.path(), query=query)
            token = self._store_page(body)
            if not token:
                return

    def _store_page(self, body: bytes) -> str:
        """Store a page of pods; return the continue token of the next one."""
        cache = self.live.cache
        page = msgspec.json.decode(body, type=_PodList)
        for raw in page.items:
            pod = msgspec.json.decode(raw, type=Pod)
            if pod.spec.node_name:
                cache.add_whole(cache.pod_info(pod, bytes(raw)))
        return page.metadata.continue_

    # -- the swap ---------------------------------------------------------------------------------

    async def _swap_between_attempts(self, new: ProfileSet, rules: QueueRules) -> None:
        done = asyncio.get_running_loop().create_future()

        def swap() -> None:
            if done.cancelled():
                return
            try:
                self._swap(new, rules)
            except SwapError as problem:
                done.set_exception(problem)
            else:
                done.set_result(None)

        if not self.live.watching.reflectors and not self.live.scheduler.is_scheduling:
            swap()  # The loop does not run yet.
        else:
            self.live.inbox.put(swap)
        await done

    def _swap(self, new: ProfileSet, rules: QueueRules) -> None:
        live, old = self.live, self.live.profile_set
        _take_over(new, old)
        # Nothing can fail from here on.
        added = new.profiles.keys() - live.profiles.keys()
        live.profile_set, live.settings = new, new.settings
        live.profiles.clear()
        live.profiles.update(new.profiles)
        live.add_recorders()
        live.scheduler.cycle.use_extenders(new.extenders)
        live.cache.drop_placeholders()
        live.queue.swap(rules)
        live.scheduler.handlers.rules_changed(added)
        live.environment.log.info("New profiles active", level=1, generation=new.number)
        live.retiring.append(old)
        live.tasks.start(self._retire(old), name=f"retired plugins {old.number}")

    async def _retire(self, old: ProfileSet) -> None:
        """Stop the tasks of retired plugins once none of their bindings is outstanding."""
        live = self.live
        binders, profiles = live.scheduler.binders, list(old.profiles.values())
        while any(map(binders.is_used, profiles)):
            await live.environment.clock.sleep(CHECK_S)
        await old.end()
        for profile in profiles:
            binders.forget(profile)
        live.retiring.remove(old)
        await self._drop_unread_kinds(old)
        live.environment.log.info("Retired plugins stopped", level=2, generation=old.number)

    async def _drop_unread_kinds(self, old: ProfileSet) -> None:
        live = self.live

        def unread() -> list[Resource]:
            in_use = filter(None, (live.profile_set, live.preparing, *live.retiring))
            read = {kind for profile_set in in_use for kind in profile_set.resources}
            return [kind for kind in old.resources if kind not in read]

        if live.watching.reflectors:
            await live.watching.drop(unread, forget=self._forget_kind)


def _take_over(new: ProfileSet, old: ProfileSet) -> None:
    """Call `take_over(old_plugin)` of new plugins that define it."""
    for name, profile in new.profiles.items():
        former = old.profiles.get(name)
        old_plugins = {} if former is None else former.plugins
        for plugin in profile.plugins.values():
            take_over = getattr(unsandboxed(plugin), "take_over", None)
            if take_over is None or plugin.name not in old_plugins:
                continue
            try:
                take_over(unsandboxed(old_plugins[plugin.name]))
            except Exception as problem:
                text = f'plugin "{plugin.name}": take_over(): {type(problem).__name__}: {problem}'
                raise SwapError(text) from problem
