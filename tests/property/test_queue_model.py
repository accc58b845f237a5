"""The queue behaves as a plain, slow model: no pod is lost, duplicated or in a wrong part."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from conformance.queue_histories.plugins import (
    EVENTS,
    GATES,
    PLUGINS,
    POD_DELETE,
    POD_LABEL,
    a_queue,
    answer,
    is_registered,
)
from kubesched.framework.cluster_event import ASSIGNED_POD_DELETE
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.snapshot.pod_info import PodInfo, PodShapes
from tests.property.slow_queue import SlowQueue
from tests.unit.builders import a_wire_pod
from tests.unit.queue.world import Clock, World

UPDATED, SHRUNK = "UnschedulablePodUpdate", "UnschedulablePodUpdatePodScaleDown"
NAMES = [f"p{i}" for i in range(6)]
names = st.sampled_from(NAMES)
plugin_sets = st.frozensets(st.sampled_from(sorted(PLUGINS)), max_size=2)
rejections = st.frozensets(st.sampled_from(sorted(PLUGINS)), min_size=1, max_size=2)


class QueueMachine(RuleBasedStateMachine):
    """The queue and its model, with the same calls."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock(1000.5)
        self.held: set[tuple[str, str]] = set()
        self.shapes = PodShapes()
        self.metrics = SchedulerMetrics()
        self.pods: dict[str, PodInfo] = {}
        self.under_way: dict[str, QueuedPodInfo] = {}
        self.created = 0
        self.queue = a_queue(self._holds, self.clock, self.metrics)
        self.slow = SlowQueue(self.clock.now_s, self._holds, GATES, is_registered, answer)

    def _holds(self, gate: str, pod: PodInfo) -> bool:
        return (gate, pod.name) in self.held

    def _tick(self) -> None:
        # No two pods are queued at the same time: the order of equals depends on the heap.
        self.clock.time_s += 0.001

    def _pod(self, name: str, uid: str, priority: int, app: str, cpu: int) -> PodInfo:
        wire = a_wire_pod(
            name, uid=uid, priority=priority, labels={"app": app}, requests={"cpu": f"{cpu}m"}
        )
        return self.shapes.pod_info(wire)

    # -- operations -------------------------------------------------------------------------------

    @initialize(
        parts=st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.integers(1, 2)),
            min_size=len(NAMES),
            max_size=len(NAMES),
        ),
        plugins=rejections,
    )
    def begin(self, parts: list[tuple[int, str, int]], plugins: frozenset[str]) -> None:
        for name, (priority, app, cpu) in zip(NAMES, parts, strict=True):
            self.add(name, priority, app, cpu)
        self.try_all_pods(plugins, frozenset())

    @rule(name=names, priority=st.integers(0, 2), app=st.sampled_from("ab"), cpu=st.integers(1, 2))
    def add(self, name: str, priority: int, app: str, cpu: int) -> None:
        if name in self.pods:
            return
        self._tick()
        self.created += 1
        pod = self.pods[name] = self._pod(name, f"uid-{self.created}", priority, app, cpu)
        self.queue.add(pod)
        self.slow.add(pod)

    @rule(name=names, priority=st.integers(0, 2), app=st.sampled_from("ab"), cpu=st.integers(1, 2))
    def update(self, name: str, priority: int, app: str, cpu: int) -> None:
        old = self.pods.get(name)
        if old is None:
            return
        self._tick()
        new = self.pods[name] = self._pod(name, old.uid, priority, app, cpu)
        self.queue.update(old, new)
        events = [POD_LABEL] if old.labels["app"] != app else []
        events += [SHRUNK] if old.shape.requests["cpu"] > cpu else []
        self.slow.update(old, new, events or [UPDATED])

    @rule(name=names)
    def delete(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is None:
            return
        self.queue.delete(pod)
        if name in self.under_way:  # Its attempt ends as that of a deleted pod.
            self.queue.done(pod.uid)
            self.slow.done(name)
            del self.under_way[name]
        else:
            self.slow.delete(name)

    @rule()
    def pop(self) -> None:
        queued = self.queue.pop()
        assert (queued and queued.pod.name) == self.slow.pop()
        if queued is not None:
            assert queued.attempts == self.slow.records[queued.pod.name].attempts
            self.under_way[queued.pod.name] = queued

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), plugins=plugin_sets, pending=plugin_sets)
    def fail(self, data: st.DataObject, plugins: frozenset[str], pending: frozenset[str]) -> None:
        self._end(data.draw(st.sampled_from(sorted(self.under_way))), plugins, pending)

    def _end(self, name: str, plugins: frozenset[str], pending: frozenset[str]) -> None:
        self._tick()
        queued = self.under_way.pop(name)
        queued.unschedulable_plugins, queued.pending_plugins = set(plugins), set(pending)
        queued.pod = self.pods[queued.pod.name]
        assert self.queue.add_unschedulable_if_not_present(queued)
        self.slow.fail(queued.pod, plugins, pending)

    @rule(plugins=rejections, pending=plugin_sets)
    def try_all_pods(self, plugins: frozenset[str], pending: frozenset[str]) -> None:
        for _ in NAMES:
            self.pop()
        for name in sorted(self.under_way):
            self._end(name, plugins, pending)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.under_way)))
        self.queue.done(self.under_way.pop(name).pod.uid)
        self.slow.done(name)
        del self.pods[name]

    @rule(event=st.sampled_from(sorted(EVENTS)), number=st.integers(0, 3))
    def happen(self, event: str, number: int) -> None:
        self.queue.move_all_to_active_or_backoff_queue(EVENTS[event], None, number)
        self.slow.happen(event, None, number, lambda _pod: True)

    @rule(name=names, priority=st.integers(0, 2))
    def lose_a_nomination(self, name: str, priority: int) -> None:
        pod = self.pods.get(name)
        if pod is None:
            return

        def is_no_more_important(other: PodInfo) -> bool:
            return other.priority <= priority

        self.queue.move_all_to_active_or_backoff_queue(
            ASSIGNED_POD_DELETE, pod, None, is_no_more_important
        )
        self.slow.happen(POD_DELETE, pod, None, is_no_more_important)

    @rule(chosen=st.sets(names, max_size=2))
    def activate(self, chosen: set[str]) -> None:
        self._tick()
        pods = [self.pods[name] for name in sorted(chosen) if name in self.pods]
        self.queue.activate(pods)
        for pod in pods:
            self.slow.activate(pod)

    @rule(gate=st.sampled_from(GATES), name=names)
    def turn_a_gate(self, gate: str, name: str) -> None:
        self.held ^= {(gate, name)}

    @rule(seconds=st.sampled_from([0.3, 1, 2.5, 9, 200]))
    def wait(self, seconds: float) -> None:
        self.clock.time_s += seconds

    @rule()
    def flush(self) -> None:
        self.queue.flush_backoff_queue_completed()
        self.slow.flush()

    @rule()
    def flush_left_over(self) -> None:
        self.queue.flush_unschedulable_pods_left_over()
        self.slow.flush_left_over()

    # -- invariants -------------------------------------------------------------------------------

    @invariant()
    def every_pod_is_where_it_should_be(self) -> None:
        expected = {name: self.slow.records[name].part for name in self.pods}
        assert {name: self.queue.where(f"default/{name}") for name in self.pods} == expected

    @invariant()
    def every_pod_is_in_one_part_and_no_other_is_there(self) -> None:
        parts, _ = self.queue.pending_pods()
        waiting = [pod.name for pods in parts.values() for pod in pods]
        under_way = [pod.name for pod in self.queue.in_flight_pods()]
        assert Counter(waiting + under_way) == Counter(list(self.pods))

    @invariant()
    def every_record_equals_the_model(self) -> None:
        for name in self.pods:
            queued = self.queue.get(f"default/{name}")
            record = self.slow.records[name]
            if queued is not None:
                assert queued.pod is record.pod
                assert queued.rejector_plugins == record.rejectors
                assert queued.gating_plugin == record.gate
                assert self.queue.backoff_expiration_s(queued) == record.expiry_s

    @invariant()
    def gauges_equal_the_model(self) -> None:
        parts = Counter(record.part for record in self.slow.records.values())
        for part in ("Active", "Backoff", "Unschedulable", "Gated"):
            gauge = self.metrics.pending_pods.labels(part.lower())
            assert gauge.value == parts[part], part
        assert self.metrics.inflight_events.labels("PodPopped").value == parts["InFlight"]

    @invariant()
    def the_flush_is_due_in_time(self) -> None:
        ready = [r.expiry_s for r in self.slow.records.values() if r.part == "Backoff"]
        if ready:
            assert self.queue.next_flush_at_s() <= min(ready) + 1


QueueMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=30)
TestQueue = QueueMachine.TestCase


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=40))
def test_a_key_and_less_give_the_same_order(pods: list[tuple[int, bool]]) -> None:
    # Some times are equal on purpose: both orders also agree on ties.
    worlds = [World(), World(by_less=True)]
    for world in worlds:
        for i, (priority, passes) in enumerate(pods):
            world.add(f"p{i}", priority=priority)
            world.advance(1 if passes else 0)
    first, second = (world.drain() for world in worlds)
    assert first == second
    assert len(first) == len(pods)
