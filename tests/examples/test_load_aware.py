"""examples/load-aware: a live metric decides, stale data does not, and the README is true."""

from __future__ import annotations

import fcntl
import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from kubesched import Handle
from kubesched.cluster.playground.in_process import (
    ControllersKind,
    Playground,
    ServerKind,
    playground,
)
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config, load_config_object
from kubesched.kit.clock import SystemClock
from kubesched.profile.build import build
from kubesched.profile.plugin_loading import load_plugin, registry_with
from kubesched.testing import a_node, a_pod
from kubesched.testing.plugin_checks import check_plugin
from tests.examples.readme import EXAMPLES, Walk

EXAMPLE = EXAMPLES / "load-aware"
ONE_NODE = load_plugin(f"{EXAMPLE}/load_aware.py:LoadAware").factory
COLUMNS = load_plugin(f"{EXAMPLE}/load_aware_columns.py:LoadAware").factory
SPELLINGS = [pytest.param(ONE_NODE, id="one node"), pytest.param(COLUMNS, id="columns")]
LOADS = {"node-1": 0.9, "node-2": 0.8, "node-3": 0.1, "node-4": 0.7}


class Endpoint:
    """A scripted Prometheus."""

    def __init__(self) -> None:
        self.answer: Callable[[], bytes] = lambda: b""
        self.code = 200
        self.requests: list[str] = []
        self.url = ""

    def loads(self, loads: dict[str, float], age_s: float = 0.0) -> None:
        """Answer every query with these loads, measured some time ago."""

        def answer() -> bytes:
            when_s = SystemClock().now_s() - age_s
            result = [
                {"metric": {"node": node}, "value": [when_s, str(load)]}
                for node, load in loads.items()
            ]
            return json.dumps({"status": "success", "data": {"result": result}}).encode()

        self.answer = answer


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    scripted = Endpoint()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            scripted.requests.append(self.path)
            body = scripted.answer()
            self.send_response(scripted.code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    scripted.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield scripted
    server.shutdown()
    thread.join()
    server.server_close()


def configuration(url: str, weight: int = 10) -> dict[str, Any]:
    args = {"url": url, "intervalSeconds": 0.05, "maxAgeSeconds": 60}
    return {
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "LoadAware", "weight": weight}]}},
                "pluginConfig": [{"name": "LoadAware", "args": args}],
            }
        ]
    }


@contextmanager
def cluster_with(
    plugin: Any,
    endpoint: Endpoint,
    *,
    server: ServerKind = "embedded",
    controllers: ControllersKind = "own",
) -> Iterator[Playground]:
    config = configuration(endpoint.url)
    context = playground(
        nodes=4, plugins=[plugin], config=config, server=server, controllers=controllers
    )
    with context as cluster:
        until_read(cluster, endpoint)
        yield cluster


def until_read(cluster: Playground, endpoint: Endpoint) -> None:
    """Wait until a current response has been used: until the request after the next."""
    seen = len(endpoint.requests)
    cluster.until(lambda: len(endpoint.requests) >= seen + 3, "the metric is read")


def placed(cluster: Playground, prefix: str, count: int) -> list[str]:
    names = [f"{prefix}-{number}" for number in range(count)]
    cluster.create(*(a_pod(name, requests={"cpu": "500m", "memory": "2Gi"}) for name in names))
    return [cluster.until_bound(name) for name in names]


@pytest.mark.parametrize("plugin", SPELLINGS)
def test_pods_are_placed_on_idle_nodes(plugin: Any, endpoint: Endpoint) -> None:
    endpoint.loads(LOADS)
    with cluster_with(plugin, endpoint) as cluster:
        assert set(placed(cluster, "early", 4)) == {"node-3"}
        endpoint.loads({**LOADS, "node-3": 1.0, "node-1": 0.05})
        until_read(cluster, endpoint)
        assert set(placed(cluster, "late", 4)) == {"node-1"}
    path, _, query = endpoint.requests[0].partition("?")
    assert path == "/api/v1/query"
    expected = '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[1m]))'
    assert parse_qs(query) == {"query": [expected]}


@pytest.mark.parametrize("plugin", SPELLINGS)
def test_stale_samples_are_ignored(plugin: Any, endpoint: Endpoint) -> None:
    endpoint.loads(LOADS, age_s=61)
    with cluster_with(plugin, endpoint) as cluster:
        # As without the plugin: the emptiest node scores best.
        assert len(set(placed(cluster, "web", 4))) == 4


FAILURES = [
    (500, b"out of memory"),
    (200, b"<html>"),
    (200, b'{"status": "error", "error": "parse error"}'),
    (200, b'{"data": {"result": [{"metric": {}, "value": [1]}]}}'),
    (200, b'{"data": {"result": [{"metric": {"node": "node-1"}, "value": [9e9, "NaN"]}]}}'),
]


@pytest.mark.parametrize("plugin", SPELLINGS)
def test_a_failing_endpoint_is_ignored_and_retried(plugin: Any, endpoint: Endpoint) -> None:
    endpoint.code, endpoint.answer = FAILURES[0][0], lambda: FAILURES[0][1]
    with cluster_with(plugin, endpoint) as cluster:
        for code, body in FAILURES:
            endpoint.code, endpoint.answer = code, lambda body=body: body  # type: ignore[misc]
            until_read(cluster, endpoint)
        assert len(set(placed(cluster, "early", 3))) == 3
        endpoint.code = 200
        endpoint.loads(LOADS)
        until_read(cluster, endpoint)
        assert set(placed(cluster, "late", 3)) == {"node-3"}


# -- rules, without a cluster ---------------------------------------------------------------------

FRESH, STALE = math.inf, 0.0


def with_samples(factory: Any, samples: dict[str, tuple[float, int]]) -> Any:
    """Return a factory of the plugin with these samples."""

    def make(args: None, handle: Handle) -> Any:
        plugin = factory(ONE_NODE.__init__.__annotations__["args"](), handle)
        plugin.loads.samples = samples
        plugin.loads.readings = 1
        return plugin

    make.name = "LoadAware"  # type: ignore[attr-defined]
    return make


def the_cluster() -> dict[str, list[dict[str, Any]]]:
    nodes = [a_node(f"n{number}") for number in range(5)]
    return {"five nodes": [*nodes, a_pod("web"), a_pod("picky", nodeSelector={"no": "such"})]}


@pytest.mark.parametrize(
    ("samples", "scores"),
    [
        pytest.param({}, None, id="nothing was read"),
        pytest.param({"n0": (STALE, 90)}, None, id="everything is stale"),
        pytest.param({"gone": (FRESH, 90)}, None, id="samples of other nodes"),
        pytest.param(
            {"n0": (FRESH, 10), "n1": (FRESH, 21), "n2": (STALE, 100)},
            (10, 21),
            id="a stale node is in the middle",
        ),
        pytest.param({"n3": (FRESH, 70)}, (70, 70), id="one sample says nothing"),
    ],
)
def test_both_forms_keep_the_rules(
    samples: dict[str, tuple[float, int]], scores: tuple[int, int] | None
) -> None:
    report = check_plugin(
        with_samples(ONE_NODE, samples), with_samples(COLUMNS, samples), clusters=the_cluster()
    )
    assert report.score_range == scores


def test_wrong_arguments_are_rejected() -> None:
    document = yaml.safe_load((EXAMPLE / "scheduler.yaml").read_text())
    args = document["profiles"][0]["pluginConfig"][0]["args"]
    build(load_config_object(document), out_of_tree=registry_with([ONE_NODE]))
    args["maxAge"] = 3
    with pytest.raises(ConfigError, match=r"did you mean .maxAgeSeconds"):
        build(load_config_object(document), out_of_tree=registry_with([ONE_NODE]))
    del args["maxAge"]
    args["url"] = "prometheus:9090"
    with pytest.raises(ConfigError, match="url: must begin with http"):
        build(load_config_object(document), out_of_tree=registry_with([ONE_NODE]))


def test_the_configuration_of_the_deployment_can_be_built() -> None:
    manifests = list(yaml.safe_load_all((EXAMPLE / "deployment.yaml").read_text()))
    (config,) = [manifest for manifest in manifests if manifest["kind"] == "ConfigMap"]
    text = config["data"]["scheduler.yaml"]
    built = build(load_config(text.encode()), out_of_tree=registry_with([COLUMNS]))
    assert list(built.profiles) == ["load-aware"]
    assert "LoadAware" in built.profiles["load-aware"].plugins
    (deployment,) = [manifest for manifest in manifests if manifest["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1].endswith("/load_aware_columns.py:LoadAware")


# -- real Kubernetes, and the README --------------------------------------------------------------


@pytest.mark.programs
@pytest.mark.timeout(180)
@pytest.mark.parametrize("controllers", ["own", "real"])
def test_it_decides_on_real_kubernetes(controllers: ControllersKind, endpoint: Endpoint) -> None:
    endpoint.loads(LOADS)
    with cluster_with(COLUMNS, endpoint, server="real", controllers=controllers) as cluster:
        assert set(placed(cluster, "early", 4)) == {"node-3"}
        endpoint.loads(LOADS, age_s=100)
        until_read(cluster, endpoint)
        assert len(set(placed(cluster, "late", 3))) == 3
        cluster.create(*yaml.safe_load_all((EXAMPLE / "deployment.yaml").read_text()))


@pytest.mark.programs
@pytest.mark.timeout(180)
@pytest.mark.parametrize("plane", ["embedded", "real"])
def test_the_readme_word_for_word(plane: str, tmp_path: Path) -> None:
    with (EXAMPLE / "README.md").open() as alone:
        # The endpoint has a fixed port, so that only one test may run it.
        fcntl.flock(alone, fcntl.LOCK_EX)
        with Walk("load-aware", tmp_path, (f"--control-plane={plane}",)) as walk:
            follow(walk)


def follow(walk: Walk) -> None:
    walk.next("python ")
    walk.next("kubesched playground")
    walk.next("export KUBECONFIG=")
    walk.until(lambda: "GET /api/v1/query" in walk.program_output, "the loads are read")
    walk.next("kubectl apply")
    walk.next("kubectl rollout status")
    assert walk.next("kubectl get pods").count(" node-3 ") == 6
    walk.stop_programs()
    walk.next("sleep 12")
    walk.next("kubectl create deployment later")
    walk.next("kubectl rollout status")
    lines = walk.next("kubectl get pods")
    assert sum(f" node-{number} " in lines for number in range(1, 5)) == 4
    walk.next("kubectl -n kube-system create configmap")
    assert "deployment.apps/load-aware created" in walk.next("kubectl apply")
    assert not walk.left
