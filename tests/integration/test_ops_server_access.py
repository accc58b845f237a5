"""Access to the ops server when reviews fail or are forbidden."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from kubesched.cluster.launch.server import ADMIN
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import make_log
from kubesched.metrics.instruments import Measures
from kubesched.metrics.serving import ServingMetrics
from kubesched.ops.serving import AuthenticationSettings, ServingError, ServingSettings
from kubesched.testing import PLAIN, ApiServer
from tests.integration.ops_world import ops_world, send_request

LOCAL = ServingSettings(bind_address="127.0.0.1", port=0)
# Recorded from kube-scheduler v1.36.4 with the kubeconfig of a user who has no rights.
REJECTED = (
    'Internal Server Error: "{}": subjectaccessreviews.authorization.k8s.io is forbidden: User '
    '"plain" cannot create resource "subjectaccessreviews" in API group "authorization.k8s.io" at '
    "the cluster scope\n"
)


def test_without_the_right_to_create_reviews_only_health_pages_are_open(
    api_server: ApiServer,
) -> None:
    with ops_world(api_server, user=PLAIN) as world:
        assert send_request(world.url, "/healthz").code == 200
        answer = send_request(world.url, "/livez/ping?x=<y>&z")
        assert answer.code == 500
        assert answer.text == REJECTED.format("/livez/ping?x=&lt;y&gt;&amp;z")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        # A client with a token is neither authenticated nor anonymous.
        assert send_request(world.url, "/healthz", token=ADMIN.token).code == 401


def test_without_a_reviewer_tokens_are_ignored() -> None:
    with ops_world(None) as world:
        assert send_request(world.url, "/healthz", token=ADMIN.token).code == 200
        answer = send_request(world.url, "/metrics", token=ADMIN.token)
        assert answer.code == 403
        assert answer.message == ('forbidden: User "system:anonymous" cannot get path "/metrics"')


def test_missing_rights_are_reported_in_upstreams_words() -> None:
    stream = io.StringIO()
    log = make_log(stream, clock=SystemClock())
    with ops_world(None, log=log):
        pass
    log.flush()
    messages = [line.partition("] ")[2] for line in stream.getvalue().splitlines()]
    assert messages[:2] == [
        (
            "No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens "
            "won't work."
        ),
        (
            "No authentication-kubeconfig provided in order to lookup client-ca-file in "
            "configmap/extension-apiserver-authentication in kube-system, so client certificate "
            "authentication won't work."
        ),
    ]
    assert "Generated self-signed cert in-memory" in messages
    assert any(line.startswith("Serving securely on 127.0.0.1:") for line in messages)
    assert any(line.startswith("Stopped listening on 127.0.0.1:") for line in messages)


def test_a_lookup_that_must_succeed_fails_the_start(api_server: ApiServer) -> None:
    strict = AuthenticationSettings(tolerate_lookup_failure=False)
    settings = replace(LOCAL, authentication=strict)
    with (
        pytest.raises(ServingError) as raised,
        ops_world(api_server, user=PLAIN, settings=settings),
    ):
        pass
    assert str(raised.value) == (
        "unable to load configmap based request-header-client-ca-file: configmaps "
        '"extension-apiserver-authentication" is forbidden: User "plain" cannot get resource '
        '"configmaps" in API group "" in the namespace "kube-system"'
    )


def test_a_failing_lookup_is_logged_and_tolerated(api_server: ApiServer) -> None:
    stream = io.StringIO()
    log = make_log(stream, clock=SystemClock())
    with ops_world(api_server, user=PLAIN, log=log) as world:
        assert send_request(world.url, "/healthz").code == 200
    log.flush()
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("W")]
    messages = [line.partition("] ")[2] for line in lines]
    assert messages[0].startswith(
        "Unable to get configmap/extension-apiserver-authentication in kube-system.  Usually fixed"
    )
    assert messages[2:] == [
        (
            "Continuing without authentication configuration. This may treat all requests as "
            "anonymous."
        ),
        (
            "To require authentication configuration lookup to succeed, set "
            "--authentication-tolerate-lookup-failure=false"
        ),
    ]


def test_reviews_of_the_api_server_are_cached(api_server: ApiServer) -> None:
    measures = Measures()
    counted = ServingMetrics(measures)
    with ops_world(api_server, serving_metrics=counted) as world:
        for _ in range(3):
            assert send_request(world.url, "/metrics", token=PLAIN.token).code == 403
    assert counted.apiserver_delegated_authn_request_total.labels("201").value == 1
    assert counted.apiserver_delegated_authz_request_total.labels("201").value == 1
    assert counted.authentication_token_cache_request_total.labels("hit").value == 2
    assert counted.authentication_token_cache_request_total.labels("miss").value == 1
    assert counted.authentication_attempts.labels("success").value == 3
    assert counted.authenticated_user_requests.labels("other").value == 3
    assert counted.authorization_attempts_total.labels("no-opinion").value == 3


def test_rights_from_rbac_are_enough(api_server: ApiServer, tmp_path: Path) -> None:
    del tmp_path
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "ops-reader"},
        "rules": [{"nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "ops-reader"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "ops-reader",
        },
        "subjects": [{"kind": "User", "name": PLAIN.name, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    group = "/apis/rbac.authorization.k8s.io/v1"
    with api_server.api(ADMIN) as api:
        api.post(f"{group}/clusterroles", role).must(201)
        api.post(f"{group}/clusterrolebindings", binding).must(201)
        try:
            with ops_world(api_server) as world:
                assert send_request(world.url, "/metrics", token=PLAIN.token).code == 200
                assert (
                    send_request(world.url, "/metrics", method="DELETE", token=PLAIN.token).code
                    == 403
                )
                assert send_request(world.url, "/debug/flags", token=PLAIN.token).code == 200
                assert send_request(world.url, "/configz", token=PLAIN.token).code == 403
        finally:
            api.delete(f"{group}/clusterrolebindings/ops-reader").must(200)
            api.delete(f"{group}/clusterroles/ops-reader").must(200)


def test_always_allowed_paths_are_open(api_server: ApiServer) -> None:
    opened = replace(LOCAL.authorization, always_allow_paths=("/metrics", "livez*"))
    with ops_world(api_server, settings=replace(LOCAL, authorization=opened)) as world:
        assert send_request(world.url, "/metrics").code == 200
        assert send_request(world.url, "/livez/ping").code == 200
        assert send_request(world.url, "/configz").code == 403
