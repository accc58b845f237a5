"""Events recorded for in-flight pods equal upstream's list of pods and events."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.queue.interface import Occurrence, Recorder
from kubesched.queue.pod_states import InFlight
from tests.unit.builders import a_pod

PODS = [a_pod(f"p{i}") for i in range(5)]
EVENTS = [
    ClusterEvent(EventResource.NODE, ActionType.ADD),
    ClusterEvent(EventResource.NODE, ActionType.DELETE),
    ClusterEvent(EventResource.CSI_NODE, ActionType.ADD),
]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 4)),
        st.tuples(st.just("done"), st.integers(0, 4)),
        st.tuples(st.just("event"), st.integers(0, 2)),
        st.tuples(st.just("own"), st.integers(0, 4)),
    ),
    max_size=60,
)


class OneList:
    """Pods and events in one list by arrival; a done pod removes events that no pod needs."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def has(self, uid: str) -> bool:
        return any(entry == ("pod", uid) for entry in self.entries)

    def start(self, uid: str) -> bool:
        if self.has(uid):
            return False
        self.entries.append(("pod", uid))
        return True

    def event(self, number: int, label: str) -> bool:
        if not any(entry[0] == "pod" for entry in self.entries):
            return False
        self.entries.append(("event", number, label))
        return True

    def events_for(self, uid: str) -> list[int] | None:
        if not self.has(uid):
            return None
        after = self.entries[self.entries.index(("pod", uid)) + 1 :]
        return [entry[1] for entry in after if entry[0] == "event"]

    def done(self, uid: str) -> None:
        if self.has(uid):
            self.entries.remove(("pod", uid))
            while self.entries and self.entries[0][0] == "event":
                del self.entries[0]


@given(STEPS)
def test_each_pod_gets_later_events_and_no_event_is_kept_without_a_pod(
    steps: list[tuple[str, int]],
) -> None:
    metrics = SchedulerMetrics()
    in_flight, model = InFlight(Recorder(metrics)), OneList()
    for number, (action, place) in enumerate(steps):
        if action == "start":
            assert in_flight.start(PODS[place]) == model.start(PODS[place].uid)
        elif action == "done":
            in_flight.done(PODS[place].uid)
            model.done(PODS[place].uid)
        elif action == "event":
            event = EVENTS[place]
            kept = in_flight.add_event(Occurrence(event, None, number))
            assert kept == model.event(number, event.label)
        else:
            pod = PODS[place]
            is_under_way = in_flight.add_pod_events(EVENTS[:1], number, pod)  # type: ignore[arg-type]  # distinguished by number
            assert is_under_way == model.has(pod.uid)
            if is_under_way:
                model.event(number, EVENTS[0].label)
        check(in_flight, model, metrics)
    in_flight.clear()
    assert (len(in_flight), in_flight.event_count) == (0, 0)


def number_of(event: Occurrence) -> Any:
    return event.new if isinstance(event.new, int) else event.old


def check(in_flight: InFlight, model: OneList, metrics: SchedulerMetrics) -> None:
    assert [pod.uid for pod in in_flight.pods] == [e[1] for e in model.entries if e[0] == "pod"]
    assert in_flight.event_count == sum(entry[0] == "event" for entry in model.entries)
    for pod in PODS:
        events = in_flight.events_for(pod.uid)
        numbers = None if events is None else [number_of(occurrence) for occurrence in events]
        assert numbers == model.events_for(pod.uid)
    for event in EVENTS:
        kept = sum(e[0] == "event" and e[2] == event.label for e in model.entries)
        assert metrics.inflight_events.labels(event.label).value == kept
    assert metrics.inflight_events.labels("PodPopped").value == len(in_flight)
