"""Reserve, Permit, PreBind, Bind, PostBind: the order of plugins, and the effect of failures."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreBindPreFlightResult
from kubesched.framework.runtime.bind_phase import permit_result
from kubesched.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    StatusError,
    error,
    unschedulable,
    wait,
)
from kubesched.kit.log import Ref
from tests.unit.builders import a_pod, a_profile

Log = list[str]


class Recorded:
    """A plugin that records its calls and returns a given result, awaitable if `later`."""

    def __init__(self, name: str, log: Log, answer: Any = None, *, later: bool = False) -> None:
        self.name = name
        self._log = log
        self._answer = answer
        self._later = later

    def _record(self, verb: str) -> Any:
        self._log.append(f"{verb} {self.name}")
        if self._later:
            return self._give_later()
        return self._give()

    async def _give_later(self) -> Any:
        return self._give()

    def _give(self) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Reserving(Recorded):
    def reserve(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._record("reserve")

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self._log.append(f"unreserve {self.name}")


class ReservingUnlessSkipped(Reserving):
    reserves_if_skipped = False


class ReservingMore(ReservingUnlessSkipped):
    """Inherits the attribute, which has an effect only in the class that defines it."""


class OnlyReserving(Recorded):
    def reserve(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._record("reserve")


class Permitting(Recorded):
    def permit(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._record("permit")


class PreBinding(Recorded):
    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._record("pre_bind")


class PreFlying(PreBinding):
    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._give()


class Binding(Recorded):
    def bind(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._record("bind")


class PostBinding(Recorded):
    def post_bind(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._record("post_bind")


def result_of(awaitable: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await awaitable

    return asyncio.run(main())


def reserve(*plugins: Any) -> Status | None:
    return a_profile(*plugins).run_reserve_plugins_reserve(CycleState(), a_pod(), "n1")


def permit(*plugins: Any) -> Any:
    return result_of(a_profile(*plugins).run_permit_plugins(CycleState(), a_pod(), "n1"))


def bind(*plugins: Any) -> Any:
    return result_of(a_profile(*plugins).run_bind_plugins(CycleState(), a_pod(), "n1"))


def test_reserve_runs_in_order_until_one_fails() -> None:
    log: Log = []
    plugins = [
        Reserving("A", log),
        Reserving("B", log, unschedulable("full")),
        Reserving("C", log),
    ]
    assert reserve(*plugins) == unschedulable("full").by("B")
    assert log == ["reserve A", "reserve B"]


class NoMeasuring:
    """A fake of the measurements; measures nothing."""

    def call(self, point: str, plugin: str, run: Any, *arguments: Any) -> Any:
        return run(*arguments)

    async def wait(self, point: str, plugin: str, answer: Awaitable[Any]) -> Any:
        return await answer


@pytest.mark.parametrize(
    ("skipped", "watched", "called"),
    [
        pytest.param("", False, "ABC", id="all plugins are called"),
        pytest.param("ABC", False, "AC", id="a plugin with nothing to reserve is not called"),
        pytest.param("AC", False, "ABC", id="other plugins are called, skipped or not"),
        pytest.param("ABC", True, "ABC", id="in a measured attempt all plugins are called"),
    ],
)
def test_a_plugin_that_filtering_skipped_may_have_nothing_to_reserve(
    skipped: str, watched: bool, called: str
) -> None:
    log: Log = []
    plugins = [Reserving("A", log), ReservingUnlessSkipped("B", log), ReservingMore("C", log)]
    profile, state = a_profile(*plugins), CycleState()
    state.skip_filter_plugins = frozenset(skipped)
    state.plugin_times = NoMeasuring() if watched else None
    for _ in range(2):
        assert profile.run_reserve_plugins_reserve(state, a_pod(), "n1") is None
    assert log == 2 * [f"reserve {name}" for name in called]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(error("bad"), "bad", id="an error"),
        pytest.param(OSError("disk"), "OSError: disk", id="an exception"),
        pytest.param(True, "reserve() returned bool, expected a Status or None", id="not a status"),
    ],
)
def test_an_error_in_reserve_names_the_plugin(answer: Any, text: str) -> None:
    status = reserve(Reserving("A", [], answer))
    assert status == error(f'running Reserve plugin "A": {text}').by("A")


def test_unreserve_runs_in_reverse_even_for_plugins_that_did_not_reserve() -> None:
    log: Log = []
    plugins = [Reserving("A", log), OnlyReserving("B", log), Reserving("C", log)]
    a_profile(*plugins).run_reserve_plugins_unreserve(CycleState(), a_pod(), "n1")
    assert log == ["unreserve C", "unreserve A"]


def test_an_exception_in_unreserve_does_not_stop_the_other_plugins() -> None:
    log: Log = []

    class Faulty(Reserving):
        def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
            raise ValueError("bad")

    plugins = [Reserving("A", log), Faulty("B", log)]
    a_profile(*plugins).run_reserve_plugins_unreserve(CycleState(), a_pod(), "n1")
    assert log == ["unreserve A"]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_permit_calls_all_plugins_and_collects_waits(later: bool) -> None:
    log: Log = []
    outcome = permit(
        Permitting("A", log, (wait("for a friend"), 10.0), later=later),
        Permitting("B", log, (None, 0.0), later=later),
        Permitting("C", log, (wait("for another"), 7200.0), later=later),
    )
    assert outcome.wait_s == {"A": 10.0, "C": 900.0}
    assert outcome.status == Status(
        Code.WAIT,
        ("for another", "one or more plugins asked to wait and no plugin rejected pod"),
    )
    assert log == ["permit A", "permit B", "permit C"]


def test_permit_succeeds_if_no_plugin_objects() -> None:
    outcome = permit(Permitting("A", [], (SUCCESS, 5.0)), Permitting("B", [], None))
    assert (outcome.status, outcome.wait_s) == (SUCCESS, {})


def test_the_first_rejection_ends_permit_and_drops_waits() -> None:
    log: Log = []
    outcome = permit(
        Permitting("A", log, (wait(), 10.0)),
        Permitting("B", log, (unschedulable("no"), 0.0)),
        Permitting("C", log, (None, 0.0)),
    )
    assert (outcome.status, outcome.wait_s) == (unschedulable("no").by("B"), {})
    assert log == ["permit A", "permit B"]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param((error("bad"), 0.0), "bad", id="an error"),
        pytest.param((SKIP, 0.0), "", id="a status of another point"),
        pytest.param(StatusError(error("bad")), "bad", id="a raised status"),
        pytest.param(KeyError("x"), "KeyError: 'x'", id="an exception"),
    ],
)
def test_an_error_in_permit_names_the_plugin(answer: Any, text: str, later: bool) -> None:
    outcome = permit(Permitting("A", [], answer, later=later))
    assert outcome.status == error(f'running Permit plugin "A": {text}').by("A")


def pre_flight(*plugins: Any) -> tuple[Status | None, CycleState]:
    state = CycleState()
    return a_profile(*plugins).run_pre_bind_pre_flights(state, a_pod(), "n1"), state


def test_pre_flight_finds_plugins_with_work_and_those_that_may_run_in_parallel() -> None:
    status, state = pre_flight(
        PreFlying("A", [], SKIP),
        PreFlying("B", [], None),
        PreFlying("C", [], PreBindPreFlightResult(allow_parallel=True)),
        PreBinding("D", []),
        PreFlying("E", [], (PreBindPreFlightResult(allow_parallel=True), SKIP)),
        PreFlying("F", [], (PreBindPreFlightResult(allow_parallel=False), None)),
    )
    assert status is None
    assert state.parallel_pre_bind_plugins == {"C", "E"}
    assert state.skip_pre_bind_plugins == {"A", "E"}


@pytest.mark.parametrize("plugins", [[], [PreFlying("A", [], SKIP), PreFlying("B", [], SKIP)]])
def test_pre_flight_skips_if_no_plugin_has_work(plugins: list[Any]) -> None:
    assert pre_flight(*plugins)[0] == SKIP


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(error("bad"), 'running PreBindPreFlight "A": bad', id="an error"),
        pytest.param(
            unschedulable("no"),
            'PreBindPreFlight A returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status",
            id="a rejection",
        ),
        pytest.param(
            (PreBindPreFlightResult(allow_parallel=True), error("bad")),
            'running PreBindPreFlight "A": bad',
            id="an error with a result",
        ),
        pytest.param(
            OSError("disk"), 'running PreBindPreFlight "A": OSError: disk', id="an exception"
        ),
        pytest.param(
            True,
            'PreBindPreFlight A returned "bool", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status",
            id="no status",
        ),
    ],
)
def test_pre_flight_accepts_only_success_skip_and_error(answer: Any, text: str) -> None:
    status, _ = pre_flight(PreFlying("A", [], answer))
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, text)


def test_pre_bind_omits_skipped_plugins_and_stops_at_a_failure() -> None:
    log: Log = []
    profile = a_profile(
        PreFlying("A", log, SKIP),
        PreBinding("B", log, later=True),
        PreBinding("C", log, unschedulable("late"), later=True),
        PreBinding("D", log),
    )
    state = CycleState()
    profile.run_pre_bind_pre_flights(state, a_pod(), "n1")
    status = result_of(profile.run_pre_bind_plugins(state, a_pod(), "n1"))
    assert status == unschedulable("late").by("C")
    assert log == ["pre_bind B", "pre_bind C"]


def test_an_error_in_pre_bind_names_the_plugin() -> None:
    profile = a_profile(PreBinding("A", [], ValueError("bad"), later=True))
    status = result_of(profile.run_pre_bind_plugins(CycleState(), a_pod(), "n1"))
    assert status == error('running PreBind plugin "A": ValueError: bad').by("A")


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_the_first_plugin_that_does_not_skip_binds(later: bool) -> None:
    log: Log = []
    status = bind(
        Binding("A", log, SKIP, later=later),
        Binding("B", log, None, later=later),
        Binding("C", log),
    )
    assert status == SUCCESS
    assert log == ["bind A", "bind B"]


@pytest.mark.parametrize("count", [0, 2])
def test_bind_skips_if_all_plugins_skip(count: int) -> None:
    assert bind(*(Binding(f"P{number}", [], SKIP) for number in range(count))) == SKIP


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(unschedulable("no"), unschedulable("no").by("A"), id="a rejection"),
        pytest.param(
            error("conflict"), error('running Bind plugin "A": conflict').by("A"), id="an error"
        ),
    ],
)
def test_a_failed_binding_is_not_passed_to_the_next_plugin(answer: Any, expected: Status) -> None:
    log: Log = []
    assert bind(Binding("A", log, answer, later=True), Binding("B", log)) == expected
    assert log == ["bind A"]


def test_post_bind_calls_all_plugins_even_after_an_exception() -> None:
    log: Log = []
    plugins = [
        PostBinding("A", log, ValueError("bad"), later=True),
        PostBinding("B", log),
    ]
    result_of(a_profile(*plugins).run_post_bind_plugins(CycleState(), a_pod(), "n1"))
    assert log == ["post_bind A", "post_bind B"]


def test_unreserve_calls_all_plugins_even_after_an_exception() -> None:
    log: Log = []

    class Broken(Reserving):
        def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
            raise ValueError("bad")

    plugins = [Reserving("A", log), Broken("B", log), Reserving("C", log)]
    a_profile(*plugins).run_reserve_plugins_unreserve(CycleState(), a_pod(), "n1")
    assert log == ["unreserve C", "unreserve A"]


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str, dict[str, Any]]] = []

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None:
        self.lines.append((level, message, fields))

    def error(self, message: str, /, **fields: object) -> None:
        self.lines.append((-1, message, fields))


def logged(*plugins: Any) -> list[tuple[int, str, dict[str, Any]]]:
    """Return the log lines of plugins that fail at every extension point."""
    profile, state, pod = a_profile(*plugins), CycleState(), a_pod("p")
    profile.log = lines = Lines()
    profile.run_reserve_plugins_reserve(state, pod, "n1")
    result_of(profile.run_permit_plugins(state, pod, "n1"))
    profile.run_pre_bind_pre_flights(state, pod, "n1")
    result_of(profile.run_pre_bind_plugins(state, pod, "n1"))
    result_of(profile.run_bind_plugins(state, pod, "n1"))
    result_of(profile.run_post_bind_plugins(state, pod, "n1"))
    profile.run_reserve_plugins_unreserve(state, pod, "n1")
    return lines.lines


@pytest.mark.parametrize(
    ("plugin", "answer", "expected"),
    [
        (Reserving, unschedulable("no"), (4, "Pod rejected by plugin", {"status": "no"})),
        (Reserving, OSError("disk"), (-1, "Plugin failed", {"err": "OSError: disk"})),
        (Permitting, unschedulable("no"), (4, "Pod rejected by plugin", {"status": "no"})),
        (Permitting, error("bad"), (-1, "Plugin failed", {"err": "bad"})),
        (
            PreBinding,
            unschedulable("no"),
            (4, "Pod rejected by PreBind plugin", {"node": "n1", "status": "no"}),
        ),
        (PreBinding, error("bad"), (-1, "Plugin failed", {"err": "bad", "node": "n1"})),
        (
            Binding,
            unschedulable("no"),
            (4, "Pod rejected by Bind plugin", {"node": "n1", "status": "no"}),
        ),
        (Binding, error("bad"), (-1, "Plugin Failed", {"err": "bad", "node": "n1"})),
        (
            PostBinding,
            OSError("disk"),
            (-1, "Plugin failed", {"err": "OSError: disk", "extensionPoint": "PostBind"}),
        ),
    ],
)
def test_the_log_names_the_plugin_that_failed(
    plugin: type[Recorded], answer: Any, expected: tuple[int, str, dict[str, Any]]
) -> None:
    level, message, fields = expected
    named = {"plugin": "A", "pod": Ref("default", "p"), **fields}
    assert logged(plugin("A", [], answer)) == [(level, message, named)]


def test_waiting_is_logged() -> None:
    text = "One or more plugins asked to wait and no plugin rejected pod"
    assert logged(Permitting("A", [], (wait(), 1.0))) == [(4, text, {"pod": Ref("default", "p")})]


@pytest.mark.parametrize(
    ("settled", "expected", "line"),
    [
        pytest.param(SUCCESS, SUCCESS, [], id="allowed"),
        pytest.param(
            unschedulable("no").by("A"),
            unschedulable("no").by("A"),
            [(4, "Pod rejected while waiting on permit", {"status": "no"})],
            id="rejected",
        ),
        pytest.param(
            error("preempted").by("A"),
            error("waiting on permit for pod: preempted").by("A"),
            [(-1, "Failed waiting on permit for pod", {"err": "preempted"})],
            id="preempted",
        ),
    ],
)
def test_the_status_that_ends_a_wait(settled: Status, expected: Status, line: Any) -> None:
    lines = Lines()
    assert permit_result(settled, a_pod("p"), lines) == expected
    ref = {"pod": Ref("default", "p")}
    assert lines.lines == [(level, text, ref | fields) for level, text, fields in line]
