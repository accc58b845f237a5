"""deploy/ applied by kubectl and helm: both servers store it unchanged and without warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kubesched.cluster.playground.in_process import Playground, playground
from kubesched.testing import Api
from tests.deploy.documents import CHART, DEPLOY, plain
from tests.examples.folders import FORMS, Form

pytestmark = [pytest.mark.programs, pytest.mark.timeout(120)]

NAMES = {
    "second-scheduler": "kubesched",
    "replacement": "kubesched-replacement",
    "extender": "kubesched-extender",
}
FOLDERS = tuple(NAMES)


@pytest.fixture(params=FORMS[:2])
def cluster(request: pytest.FixtureRequest) -> Iterator[Playground]:
    """Run a server without nodes: no pod has to run."""
    form: Form = request.param
    with playground(nodes=0, scheduler=False, server=form.server) as running:
        yield running


@pytest.mark.parametrize("program", ["kubectl", "kubectl-1.32"])
def test_files_and_kustomize_apply_the_same_and_are_removed_completely(
    cluster: Playground, program: str
) -> None:
    for folder in FOLDERS:
        place = str(DEPLOY / folder)
        applied = run(cluster, program, "apply", "-f", place)
        count = sum(map(len, plain(folder).values()))
        assert len(re.findall(r" created$", applied, re.MULTILINE)) == count, applied
        output = run(cluster, program, "apply", "-k", place)
        # A budget's selector is replaced as a whole, so that kubectl always sends it.
        changed = [line for line in output.splitlines() if not line.endswith(" unchanged")]
        assert changed == [f"poddisruptionbudget.policy/{NAMES[folder]} configured"]
        assert len(output.splitlines()) == count
        assert stored_differently(cluster.api, folder) == []
    for folder in FOLDERS:
        run(cluster, program, "delete", "-k", str(DEPLOY / folder), "--wait=false")
    kinds = "deployments,configmaps,services,poddisruptionbudgets,serviceaccounts"
    rights = "roles,rolebindings,clusterroles,clusterrolebindings"
    left = run(cluster, program, "get", f"{kinds},{rights}", "-A", "-o", "name")
    assert "kubesched" not in left


def run(cluster: Playground, program: str, *arguments: str) -> str:
    """Run kubectl; a warning is a failure."""
    completed = cluster.run_kubectl(*arguments, program=program)
    assert completed.returncode == 0, completed.stderr
    assert "Warning" not in completed.stderr
    return completed.stdout


def stored_differently(api: Api, folder: str) -> list[str]:
    """Return the fields of a Deployment's pods that the server stored differently."""
    (written,) = plain(folder)["Deployment"]
    name = written["metadata"]["name"]
    path = f"/apis/apps/v1/namespaces/kube-system/deployments/{name}"
    stored = api.get(path).must(200).json
    return list(differing(written["spec"], stored["spec"], "spec"))


def differing(written: object, stored: object, path: str) -> Iterator[str]:
    if isinstance(written, dict) and isinstance(stored, dict):
        for key, value in written.items():
            yield from differing(value, stored.get(key), f"{path}.{key}")
    elif isinstance(written, list) and isinstance(stored, list) and len(written) == len(stored):
        for index, (one, other) in enumerate(zip(written, stored, strict=True)):
            yield from differing(one, other, f"{path}[{index}]")
    elif written != stored:
        yield f"{path}: {written} became {stored}"


def test_pods_meet_the_restricted_pod_security_standard() -> None:
    """A namespace that enforces `restricted` accepts all of them without a warning."""
    level = "pod-security.kubernetes.io"
    labels = {f"{level}/{mode}": "restricted" for mode in ("enforce", "warn")}
    with playground(nodes=0, scheduler=False, server="real") as cluster:
        cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "strict", "labels": labels},
            }
        )
        path = "/apis/apps/v1/namespaces/strict/deployments"
        for folder in FOLDERS:
            (deployment,) = plain(folder)["Deployment"]
            deployment["metadata"]["namespace"] = "strict"
            answer = cluster.api.post(path, deployment).must(201)
            assert answer.warnings == [], folder
        # It does warn of other pods.
        loose = plain("extender")["Deployment"][0]
        loose["metadata"].update(namespace="strict", name="loose")
        del loose["spec"]["template"]["spec"]["containers"][0]["securityContext"]
        assert cluster.api.post(path, loose).must(201).warnings != []


def test_the_chart_in_another_namespace(cluster: Playground) -> None:
    """All objects use the namespace, except for the authentication reader role in kube-system."""
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    install = ["install", "mine", str(CHART), "--namespace=team"]
    completed = cluster.run_kubectl(*install, program="helm")
    assert completed.returncode == 0, completed.stderr
    assert "schedulerName: mine" in completed.stdout
    lines = cluster.kubectl("get", "roles,rolebindings", "-A", "-o", "name").split()
    assert "role.rbac.authorization.k8s.io/mine" in lines
    role = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles/mine"
    assert cluster.api.get(role).must(200).json["rules"][1]["resourceNames"] == ["mine"]
    reader = (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings/"
        "mine-authentication-reader"
    )
    (subject,) = cluster.api.get(reader).must(200).json["subjects"]
    assert (subject["name"], subject["namespace"]) == ("mine", "team")
    gone = cluster.run_kubectl("uninstall", "mine", "--namespace=team", program="helm")
    assert gone.returncode == 0, gone.stderr
