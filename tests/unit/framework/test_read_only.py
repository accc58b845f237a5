"""An out-of-tree plugin tries to write to all its arguments, and cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pytest

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import EventRegistration, PostFilterResult, Reads
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.sandbox.budget import Budgets, Guard
from kubesched.framework.sandbox.sandboxed_plugin import SandboxedPlugin, sandboxed
from kubesched.framework.status import SUCCESS, Status, unschedulable
from kubesched.framework.verdicts import NodeToStatus
from kubesched.kit.read_only import ReadOnlyError
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows
from tests.clock import StillClock
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile
from tests.unit.framework.test_sandbox import Counts, Log

INTERNAL: Final = frozenset(("usage", "view", "object", "spec", "status", "shape", "terms", "raw"))
"""Not inspected: data shared by our own rules, and wire objects, whose structs are frozen."""
RESOURCES: Final = ("cpu", "memory", "pods")


def attributes(obj: object) -> list[str]:
    """Return the public attributes of an object except methods."""
    names = [name for name in dir(type(obj)) if not name.startswith("_")]
    names += [name for name in getattr(obj, "__dict__", ()) if not name.startswith("_")]
    looked_into = {name for name in names if name not in INTERNAL}
    plain = {name for name in looked_into if not callable(getattr(obj, name))}
    return sorted(plain | {name for name in names if name in INTERNAL})


def writes_to(obj: Any, path: str, depth: int = 3) -> Iterable[str]:
    """Yield the possible writes to an object, and to the objects reachable from it."""
    if isinstance(obj, np.ndarray):
        if obj.flags.writeable:
            yield f"{path}[...] = x"
    elif isinstance(obj, (dict, set)):
        yield f"{path} is a {type(obj).__name__}"
    elif isinstance(obj, (str, bytes, int, float, type(None), np.generic, Status)):
        return
    elif isinstance(obj, Mapping):
        if hasattr(obj, "__setitem__"):
            yield f"{path}['x'] = 'y'"
    elif isinstance(obj, (list, tuple, frozenset)):
        # The caller owns a list: only its elements count.
        for part in list(obj)[:3]:
            yield from writes_to(part, f"{path}[]", depth - 1)
    elif depth:
        yield from _writes_to_attributes(obj, path, depth)


def _writes_to_attributes(obj: Any, path: str, depth: int) -> Iterable[str]:
    for name in (*attributes(obj), "something_new"):
        old = None if name in INTERNAL else getattr(obj, name, None)
        try:
            setattr(obj, name, old)
        except (AttributeError, TypeError):
            pass
        else:
            yield f"{path}.{name} = x"
        # A new array for every read may be written.
        if not isinstance(old, np.ndarray) or np.shares_memory(old, getattr(obj, name)):
            yield from writes_to(old, f"{path}.{name}", depth - 1)
    if hasattr(obj, "__getitem__") and not hasattr(obj, "keys"):
        for key in RESOURCES if type(obj).__name__.startswith("Resource") else (0,):
            yield from writes_to(obj[key], f"{path}[{key!r}]", depth - 1)


class Curious:
    """Extends every point, and tries to write to all its arguments."""

    name = "Curious"

    def __init__(self) -> None:
        self.found: list[str] = []
        self.called: list[str] = []

    def _try(self, method: str, *arguments: Any) -> None:
        self.called.append(method)
        for argument in arguments:
            path = f"{method}({type(argument).__name__})"
            self.found += writes_to(argument, path)

    def _try_table(self, method: str, nodes: Any) -> None:
        self._try(method, nodes, nodes.rows, nodes.label("zone"))
        few = nodes.take(np.array([0]))
        self._try(method, few, few.info(0), nodes.label_values("zone"))
        for kind in ("allocatable", "requested", "nonzero_requested"):
            for resource in RESOURCES:
                self._try(method, getattr(nodes, kind)[resource])
        for node in nodes:
            self._try(method, node, node.info, *node.pods)

    def pre_enqueue(self, pod: Any) -> None:
        self._try("pre_enqueue", pod)

    def less(self, first: Any, second: Any) -> bool:
        self._try("less", first, second)
        return True

    def events_to_register(self) -> list[EventRegistration]:
        return [
            EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD), self._hint),
        ]

    def _hint(self, pod: Any, old: Any, new: Any) -> QueueingHint:
        self._try("hint", pod, old, new)
        return QueueingHint.QUEUE

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
        self._try("pre_filter", pod)
        self._try_table("pre_filter", nodes)

    def add_pods(self, state: Any, pod: Any, added: Any, nodes: Any) -> None:
        self._try("add_pods", pod, added)
        self._try_table("add_pods", nodes)

    def remove_pods(self, state: Any, pod: Any, removed: Any, nodes: Any) -> None:
        self._try("remove_pods", pod, removed)

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
        if type(nodes).__name__ == "ReadOnlyNodeRow":
            self._try("filter_nodes", pod, nodes)
        else:
            self._try_table("filter_nodes", nodes)
        return []

    def post_filter(self, state: Any, pod: Any, statuses: Any) -> Any:
        self._try("post_filter", pod, statuses)
        return PostFilterResult(""), SUCCESS

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> None:
        self._try("pre_score", pod)
        self._try_table("pre_score", nodes)

    def score(self, state: Any, pod: Any, node: Any) -> int:
        self._try("score", pod, node, *node.pods)
        return 1

    def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
        self._try("normalize_scores", pod, scores)
        return scores

    def reserve(self, state: Any, pod: Any, node_name: str) -> None:
        self._try("reserve", pod)

    def permit(self, state: Any, pod: Any, node_name: str) -> Any:
        self._try("permit", pod)
        return None, 0.0

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self._try("pre_bind", pod)

    async def bind(self, state: Any, pod: Any, node_name: str) -> None:
        self._try("bind", pod)

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self._try("post_bind", pod)

    def reads(self, pod: Any) -> Reads | None:
        self._try("reads", pod)
        return None


class OneByOne(Curious):
    """The same with a filter for one node."""

    filter_nodes: Any = None

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        self._try("filter", pod, node, *node.pods)


def in_a_sandbox(plugin: Any) -> SandboxedPlugin:
    return sandboxed(Guard(StillClock(), Log(), Counts()), Budgets(), "a-profile", plugin)


def run_every_point(plugin: SandboxedPlugin) -> None:
    labels = {"zone": "a"}
    view = a_cluster(
        [a_node("n1", labels=labels), a_node("n2", labels=labels)],
        {"n1": [a_pod("there", labels={"app": "a"}, requests={"cpu": "1"})]},
    )
    pod = a_pod("new", labels={"app": "b"}, requests={"cpu": "1"})
    profile, state, nodes = a_profile(plugin), CycleState(), view.all_nodes()
    profile.run_pre_enqueue_plugins(pod)
    profile.less(QueuedPodInfo(pod, 0.0), QueuedPodInfo(pod, 1.0))
    (registered,) = plugin.events_to_register()
    assert registered.hint is not None
    registered.hint(pod, None, nodes.info(0))
    profile.run_pre_filter_plugins(state, pod, nodes)
    rows = PodRows(view, np.array([0, -1]))
    profile.filters.change_pods("add", state, pod, rows, nodes)
    profile.filters.change_pods("remove", state, pod, rows, nodes)
    profile.filters.judge(state, pod, nodes)
    if hasattr(plugin, "filter_nodes") and plugin.filter_nodes is not None:
        plugin.filter_nodes(state, pod, view.row(0))
    profile.run_post_filter_plugins(state, pod, NodeToStatus(view))
    profile.run_pre_score_plugins(state, pod, nodes)
    assert not isinstance(profile.run_score_plugins(state, pod, nodes), Status)
    profile.run_reserve_plugins_reserve(state, pod, "n1")
    asyncio.run(profile.run_permit_plugins(state, pod, "n1"))
    asyncio.run(profile.run_pre_bind_plugins(state, pod, "n1"))
    asyncio.run(profile.run_bind_plugins(state, pod, "n1"))
    asyncio.run(profile.run_post_bind_plugins(state, pod, "n1"))
    plugin.reads(pod)


@pytest.mark.parametrize("kind", [Curious, OneByOne])
def test_no_argument_of_a_plugin_can_be_written(kind: type[Curious]) -> None:
    curious, counts = kind(), Counts()
    guard = Guard(StillClock(), Log(), counts)
    run_every_point(sandboxed(guard, Budgets(), "a-profile", curious))
    assert not counts.faults
    methods = {name for name in vars(Curious) if not name.startswith("_") and name != "name"}
    methods -= {"events_to_register", "filter_nodes"}
    assert methods <= set(curious.called)
    assert curious.found == []


def test_an_attempt_with_a_plugin_that_writes_fails() -> None:
    class Writing:
        name = "Writing"

        def filter(self, state: Any, pod: PodInfo, node: Any) -> None:
            pod.priority = 5

        def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
            scores += 1
            return scores

        def score(self, state: Any, pod: Any, node: Any) -> int:
            return 1

    view, pod, state = a_cluster([a_node("n1"), a_node("n2")]), a_pod(), CycleState()
    profile = a_profile(in_a_sandbox(Writing()))
    verdict = profile.filters.judge(state, pod, view.all_nodes())[0]
    assert verdict.message == (
        'running "Writing" filter plugin: ReadOnlyError: priority cannot be changed: '
        "objects passed to plugins are read-only"
    )
    assert pod.priority == 0
    scores = profile.run_score_plugins(state, pod, view.all_nodes())
    assert isinstance(scores, Status)
    assert "read-only" in scores.message


def test_our_own_caches_in_a_read_only_pod_stay_writable() -> None:
    pod = a_pod("new", labels={"b": "1", "a": "2"})
    plugin = in_a_sandbox(Curious())
    plugin.pre_enqueue(pod)
    assert pod.label_items == (("a", "2"), ("b", "1"))
    assert pod.template is pod.template
    with pytest.raises(ReadOnlyError):
        pod.labels = {}
    with pytest.raises(ReadOnlyError):
        del pod.priority
    assert unschedulable("x").code  # Frozen by itself.
