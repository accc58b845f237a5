"""examples/tiny-controller: its code on a running cluster, and its README word for word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.errors import ConflictError, InternalServerError
from kubesched.client.resources import Resource
from kubesched.client.rest import Body, Client
from kubesched.cluster.informers.session import Session, session
from kubesched.cluster.launch.loop_thread import LoopThread
from kubesched.cluster.playground.in_process import (
    ControllersKind,
    Playground,
    ServerKind,
    playground,
)
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.testing import Api, a_node, a_pod
from tests.examples.readme import EXAMPLES, Walk, module_of

EXAMPLE = EXAMPLES / "tiny-controller"
ALIVE = {"kubesched.dev/heartbeat": "on"}


class Moody(Client):
    """A client that records bindings, which fail as configured."""

    problems: list[Exception]
    bound: list[tuple[str, str]]

    async def create(self, resource: Resource, body: Body, **more: Any) -> bytes:
        assert isinstance(body, dict)
        self.bound.append((body["metadata"]["name"], body["target"]["name"]))
        if self.problems:
            raise self.problems.pop(0)
        return await super().create(resource, body, **more)


class Controller:
    """The example's code, on its own event loop."""

    def __init__(self, kubeconfig: Path, problems: list[Exception] | None = None) -> None:
        access = load_access(kubeconfig=str(kubeconfig), environ={})
        self.client = Moody(access, user_agent="tiny", clock=SystemClock(), log=NullLog())
        self.client.problems, self.client.bound = problems or [], []
        self.code = module_of("tiny-controller", "tiny_controller")

    @contextmanager
    def running(self) -> Iterator[None]:
        with LoopThread("tiny-controller") as thread, ExitStack() as stack:
            thread.run(self._start(stack, thread))
            yield

    async def _start(self, stack: ExitStack, thread: LoopThread) -> None:
        block = session("tiny", client=self.client, log=NullLog())
        cluster: Session = await block.__aenter__()

        async def end() -> None:
            await block.__aexit__(None, None, None)
            await self.client.close()

        stack.callback(lambda: thread.run(end()))
        await self.code["schedule"](cluster)


def our_pod(name: str) -> dict[str, Any]:
    return a_pod(name, scheduler="my-scheduler")


@pytest.fixture
def bare() -> Iterator[Playground]:
    with playground(nodes=3, scheduler=False) as cluster:
        yield cluster


def test_only_its_own_pods_are_bound(bare: Playground) -> None:
    bare.create(our_pod("before"), a_pod("other", scheduler="another"))
    controller = Controller(bare.kubeconfig)
    with controller.running():
        bare.create(*(our_pod(f"web-{number}") for number in range(5)))
        names = ["before", *(f"web-{number}" for number in range(5))]
        assert {bare.until_bound(name) for name in names} <= set(bare.nodes)
        bare.until_running("web-0")
    assert bare.node_of("other") == ""
    assert sorted(name for name, _ in controller.client.bound) == sorted(names)


def test_pods_are_found_again_after_a_restart(bare: Playground) -> None:
    with Controller(bare.kubeconfig).running():
        bare.create(our_pod("first"))
        bare.until_bound("first")
    bare.create(our_pod("second"))
    controller = Controller(bare.kubeconfig)
    with controller.running():
        bare.until_bound("second")
    assert [name for name, _ in controller.client.bound] == ["second"]


def test_without_nodes_it_waits() -> None:
    with playground(nodes=0, scheduler=False) as cluster:
        controller = Controller(cluster.kubeconfig)
        with controller.running():
            cluster.create(our_pod("web"))
            cluster.until(lambda: cluster.pod("web"), "the pod is there")
            assert not controller.client.bound
            cluster.create(a_node("late", annotations=ALIVE))
            assert cluster.until_bound("web") == "late"


def test_conflicts_are_ignored_and_other_errors_retried(bare: Playground) -> None:
    conflict = ConflictError("pod web is already assigned to node", code=409)
    controller = Controller(bare.kubeconfig, [conflict])
    with controller.running():
        bare.create(our_pod("taken"))
        bare.until(lambda: controller.client.bound, "it is tried")
        controller.client.problems += [InternalServerError("etcd", code=500)] * 2
        bare.create(our_pod("unlucky"))
        bare.until_bound("unlucky")
    tried = [name for name, _ in controller.client.bound]
    assert tried == ["taken", "unlucky", "unlucky", "unlucky"]
    assert bare.node_of("taken") == ""


def test_a_pod_bound_by_another_client_stays(bare: Playground) -> None:
    controller = Controller(bare.kubeconfig)
    with controller.running():
        bare.create(
            {**our_pod("placed"), "spec": {**our_pod("placed")["spec"], "nodeName": "node-2"}}
        )
        bare.until_running("placed")
        bare.create(our_pod("web"))
        bare.until_bound("web")
    assert [name for name, _ in controller.client.bound] == ["web"]
    assert bare.node_of("placed") == "node-2"


def test_the_code_is_thirty_lines() -> None:
    text = (EXAMPLE / "tiny_controller.py").read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 30


@pytest.mark.parametrize("server", ["embedded", pytest.param("real", marks=pytest.mark.programs)])
def test_its_account_has_the_rights_it_needs_and_no_more(
    server: ServerKind, tmp_path: Path
) -> None:
    with playground(nodes=2, scheduler=False, server=server) as cluster:
        cluster.create(*yaml.safe_load_all((EXAMPLE / "controller.yaml").read_text()))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(as_account(cluster, "tiny-controller"))
        with Controller(kubeconfig).running():
            cluster.create(our_pod("web"))
            assert cluster.until_bound("web") in cluster.nodes
        token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
        with Api(cluster.server.url, token=token, ca_file=cluster.server.ca_file) as client:
            pods = "/api/v1/namespaces/default/pods"
            assert client.get(pods).code == 200
            assert client.get(f"{pods}/web").code == 403
            assert client.post(pods, our_pod("mine")).code == 403
            assert client.get("/api/v1/secrets").code == 403


def as_account(cluster: Playground, name: str) -> str:
    """Return the administrator's kubeconfig with the token of an account."""
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.api.post(path, request).must(201).json["status"]["token"]
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": token}
    return json.dumps(document)


@pytest.mark.programs
@pytest.mark.timeout(180)
@pytest.mark.parametrize("controllers", ["own", "real"])
def test_it_runs_on_real_kubernetes(controllers: ControllersKind) -> None:
    started = playground(nodes=3, scheduler=False, server="real", controllers=controllers)
    with started as cluster:
        controller = Controller(cluster.kubeconfig)
        with controller.running():
            cluster.create(*yaml.safe_load_all((EXAMPLE / "pods.yaml").read_text()))

            def placed() -> list[str]:
                pods = cluster.api.get("/api/v1/namespaces/default/pods").must(200).json["items"]
                return [
                    pod["spec"]["nodeName"]
                    for pod in pods
                    if pod["metadata"]["name"].startswith("tiny-") and "nodeName" in pod["spec"]
                ]

            cluster.until(lambda: len(placed()) == 6, "six pods have a node")
            assert set(placed()) <= set(cluster.nodes)
            assert cluster.node_of("other") == ""


@pytest.mark.programs
@pytest.mark.timeout(180)
@pytest.mark.parametrize("plane", ["embedded", "real"])
def test_the_readme_word_for_word(plane: str, tmp_path: Path) -> None:
    with Walk("tiny-controller", tmp_path, (f"--control-plane={plane}",)) as walk:
        walk.next("kubesched playground")
        walk.next("export KUBECONFIG=")
        assert "deployment.apps/tiny created" in walk.next("kubectl apply")
        walk.until(lambda: count(walk, "Pending") == 7, "seven pods wait")
        assert "Running" not in walk.next("kubectl get pods")
        walk.next("python ")
        walk.until(lambda: (count(walk, "Running"), count(walk, "Pending")) == (6, 1), "six run")
        walk.stop_programs()
        walk.next("kubectl scale")
        walk.until(lambda: count(walk, "Pending") == 4, "three more wait")
        walk.next("kubectl get pods")
        walk.next("python ")
        walk.until(lambda: count(walk, "Running") == 9, "nine run")
        assert walk.next("kubectl get pods -o wide").count("node-") == 9
        walk.next("kubectl create configmap")
        assert "deployment.apps/tiny-controller created" in walk.next("kubectl apply")
        assert not walk.left


def count(walk: Walk, phase: str) -> int:
    text = walk.cluster.kubectl("get", "pods", "-o", "json")
    return sum(pod["status"]["phase"] == phase for pod in json.loads(text)["items"])
