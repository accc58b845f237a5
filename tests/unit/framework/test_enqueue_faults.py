"""Invalid event registrations of out-of-tree plugins."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.interface import EventRegistration
from kubesched.framework.runtime.enqueue import enqueue_registrations
from kubesched.framework.status import Status
from tests.unit.builders import a_profile

NODE_ADD = EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD))


class Registers:
    """Returns given registrations."""

    name = "Mine"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None

    def events_to_register(self) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "registered"), [(None, []), ([], []), ((NODE_ADD,), [NODE_ADD])]
)
def test_a_plugin_may_register_for_nothing(
    answer: Any, registered: list[EventRegistration]
) -> None:
    assert enqueue_registrations(a_profile(Registers(answer))) == {"Mine": registered}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (KeyError("k"), "plugin \"Mine\": events_to_register(): KeyError: 'k'"),
        (
            ["NodeAdd"],
            (
                'plugin "Mine": events_to_register() returned a str, '
                "expected a list of EventRegistration"
            ),
        ),
        (7, "plugin \"Mine\": events_to_register(): TypeError: 'int' object is not iterable"),
    ],
)
def test_an_invalid_registration_is_an_error_that_names_the_plugin(answer: Any, text: str) -> None:
    with pytest.raises(ValueError, match="Mine") as rejected:
        enqueue_registrations(a_profile(Registers(answer)))
    assert str(rejected.value) == text
