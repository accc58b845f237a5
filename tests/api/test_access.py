"""Access: tokens, RBAC, access reviews, service account tokens."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.testing import Api, ApiServer, TokenUser
from tests.api.objects import config_map, config_maps

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"


@pytest.fixture
def reader(api: Api, namespace: str) -> None:
    """Let the plain user read config maps in the namespace."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "plain"}],
    }
    api.post(f"{RBAC}/namespaces/{namespace}/roles", role).must(201)
    api.post(f"{RBAC}/namespaces/{namespace}/rolebindings", binding).must(201)
    wait_allowed(api, namespace)


def wait_allowed(api: Api, namespace: str) -> None:
    """Wait until the authorizer has seen the binding."""
    for _ in range(200):
        if reviewed(api, "plain", verb="list", resource="configmaps", namespace=namespace):
            return
    raise AssertionError("the role was never seen")


def reviewed(api: Api, user: str, **attributes: str) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = api.post(f"{AUTHORIZATION}/subjectaccessreviews", body).must(201)
    return bool(answer.json["status"]["allowed"])


def test_a_wrong_token_is_unauthenticated(api_server: ApiServer) -> None:
    with api_server.api(TokenUser("x", "wrong")) as client:
        answer = client.get("/api/v1/nodes").must(401)
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


def test_without_a_token_the_user_is_anonymous(api_server: ApiServer) -> None:
    with api_server.api(None) as client:
        answer = client.get("/api/v1/nodes").must(403)
    assert answer.message == (
        'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" '
        'in API group "" at the cluster scope'
    )


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_health_and_version_are_open(api_server: ApiServer, path: str) -> None:
    with api_server.api(None) as client:
        client.get(path).must(200)


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps/v1", "/openapi/v2"])
def test_discovery_needs_a_token(plain_api: Api, path: str) -> None:
    plain_api.get(path).must(200)


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        pytest.param(
            "GET",
            "/api/v1/namespaces/{ns}/configmaps",
            'configmaps is forbidden: User "plain" cannot list resource "configmaps" in API group '
            '"" in the namespace "{ns}"',
            id="a list",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/{ns}/configmaps/a",
            'configmaps "a" is forbidden: User "plain" cannot get resource "configmaps" in API '
            'group "" in the namespace "{ns}"',
            id="one object",
        ),
        pytest.param(
            "DELETE",
            "/apis/apps/v1/namespaces/{ns}/deployments/a",
            'deployments.apps "a" is forbidden: User "plain" cannot delete resource "deployments" '
            'in API group "apps" in the namespace "{ns}"',
            id="an object of a group",
        ),
        pytest.param(
            "DELETE",
            "/apis/apps/v1/namespaces/{ns}/deployments",
            'deployments.apps is forbidden: User "plain" cannot deletecollection resource '
            '"deployments" in API group "apps" in the namespace "{ns}"',
            id="a collection",
        ),
        pytest.param(
            "GET",
            "/api/v1/nodes/n",
            'nodes "n" is forbidden: User "plain" cannot get resource "nodes" in API group "" '
            "at the cluster scope",
            id="a cluster's object",
        ),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/{ns}/pods/a/status",
            'pods "a" is forbidden: User "plain" cannot update resource "pods/status" in API group '
            '"" in the namespace "{ns}"',
            id="a subresource",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/{ns}",
            'namespaces "{ns}" is forbidden: User "plain" cannot get resource "namespaces" in API '
            'group "" in the namespace "{ns}"',
            id="a namespace itself",
        ),
        pytest.param(
            "GET",
            "/metrics",
            'forbidden: User "plain" cannot get path "/metrics"',
            id="a path",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/{ns}/whatevers",
            'whatevers is forbidden: User "plain" cannot list resource "whatevers" in API group '
            '"" in the namespace "{ns}"',
            id="what is not there is forbidden first",
        ),
    ],
)
def test_other_requests_are_forbidden(
    plain_api: Api, namespace: str, method: str, path: str, message: str
) -> None:
    answer = plain_api.request(method, path.format(ns=namespace)).must(403)
    assert answer.reason == "Forbidden"
    assert answer.message == message.format(ns=namespace)


def test_a_watch_is_a_verb_of_its_own(plain_api: Api, reader: None, namespace: str) -> None:
    plain_api.get(config_maps(namespace)).must(200)
    answer = plain_api.get(config_maps(namespace), query={"watch": True}).must(403)
    assert 'cannot watch resource "configmaps"' in answer.message


def test_a_role_grants_its_rules(api: Api, plain_api: Api, reader: None, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("a")).must(201)
    plain_api.get(config_maps(namespace, "a")).must(200)
    plain_api.get(config_maps(namespace)).must(200)
    plain_api.post(config_maps(namespace), config_map("b")).must(403)
    plain_api.get(config_maps("default")).must(403)


def test_rights_cannot_be_escalated(api: Api, plain_api: Api, reader: None, namespace: str) -> None:
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [rbac], "resources": ["roles"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
    ]
    grant = {"rules": rules}
    api.patch(f"{RBAC}/namespaces/{namespace}/roles/reader", grant, MERGE_PATCH).must(200)
    for _ in range(200):
        group = "rbac.authorization.k8s.io"
        if reviewed(
            api, "plain", verb="create", group=group, resource="roles", namespace=namespace
        ):
            break
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "more"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    answer = plain_api.post(f"{RBAC}/namespaces/{namespace}/roles", role).must(403)
    assert answer.message.startswith(
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "plain" '
    )
    assert "is attempting to grant RBAC permissions not currently held" in answer.message
    assert '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}' in answer.message


def test_the_right_to_patch_does_not_allow_creation_by_apply(
    api: Api, plain_api: Api, reader: None, namespace: str
) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"]}]
    role = f"{RBAC}/namespaces/{namespace}/roles/reader"
    api.patch(role, {"rules": rules}, MERGE_PATCH).must(200)
    for _ in range(200):
        if reviewed(api, "plain", verb="patch", resource="configmaps", namespace=namespace):
            break
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
    path = f"{config_maps(namespace)}/new?fieldManager=m"
    answer = plain_api.patch(path, applied, "application/apply-patch+yaml").must(403)
    assert 'User "plain" cannot create resource "configmaps"' in answer.message
    api.post(config_maps(namespace), applied).must(201)
    plain_api.patch(path, applied, "application/apply-patch+yaml").must(200)


def test_the_bootstrap_roles_exist(api: Api) -> None:
    roles = api.get(f"{RBAC}/clusterroles").must(200).json["items"]
    names = {role["metadata"]["name"] for role in roles}
    assert {
        "admin",
        "cluster-admin",
        "edit",
        "system:basic-user",
        "system:discovery",
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "system:node",
        "view",
    } <= names


def test_the_scheduler_may_bind(api: Api, namespace: str) -> None:
    attributes = {"resource": "pods", "subresource": "binding", "namespace": namespace}
    assert reviewed(api, "system:kube-scheduler", verb="create", **attributes)
    assert not reviewed(api, "plain", verb="create", **attributes)


def self_review(api: Api, **attributes: str) -> dict[str, Any]:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = api.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", body).must(201)
    status: dict[str, Any] = answer.json["status"]
    return status


def test_self_subject_access_review(api: Api, plain_api: Api, reader: None, namespace: str) -> None:
    attributes = {"verb": "list", "resource": "configmaps", "namespace": namespace}
    assert self_review(api, **attributes) == {"allowed": True}
    assert self_review(plain_api, **attributes) == {
        "allowed": True,
        "reason": f'RBAC: allowed by RoleBinding "reader/{namespace}" of Role "reader" '
        'to User "plain"',
    }
    assert self_review(plain_api, **{**attributes, "verb": "delete"}) == {"allowed": False}


def test_self_subject_rules_review(plain_api: Api, reader: None, namespace: str) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    status = (
        plain_api.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", body).must(201).json["status"]
    )
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]} in status[
        "resourceRules"
    ]
    assert status["incomplete"] is False


def test_self_subject_review(plain_api: Api) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    review = plain_api.post(f"{AUTHENTICATION}/selfsubjectreviews", body).must(201).json
    assert review["status"]["userInfo"] == {
        "username": "plain",
        "uid": "plain-uid",
        "groups": ["system:authenticated"],
    }


def test_token_review(api: Api) -> None:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "admin-token"},
    }
    status = api.post(f"{AUTHENTICATION}/tokenreviews", body).must(201).json["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == "admin"
    assert status["user"]["groups"] == ["system:masters", "system:authenticated"]
    assert status["audiences"] == ["https://kubernetes.default.svc"]


def test_token_review_of_an_unknown_token(api: Api) -> None:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "wrong"},
    }
    status = api.post(f"{AUTHENTICATION}/tokenreviews", body).must(201).json["status"]
    assert not status.get("authenticated")
    assert status["user"] == {}


def account_token(api: Api, namespace: str, **spec: Any) -> dict[str, Any]:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    api.post(path, account).must(201, 409)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return api.post(f"{path}/robot/token", request).must(201).json


def test_a_service_accounts_token(api_server: ApiServer, api: Api, namespace: str) -> None:
    created = account_token(api, namespace)
    assert created["spec"]["audiences"] == ["https://kubernetes.default.svc"]
    assert created["spec"]["expirationSeconds"] == 3600
    with api_server.api(TokenUser("robot", created["status"]["token"])) as robot:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        info = robot.post(f"{AUTHENTICATION}/selfsubjectreviews", body).must(201).json
        user = info["status"]["userInfo"]
        assert user["username"] == f"system:serviceaccount:{namespace}:robot"
        assert user["groups"] == [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ]
        answer = robot.get("/api/v1/nodes").must(403)
    assert f'User "system:serviceaccount:{namespace}:robot" cannot list' in answer.message


def test_a_service_accounts_token_ends_with_the_account(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    token = account_token(api, namespace)["status"]["token"]
    api.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/robot").must(200)
    with api_server.api(TokenUser("robot", token)) as robot:
        # An authenticator may cache for ten seconds, but there was no earlier review.
        robot.get("/version").must(401)


def test_a_token_for_another_audience_is_rejected(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    token = account_token(api, namespace, audiences=["others"])["status"]["token"]
    with api_server.api(TokenUser("robot", token)) as robot:
        robot.get("/version").must(401)


def test_tokens_live_at_least_ten_minutes(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    api.post(path, account).must(201)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 5},
    }
    answer = api.post(f"{path}/robot/token", request).must(422)
    assert "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 " in (
        answer.message
    )


def test_an_administrator_may_impersonate(api: Api) -> None:
    headers = {"Impersonate-User": "plain"}
    answer = api.get("/api/v1/nodes", headers=headers).must(403)
    assert 'User "plain" cannot list resource "nodes"' in answer.message


def test_impersonation_needs_a_right(plain_api: Api) -> None:
    answer = plain_api.get("/api/v1/nodes", headers={"Impersonate-User": "admin"}).must(403)
    assert 'User "plain" cannot impersonate' in answer.message
