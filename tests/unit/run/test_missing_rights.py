"""The RBAC rule that a forbidden request needs, logged once."""

from __future__ import annotations

import io

import pytest

from kubesched.client.errors import ForbiddenError
from kubesched.kit.log import make_log
from kubesched.run.missing_rights import FORGET_S, MissingRights, right_of
from tests.clock import StillClock

REJECTED = ForbiddenError("pods is forbidden", code=403, reason="Forbidden")


@pytest.mark.parametrize(
    ("method", "path", "rule"),
    [
        pytest.param(
            "POST",
            "/api/v1/namespaces/shop/pods/web/binding",
            '- apiGroups: [""]\n  resources: ["pods/binding"]\n  verbs: [create]',
            id="a binding",
        ),
        pytest.param(
            "WATCH",
            "/apis/storage.k8s.io/v1/csinodes",
            '- apiGroups: ["storage.k8s.io"]\n  resources: ["csinodes"]\n'
            "  verbs: [get, list, watch]",
            id="a watch needs the list before it",
        ),
        pytest.param(
            "GET",
            "/api/v1/nodes",
            '- apiGroups: [""]\n  resources: ["nodes"]\n  verbs: [get, list, watch]',
            id="a list needs the watch after it",
        ),
        pytest.param(
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
            '- apiGroups: ["coordination.k8s.io"]\n  resources: ["leases"]\n  verbs: [update]',
            id="a lease",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/shop",
            '- apiGroups: [""]\n  resources: ["namespaces"]\n  verbs: [get, list, watch]',
            id="a namespace is an object itself",
        ),
    ],
)
def test_the_rule_of_a_request(method: str, path: str, rule: str) -> None:
    assert right_of(method, path).rule == rule


def test_a_missing_permission_is_logged_once_and_forgotten_when_unused() -> None:
    clock, text = StillClock(), io.StringIO()
    rights = MissingRights(clock, make_log(text, clock=clock))
    for _ in range(3):
        rights.note("DELETE", "/api/v1/namespaces/shop/pods/web", REJECTED)
    assert text.getvalue().count("Missing permission") == 1
    assert "verbs: [delete]" in text.getvalue()
    assert rights.problem() == "missing permissions: 1, see the log"
    clock.at_s += FORGET_S + 1
    assert rights.problem() is None


def test_serving_tolerates_a_forbidden_authentication_config_map() -> None:
    clock, text = StillClock(), io.StringIO()
    rights = MissingRights(clock, make_log(text, clock=clock))
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    rights.note("GET", path, REJECTED)
    assert rights.problem() is None
    assert not text.getvalue()
