"""Codes, their names and their meaning."""

import pytest

from kubesched.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    StatusError,
    error,
    pending,
    unresolvable,
    unschedulable,
    wait,
)


@pytest.mark.parametrize(
    ("code", "number", "name"),
    [
        (Code.SUCCESS, 0, "Success"),
        (Code.ERROR, 1, "Error"),
        (Code.UNSCHEDULABLE, 2, "Unschedulable"),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 3, "UnschedulableAndUnresolvable"),
        (Code.WAIT, 4, "Wait"),
        (Code.SKIP, 5, "Skip"),
        (Code.PENDING, 6, "Pending"),
    ],
    ids=str,
)
def test_codes_have_upstreams_numbers_and_names(code: Code, number: int, name: str) -> None:
    assert (code.value, code.wire_name) == (number, name)


@pytest.mark.parametrize(
    ("status", "rejected"),
    [
        pytest.param(unschedulable("x"), True, id="unschedulable"),
        pytest.param(unresolvable("x"), True, id="unresolvable"),
        pytest.param(pending("x"), True, id="pending"),
        pytest.param(error("x"), False, id="an error"),
        pytest.param(wait("x"), False, id="wait"),
        pytest.param(SKIP, False, id="skip"),
        pytest.param(SUCCESS, False, id="success"),
    ],
)
def test_codes_that_count_as_rejections(status: Status, rejected: bool) -> None:
    assert status.is_rejected is rejected


def test_the_message_joins_the_reasons() -> None:
    assert unschedulable("a", "b").message == "a, b"
    assert SUCCESS.message == ""


def test_attribution_returns_a_new_status() -> None:
    status = unschedulable("a")
    assert status.by("P") == Status(Code.UNSCHEDULABLE, ("a",), "P")
    assert status.plugin == ""
    named = status.by("P")
    assert named.by("P") is named


def test_a_status_error_carries_its_status() -> None:
    problem = StatusError(unschedulable("a", "b"))
    assert problem.status == unschedulable("a", "b")
    assert str(problem) == "a, b"
