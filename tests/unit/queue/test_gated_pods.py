"""Pods that a PreEnqueue plugin gates."""

from kubesched.framework.cluster_event import FORCE_ACTIVATE_EVENT, UNSCHEDULABLE_TIMEOUT_EVENT
from kubesched.framework.interface import EventRegistration
from kubesched.queue.interface import ProfileQueueing, QueueSettings
from kubesched.queue.scheduling_queue import SchedulingQueue
from tests.unit.queue.world import CSI_ADD, NODE_ADD, Gates, World


def gated(*names: str, verbosity: int = 0) -> World:
    world = World(verbosity=verbosity)
    world.gates.held["Gate"].update(names)
    for name in names:
        world.add(name)
    return world


def test_a_gated_pod_has_the_name_of_its_plugin() -> None:
    world = gated("a")
    queued = world.queue.get("default/a")
    assert queued is not None
    assert world.where("a") == "Gated"
    assert world.queue.is_gated("default/a")
    assert (queued.gating_plugin, queued.unschedulable_plugins) == ("Gate", {"Gate"})
    assert list(queued.gating_plugin_events) == [CSI_ADD]
    assert queued.initial_attempt_timestamp_s is None
    assert world.queue.pop() is None
    assert world.ready_count == 0


def test_only_registered_events_check_the_gate() -> None:
    world = gated("a")
    world.gates.runs.clear()
    world.happen(NODE_ADD)
    assert world.gates.runs == []
    world.happen(CSI_ADD)
    assert world.gates.runs == [("Gate", "a")]
    assert world.where("a") == "Gated"


def test_a_pod_that_is_no_longer_gated_is_tried() -> None:
    world = gated("a")
    world.gates.held["Gate"].clear()
    world.happen(CSI_ADD)
    assert world.where("a") == "Active"
    queued = world.pop()
    assert (queued.gating_plugin, queued.unschedulable_plugins) == ("", {"Gate"})


def test_a_wildcard_event_checks_gated_pods() -> None:
    world = gated("a")
    world.gates.runs.clear()
    world.happen(UNSCHEDULABLE_TIMEOUT_EVENT)
    assert world.gates.runs == [("Gate", "a")]


def test_a_wildcard_event_for_another_pod_is_ignored() -> None:
    world = gated("a")
    world.gates.runs.clear()
    world.happen(FORCE_ACTIVATE_EVENT, None, world.pod("b"))
    assert world.gates.runs == []


def test_plugins_run_in_order_until_one_rejects() -> None:
    world = World(gates=Gates("One", "Two", "Three"))
    world.gates.held["Two"].add("a")
    world.add("a")
    assert world.gates.runs == [("One", "a"), ("Two", "a")]


def test_the_gating_plugin_runs_first() -> None:
    world = World({"Two": [EventRegistration(CSI_ADD)]}, gates=Gates("One", "Two", "Three"))
    world.gates.held["Two"].add("a")
    world.add("a")
    world.gates.runs.clear()
    world.happen(CSI_ADD)
    assert world.gates.runs == [("Two", "a")]
    world.gates.runs.clear()
    world.gates.held = {"One": {"a"}, "Two": set(), "Three": set()}
    world.happen(CSI_ADD)
    assert world.gates.runs == [("Two", "a"), ("One", "a")]
    queued = world.queue.get("default/a")
    assert queued is not None
    assert queued.gating_plugin == "One"
    assert queued.unschedulable_plugins == {"One", "Two"}


def test_an_error_gates_the_pod() -> None:
    world = World()
    world.gates.failing.add("Gate")
    world.add("a")
    assert world.where("a") == "Gated"
    line = '"Unexpected error running PreEnqueue plugin" err="out of order" pod="default/a"'
    assert world.messages() == [f'{line} plugin="Gate"']


def test_an_exception_gates_only_its_pod() -> None:
    world = World()

    def broken(_pod: object) -> None:
        raise RuntimeError("oh")

    profile = ProfileQueueing({"Gate": broken}, {})
    world.queue = SchedulingQueue(
        {"default-scheduler": profile},
        less=lambda _a, _b: False,
        settings=QueueSettings(),
        clock=world.clock,
        metrics=world.metrics,
        log=world.log,
        nominator=world.nominator,
    )
    world.add("a")
    assert world.where("a") == "Gated"
    assert 'err="RuntimeError: oh"' in world.messages()[0]


def test_the_gauges_follow_a_gated_pod() -> None:
    world = gated("a")
    assert counted(world) == (1, 0, 1)
    world.happen(CSI_ADD)
    assert counted(world) == (1, 0, 1)
    world.gates.held["Gate"].clear()
    world.happen(CSI_ADD)
    assert counted(world) == (0, 0, 1)
    world.pop()
    assert counted(world) == (0, 0, 0)


def counted(world: World) -> tuple[float, float, float]:
    return (
        world.value("pending_pods", "gated"),
        world.value("pending_pods", "unschedulable"),
        world.value("unschedulable_pods", "Gate", "default-scheduler"),
    )


def test_a_pod_is_gated_before_it_enters_backoff() -> None:
    world = World()
    world.rejected("a")
    world.gates.held["Gate"].add("a")
    world.happen(NODE_ADD)
    assert world.where("a") == "Gated"
    assert world.value("pending_pods", "gated") == 1
    assert world.value("pending_pods", "unschedulable") == 0
    assert world.value("unschedulable_pods", "Fit", "default-scheduler") == 1
    assert world.value("unschedulable_pods", "Gate", "default-scheduler") == 1


def test_log_lines() -> None:
    moved = "Pod moved to an internal scheduling queue, because the pod is gated"
    fields = 'event="UnschedulablePodAdd" queue="Unschedulable"'
    assert gated("a", verbosity=5).messages() == [
        '"Status after running PreEnqueue plugin" pod="default/a" plugin="Gate" status="not yet"',
        f'"{moved}" pod="default/a" {fields}',
    ]
