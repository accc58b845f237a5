"""What a user's plugin registers for, and registers wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.framework.enqueue import enqueue_registrations
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Status
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource
from tests.unit.builders import a_profile

NODE_ADD = EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD))


class Registers:
    """Registers for what a test says."""

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
def test_nothing_is_an_answer(answer: Any, registered: list[EventRegistration]) -> None:
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
def test_a_wrong_answer_is_refused_by_the_plugins_name(answer: Any, text: str) -> None:
    with pytest.raises(ValueError, match="Mine") as refused:
        enqueue_registrations(a_profile(Registers(answer)))
    assert str(refused.value) == text
