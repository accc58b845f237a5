"""Reloading profiles at any moment neither loses a pod nor binds one twice.

A scheduler on a virtual clock gets random pods, reloads (some of them rejected), replies at permit
and passing time. Then all pods are allowed, and each must have a node.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.builders import a_node, a_pod
from kubesched.framework.status import Code, Status, unschedulable
from kubesched.run.swap import SwapError
from kubesched.testing.cluster import Cluster
from tests.unit.run.reload_world import profile, swap


class Rejecting:
    """Rejects some pods, and registers no events."""

    name = "Mine"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return unschedulable("no") if pod.labels["kind"] == "odd" else None

    def events_to_register(self) -> list[Any]:
        return []


class Gating:
    """Gates some pods."""

    name = "Mine"

    def pre_enqueue(self, pod: Any) -> Status | None:
        return unschedulable("no") if pod.labels["kind"] == "even" else None

    def events_to_register(self) -> list[Any]:
        return []


class Holding:
    """Holds every pod until the test allows or rejects it."""

    name = "Mine"

    def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 600.0


class Backwards:
    """Sorts the queue by name, last first."""

    name = "Mine"

    def less(self, first: Any, second: Any) -> bool:
        return bool(first.pod.name > second.pod.name)


class Failing:
    """Fails in its constructor."""

    name = "Mine"

    def __init__(self) -> None:
        raise ValueError("no")

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None


def sorted_backwards(name: str) -> dict[str, Any]:
    sort = {"enabled": [{"name": "Mine"}], "disabled": [{"name": "*"}]}
    return {"schedulerName": name, "plugins": {"queueSort": sort}}


RULES: dict[str, tuple[tuple[type, ...], list[dict[str, Any]]]] = {
    "plain": ((), [profile(), profile("second")]),
    "only one": ((), [profile()]),
    "rejecting": ((Rejecting,), [profile("second", Rejecting), profile()]),
    "gating": ((Gating,), [profile("second", Gating), profile("default-scheduler", Gating)]),
    "holding": ((Holding,), [profile("second", Holding), profile("default-scheduler", Holding)]),
    "backwards": (
        (Backwards,),
        [sorted_backwards("default-scheduler"), sorted_backwards("second")],
    ),
    "failing": ((Failing,), [profile("default-scheduler", Failing)]),
}
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(["default-scheduler", "second"])),
    st.tuples(st.just("reload"), st.sampled_from(sorted(RULES))),
    st.tuples(st.just("permit"), st.sampled_from(["allow", "reject"])),
    st.tuples(st.just("pass"), st.sampled_from(["0", "1", "12"])),
)


class Driven:
    """A cluster, and the number of bindings of each pod."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.bindings: Counter[str] = Counter()
        self.count = 0
        store = self.cluster._store
        send = store.send

        async def counted(request: Any) -> Any:
            if request.target.endswith("/binding"):
                self.bindings[request.target.split("/")[-2]] += 1
            return await send(request)

        store.send = counted  # type: ignore[method-assign]
        self.cluster.add(a_node("a"), a_node("b"))

    def do(self, verb: str, argument: str) -> None:
        if verb == "add":
            self.count += 1
            kind = "odd" if self.count % 2 else "even"
            self.cluster.add(a_pod(f"p{self.count}", labels={"kind": kind}, schedulerName=argument))
        elif verb == "reload":
            plugins, profiles = RULES[argument]
            with suppress(SwapError):
                swap(self.cluster, *plugins, profiles=profiles)
        elif verb == "permit":
            for held in list(self.cluster.live.waiting_pods)[:2]:
                if argument == "allow":
                    held.allow("Mine")
                else:
                    held.reject("Mine", "no")
        else:
            self.cluster.advance(float(argument))


@settings(max_examples=60)
@given(steps=st.lists(STEPS, min_size=5, max_size=30))
def test_every_pod_is_bound_once_despite_reloads(steps: list[tuple[str, str]]) -> None:
    driven = Driven()
    try:
        for verb, argument in steps:
            driven.do(verb, argument)
        driven.do("reload", "plain")
        for _ in range(driven.count + 1):
            driven.do("permit", "allow")
            driven.do("pass", "0")  # an allowed pod stops waiting when its binding continues
        driven.cluster.advance(15)
        names = {f"p{number}" for number in range(1, driven.count + 1)}
        assert {key.partition("/")[2] for key in driven.cluster.placed()} == names
        assert set(driven.bindings) == names
        assert set(driven.bindings.values()) <= {1}
        assert driven.cluster.live.retiring == []
        assert len(driven.cluster.live.queue) == 0
    finally:
        driven.cluster.close()
