"""Every case of cases/*.yaml gets the real server's answer."""

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
    seen = Run(api, namespace).run(case)
    answers = load_answers(case.family)
    if record:
        known = {load_case.name for load_case in load_cases() if load_case.family == case.family}
        kept = {name: answer for name, answer in answers.items() if name in known}
        save_answers(case.family, {**kept, case.name: seen})
        return
    found = differences(answers[case.name], seen)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_every_recorded_answer_has_its_case() -> None:
    cases = load_cases()
    for family in {case.family for case in cases}:
        names = {case.name for case in cases if case.family == family}
        assert set(load_answers(family)) == names
