"""Every case of cases/*.yaml is answered as by the real server."""

from __future__ import annotations

import pytest

from kubesched.testing import Api
from tests.api.scenarios import (
    Case,
    Run,
    differences,
    load_answers,
    load_cases,
    save_answers,
)


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_the_response_equals_kube_apiservers(
    case: Case, api: Api, namespace: str, record: bool
) -> None:
    responses = Run(api, namespace).run(case)
    answers = load_answers(case.suite)
    if record:
        known = {load_case.name for load_case in load_cases() if load_case.suite == case.suite}
        kept = {name: answer for name, answer in answers.items() if name in known}
        save_answers(case.suite, {**kept, case.name: responses})
        return
    lines = differences(answers[case.name], responses)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


def test_every_recorded_answer_has_its_case() -> None:
    cases = load_cases()
    for suite in {case.suite for case in cases}:
        names = {case.name for case in cases if case.suite == suite}
        assert set(load_answers(suite)) == names
