"""Kubernetes' own controllers run a cluster on the embedded server, as on the real one.

kube-controller-manager, kube-scheduler and KWOK: nodes become Ready; a Deployment made with kubectl
becomes running pods, rolls, scales and goes away.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from kubesched.cluster.launch.real_cluster import real_cluster
from kubesched.testing import ApiServer, Programs, embedded_cluster

pytestmark = [pytest.mark.programs, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    is_real = request.config.getoption("--server") == "real"
    with real_cluster("whole") if is_real else embedded_cluster() as running:
        yield running


@pytest.fixture(scope="module", params=["kubectl", "kubectl-1.32"])
def kubectl(request: pytest.FixtureRequest) -> str:
    return str(Programs.built().path(request.param))


def run(cluster: ApiServer, kubectl: str, command: str) -> str:
    env = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.directory)}
    result = subprocess.run(
        [kubectl, *command.split()], env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def test_nodes_are_ready(cluster: ApiServer, kubectl: str) -> None:
    lines = run(cluster, kubectl, "get nodes --no-headers").splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["n1", "Ready"],
        ["n2", "Ready"],
        ["n3", "Ready"],
    ]


def test_a_deployment_is_created_rolled_scaled_and_deleted(
    cluster: ApiServer, kubectl: str
) -> None:
    def say(command: str) -> str:
        return run(cluster, kubectl, command)

    say("create deployment web --image=img:1 --replicas=3")
    say("rollout status deployment/web --timeout=60s")
    lines = say("get pods -l app=web --no-headers").splitlines()
    assert [line.split()[1:3] for line in lines] == [["1/1", "Running"]] * 3
    assert "3/3" in say("get deployment web --no-headers")

    say("set image deployment/web img=img:2")
    say("rollout status deployment/web --timeout=60s")
    say("wait pods -l app=web --for=condition=Ready --timeout=60s")
    assert len(say("get replicasets -l app=web --no-headers").splitlines()) == 2
    assert "REVISION" in say("rollout history deployment/web")

    say("scale deployment web --replicas=5")
    say("rollout status deployment/web --timeout=60s")
    say("scale deployment web --replicas=1")
    say("wait deployment/web --for=jsonpath={.status.replicas}=1 --timeout=60s")
    say("rollout undo deployment/web")
    say("rollout status deployment/web --timeout=60s")
    image = say("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}")
    assert image == "img:1"

    say("delete deployment web --cascade=foreground --timeout=60s")
    assert say("get pods -l app=web -o name") == ""
    assert say("get replicasets -l app=web -o name") == ""


def test_other_controllers_work(cluster: ApiServer, kubectl: str) -> None:
    def say(command: str) -> str:
        return run(cluster, kubectl, command)

    say("create namespace work")
    say("-n work create job once --image=img")
    say("-n work create deployment web --image=img --port=80")
    say("-n work expose deployment web")
    say("-n work rollout status deployment/web --timeout=60s")
    say("-n work wait endpointslice -l kubernetes.io/service-name=web "
        "--for=jsonpath={.endpoints[0].conditions.ready}=true --timeout=60s")  # fmt: skip
    say("-n work get configmap kube-root-ca.crt")
    say("-n work get serviceaccount default")
    say("-n work create quota few --hard=pods=10")
    say("-n work wait quota/few --for=jsonpath={.status.hard.pods}=10 --timeout=60s")
    say("delete namespace work --timeout=90s")
