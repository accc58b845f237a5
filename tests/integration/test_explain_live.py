"""Explanations of a running cluster: by its scheduler, or computed from the API server.

Runs on a playground with the embedded server, or with the real one with `--server real`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.playground.in_process import Playground
from kubesched.cluster.playground.scheduler_thread import RunningScheduler
from kubesched.pytest_plugin import playground_fixture
from kubesched.testing import ADMIN, PLAIN, Api, ApiServer
from tests.integration.live_processes import Place
from tests.integration.ops_world import send_request
from tests.unit.cli.running import Run, kubesched

NAME = "told-scheduler"
KINDS = (
    ("v1", "Node", "/api/v1/nodes"),
    ("v1", "Pod", "/api/v1/pods"),
    ("v1", "Namespace", "/api/v1/namespaces"),
)


playground = playground_fixture("module")
pytestmark = pytest.mark.playground(nodes=0, config={"profiles": [{"schedulerName": NAME}]})


@pytest.fixture(scope="module")
def api_server(playground: Playground) -> ApiServer:
    return playground.server


@pytest.fixture(scope="module")
def api(playground: Playground) -> Api:
    return playground.api


@pytest.fixture(scope="module")
def scheduler(playground: Playground) -> RunningScheduler:
    return playground.scheduler


@pytest.fixture
def place(playground: Playground) -> Iterator[Place]:
    with Place(playground.api, is_staffed=True) as created:
        yield created


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Return a configuration with the scheduler's profile, for local explanations."""
    path = tmp_path / "config.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": NAME}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def explain(server: ApiServer, pod: str, *arguments: str) -> Run:
    """Run the command on a cluster."""
    return kubesched("explain", "--live", pod, "--kubeconfig", str(server.kubeconfig), *arguments)


def at(scheduler: RunningScheduler, token: str = ADMIN.token) -> tuple[str, ...]:
    return ("--endpoint", scheduler.url, "--insecure-skip-tls-verify", "--token", token)


# -- the page -------------------------------------------------------------------------------------


def test_a_bound_pod_has_the_node_the_api_server_shows(
    scheduler: RunningScheduler, place: Place
) -> None:
    nodes = {place.node("small", cpu="1"), place.node("large", cpu="8")}
    key = place.key(place.pod("web", schedulerName=NAME))
    pod_report = scheduler.until_state(key, "bound")
    node = place.node_of("web")
    assert node in nodes
    assert (pod_report["node"], pod_report["explanation"]["node"]) == (node, node)
    assert {row["node"] for row in pod_report["explanation"]["ranking"]} == nodes
    assert pod_report["uid"] == place.read("web")["metadata"]["uid"]
    answer = send_request(scheduler.url, f"/debug/explain?pod={key}", token=ADMIN.token)
    assert (answer.code, answer.headers["Content-Type"]) == (200, "application/json")
    assert json.loads(answer.body) == scheduler.pod_report(key)


def test_a_user_without_access_to_pages_gets_no_explanation(
    scheduler: RunningScheduler, place: Place
) -> None:
    place.pod("web", schedulerName=NAME)
    path = f"/debug/explain?pod={place.key('web')}"
    assert send_request(scheduler.url, path, token=PLAIN.token).code == 403


def test_the_report_of_an_unschedulable_pod_has_its_conditions_message(
    scheduler: RunningScheduler, place: Place
) -> None:
    place.node("small", cpu="1")
    key = place.key(place.pod("big", cpu="2", schedulerName=NAME))
    pod_report = scheduler.until_state(key, "unschedulable")
    scheduler.until(lambda: place.rejected("big"), "the condition")
    assert pod_report["rejectedBy"] == sorted(
        {"NodeAffinity", "NodeResourcesFit"} & set(pod_report["rejectedBy"])
    )
    assert "NodeResourcesFit" in pod_report["rejectedBy"]
    assert pod_report["explanation"]["event"]["message"] == place.condition("big")["message"]
    assert any("NodeAdd" in wake["events"] for wake in pod_report["wakes"])


def test_a_deleted_pod_has_no_explanation(scheduler: RunningScheduler, place: Place) -> None:
    place.node()
    key = place.key(place.pod("web", schedulerName=NAME))
    scheduler.until_state(key, "bound")
    place.delete("web")
    scheduler.until(lambda: scheduler.pod_report(key) is None, "the story ends")
    is_listed = scheduler.live.pod_reporter.is_there
    scheduler.call(lambda: scheduler.live.history.forget(is_listed, 100_000))
    scheduler.call(lambda: scheduler.live.history.forget(is_listed, 100_000))
    assert scheduler.call(lambda: scheduler.live.history.get(key)) is None
    assert send_request(scheduler.url, f"/debug/explain?pod={key}", token=ADMIN.token).code == 404


# -- the command, with the scheduler's report ------------------------------------------------------


def test_the_command_prints_the_schedulers_report(
    scheduler: RunningScheduler, api_server: ApiServer, place: Place
) -> None:
    place.node("small", cpu="1")
    key = place.key(place.pod("big", cpu="2", schedulerName=NAME))
    pod_report = scheduler.until_state(key, "unschedulable")
    completed = explain(api_server, key, *at(scheduler))
    assert (completed.status, completed.err) == (0, "")
    assert completed.out.startswith(f"{key} is unschedulable, rejected by ")
    assert "Events that requeue it for NodeResourcesFit: " in completed.out
    assert "Insufficient cpu" in completed.out
    as_json = explain(api_server, key, *at(scheduler), "-o", "json")
    assert as_json.json == pod_report
    assert yaml.safe_load(explain(api_server, key, *at(scheduler), "-o", "yaml").out) == pod_report


def test_counterfactuals_are_computed_locally_even_beside_a_scheduler(
    scheduler: RunningScheduler, api_server: ApiServer, place: Place, config: str
) -> None:
    node = place.node("small", cpu="1")
    key = place.key(place.pod("big", cpu="2", schedulerName=NAME))
    scheduler.until_state(key, "unschedulable")
    completed = explain(api_server, key, *at(scheduler), "--config", config, "--changes")
    assert completed.status == 0
    assert f"  lacks 1 cpu on {node}\n" in completed.out


def test_the_scheduler_of_a_foreign_pod_is_named(
    scheduler: RunningScheduler, api_server: ApiServer, place: Place
) -> None:
    key = place.key(place.pod("web", schedulerName="nobody"))
    scheduler.until_state(key, "foreign")
    completed = explain(api_server, key, *at(scheduler))
    assert completed.status == 0
    assert completed.out == (
        f'{key} has the scheduler name "nobody", which no profile has (profiles: "{NAME}"); '
        "the pod stays pending unless another scheduler uses that name.\n"
    )


# -- the command, computed locally -----------------------------------------------------------------


def objects(api: Api) -> bytes:
    """Return the cluster as `kubectl get -o json` prints it."""
    items: list[dict[str, Any]] = []
    for version, kind, path in KINDS:
        found = api.get(path).must(200).json["items"]
        items += [{"apiVersion": version, "kind": kind, **one} for one in found]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def test_a_local_explanation_equals_that_of_files(
    api_server: ApiServer, api: Api, place: Place, config: str
) -> None:
    for number in range(3):
        place.node(f"n{number}", cpu=str(number + 1))
    key = place.key(place.pod("web", cpu="2", schedulerName="only-from-objects"))
    profile = Path(config).read_text().replace(NAME, "only-from-objects")
    Path(config).write_text(profile)
    completed = explain(api_server, key, "--config", config, "-o", "json")
    assert completed.status == 0
    assert completed.err == "note: no running scheduler is queried: --endpoint is not set\n"
    pod_report = completed.json
    assert (pod_report["source"], pod_report["state"], pod_report["attempts"]) == (
        "api",
        "pending",
        0,
    )
    files = kubesched(
        "explain", "-f", "-", key, "--config", config, "-o", "json", stdin=objects(api)
    )
    assert pod_report["explanation"] == files.json
    assert pod_report["explanation"]["node"] == f"{place.name}-n2"
    text = explain(api_server, key, "--config", config)
    assert text.out.startswith(f"{key} has no node yet; computed from the API server")
    assert f"{key} goes to {place.name}-n2: " in text.out
    about_node = explain(api_server, key, "--config", config, "--node", f"{place.name}-n0")
    assert "Insufficient cpu" in about_node.out
    decision = explain(api_server, key, "--config", config, "-o", "decision")
    assert set(decision.json["feasible"]) == {f"{place.name}-n1", f"{place.name}-n2"}


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        pytest.param(("--endpoint", "https://127.0.0.1:1"), "connection refused", id="no server"),
        pytest.param(None, "forbidden", id="no right"),
    ],
)
def test_without_a_response_the_explanation_is_computed_locally(
    scheduler: RunningScheduler,
    api_server: ApiServer,
    place: Place,
    config: str,
    endpoint: tuple[str, ...] | None,
    problem: str,
) -> None:
    place.node()
    key = place.key(place.pod("web", schedulerName=NAME))
    scheduler.until_state(key, "bound")
    options = endpoint or at(scheduler, PLAIN.token)
    completed = explain(api_server, key, *options, "--config", config)
    assert completed.status == 0
    note = "note: computed from the API server, because the scheduler has no report: "
    assert completed.err.startswith(note)
    assert problem in completed.err.splitlines()[0].lower()
    assert completed.out.startswith(f"{key} is bound to {place.node_of('web')}; ")


def test_credentials_are_not_sent_to_an_untrusted_server(
    scheduler: RunningScheduler, api_server: ApiServer, place: Place, config: str
) -> None:
    place.node()
    key = place.key(place.pod("web", schedulerName=NAME))
    scheduler.until_state(key, "bound")
    # The administrator's kubeconfig without its token has no access.
    unknown = ("--endpoint", scheduler.url, "--insecure-skip-tls-verify")
    completed = explain(api_server, key, *unknown, "--config", config)
    assert "forbidden" in completed.err.lower()
    strict = explain(api_server, key, "--endpoint", scheduler.url, "--config", config)
    assert "certificate" in strict.err


def test_gates_and_scheduler_names_are_read_from_the_objects(
    api_server: ApiServer, place: Place, config: str
) -> None:
    place.node()
    gated = place.pod("gated", schedulerName=NAME, schedulingGates=[{"name": "example.com/g"}])
    completed = explain(api_server, place.key(gated), "--config", config, "-o", "json")
    assert completed.json["state"] == "gated"
    assert completed.json["holds"][0]["message"] == "waiting for scheduling gates: [example.com/g]"
    assert completed.json["explanation"]["outcome"] == "placed"
    other = place.pod("other", schedulerName="nobody")
    completed = explain(api_server, place.key(other), "--config", config, "-o", "json")
    assert (completed.status, completed.json["state"], completed.json["explanation"]) == (
        0,
        "foreign",
        None,
    )


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (("a/b", "--live", "-f", "x"), 2, "-f and --live are mutually exclusive"),
        (("--live",), 2, "requires a pod"),
        (("a/b/c", "--live", "--endpoint", "https://x"), 2, "is not NAME or NAMESPACE/NAME"),
        (("a/b", "--live", "--endpoint", "10.0.0.1:10259"), 2, "expected a URL like https://"),
        (("a/b", "--live", "--token", "x", "--token-file", "y"), 2, "are mutually exclusive"),
        (("a/b", "--live", "--kubeconfig", "no/such"), 1, "no/such: no such file or directory"),
        (("a", "-f", "x", "--endpoint", "https://x"), 2, "require --live"),
    ],
)
def test_a_wrong_command_line_prints_one_line(
    arguments: tuple[str, ...], status: int, problem: str
) -> None:
    completed = kubesched("explain", *arguments)
    assert completed.status == status
    assert problem in completed.err


def test_an_unknown_pod_prints_one_line(api_server: ApiServer, place: Place) -> None:
    completed = explain(api_server, place.key("gone"))
    assert completed.status == 1
    assert f'pods "gone" not found in namespace {place.name}\n' in completed.err
    assert completed.out == ""


def test_a_workload_instead_of_a_pod_prints_one_line(api_server: ApiServer) -> None:
    completed = explain(api_server, "deploy/web")
    assert completed.status == 1
    assert 'pods "web" not found in namespace deploy; --live explains pods only' in completed.err
