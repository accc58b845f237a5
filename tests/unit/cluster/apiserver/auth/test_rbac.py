"""Permissions by rules, and the reasons in kube-apiserver's words."""

import pytest

from kubesched.cluster.apiserver.auth.attributes import Attributes, rejection
from kubesched.cluster.apiserver.auth.authorization import Authorizer
from kubesched.cluster.apiserver.auth.rbac import GROUP, RuleBook
from kubesched.cluster.apiserver.bootstrap import bootstrap_objects
from kubesched.cluster.apiserver.strategy import User
from tests.unit.cluster.apiserver.auth.readers import Documents

PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}
SCHEDULER = User("system:kube-scheduler", groups=("system:authenticated",))
JANE = User("jane", groups=("devs", "system:authenticated"))


@pytest.fixture
def documents() -> Documents:
    found = Documents()
    for document in bootstrap_objects():
        found.add(GROUP, PLURALS[document["kind"]], document)
    return found


@pytest.fixture
def authorizer(documents: Documents) -> Authorizer:
    return Authorizer(RuleBook(documents, lambda: documents.version))


def test_a_role_of_the_bootstrap_policy_allows_and_is_named(authorizer: Authorizer) -> None:
    attributes = Attributes(SCHEDULER, "list", resource="pods")

    assert authorizer.allows(attributes) == (
        True,
        (
            'RBAC: allowed by ClusterRoleBinding "system:kube-scheduler" of ClusterRole '
            '"system:kube-scheduler" to User "system:kube-scheduler"'
        ),
    )


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(Attributes(SCHEDULER, "list", resource="secrets"), id="another resource"),
        pytest.param(Attributes(SCHEDULER, "patch", resource="pods"), id="another verb"),
        pytest.param(Attributes(SCHEDULER, "get", group="apps", resource="pods"), id="group"),
        pytest.param(
            Attributes(SCHEDULER, "update", group="coordination.k8s.io", resource="leases",
                       namespace="default", name="other"),
            id="another name",
        ),
        pytest.param(Attributes(SCHEDULER, "get", path="/foo", is_resource=False), id="path"),
    ],
)  # fmt: skip
def test_a_request_without_a_rule_is_rejected(
    authorizer: Authorizer, attributes: Attributes
) -> None:
    assert authorizer.allows(attributes) == (False, "")


@pytest.mark.parametrize(
    "attributes",
    [
        Attributes(SCHEDULER, "create", resource="pods", subresource="binding", namespace="a"),
        Attributes(SCHEDULER, "patch", resource="pods", subresource="status", namespace="a"),
        Attributes(SCHEDULER, "update", group="coordination.k8s.io", resource="leases",
                   namespace="kube-system", name="kube-scheduler"),
        Attributes(SCHEDULER, "get", path="/healthz", is_resource=False),
        Attributes(SCHEDULER, "get", path="/apis/apps/v1", is_resource=False),
    ],
)  # fmt: skip
def test_subresources_names_and_paths_are_covered_by_their_rules(
    authorizer: Authorizer, attributes: Attributes
) -> None:
    assert authorizer.allows(attributes)[0]


def test_a_binding_in_a_namespace_counts_there_alone(
    authorizer: Authorizer, documents: Documents
) -> None:
    attributes = Attributes(JANE, "get", resource="pods", namespace="team")
    assert not authorizer.allows(attributes)[0]

    binding = {
        "metadata": {"name": "devs-view", "namespace": "team"},
        "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": GROUP},
        "subjects": [{"kind": "Group", "name": "devs", "apiGroup": GROUP}],
    }
    documents.add(GROUP, "rolebindings", binding)

    assert authorizer.allows(attributes) == (
        True,
        'RBAC: allowed by RoleBinding "devs-view/team" of ClusterRole "view" to Group "devs"',
    )
    assert not authorizer.allows(Attributes(JANE, "get", resource="pods", namespace="other"))[0]
    assert not authorizer.allows(Attributes(JANE, "list", resource="pods"))[0]


def test_a_binding_to_a_missing_role_is_reported(
    authorizer: Authorizer, documents: Documents
) -> None:
    binding = {
        "metadata": {"name": "lost"},
        "roleRef": {"kind": "ClusterRole", "name": "gone", "apiGroup": GROUP},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": GROUP}],
    }
    documents.add(GROUP, "clusterrolebindings", binding)

    allowed, reason = authorizer.allows(Attributes(JANE, "get", resource="pods"))

    assert not allowed
    assert reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'


def test_the_privileged_group_may_do_everything(authorizer: Authorizer) -> None:
    admin = User("admin", groups=("system:masters",))

    assert authorizer.allows(Attributes(admin, "delete", resource="nodes", name="n")) == (True, "")


def test_a_rejection_names_user_verb_resource_and_place() -> None:
    attributes = Attributes(JANE, "get", group="apps", resource="deployments", subresource="scale",
                       namespace="team", name="web")  # fmt: skip

    error = rejection(attributes, "")

    assert error.code == 403
    assert error.message == (
        'deployments.apps "web" is forbidden: User "jane" cannot get resource '
        '"deployments/scale" in API group "apps" in the namespace "team"'
    )


def test_a_rejection_of_a_path_names_it() -> None:
    attributes = Attributes(JANE, "get", path="/foo", is_resource=False)

    assert rejection(attributes, "").message == 'forbidden: User "jane" cannot get path "/foo"'
