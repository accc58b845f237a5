"""Explanations of a running cluster: told by its scheduler, or worked out from the API server.

Runs on a playground with the embedded server, or with the real one if `--server real` is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.playground.in_process import Playground
from kubesched.playground.live_scheduler import RunningScheduler
from kubesched.pytest_plugin import playground_fixture
from kubesched.testing import ADMIN, PLAIN, Api, ApiServer
from tests.integration.live_processes import Place
from tests.integration.ops_world import ask
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
    with Place(playground.api, is_staffed=True) as made:
        yield made


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Return a configuration with the scheduler's profile, for what is worked out."""
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
    story = scheduler.until_state(key, "bound")
    node = place.node_of("web")
    assert node in nodes
    assert (story["node"], story["explanation"]["node"]) == (node, node)
    assert {row["node"] for row in story["explanation"]["ranking"]} == nodes
    assert story["uid"] == place.read("web")["metadata"]["uid"]
    answer = ask(scheduler.url, f"/debug/explain?pod={key}", token=ADMIN.token)
    assert (answer.code, answer.headers["Content-Type"]) == (200, "application/json")
    assert json.loads(answer.body) == scheduler.story(key)


def test_who_may_not_read_pages_gets_no_story(scheduler: RunningScheduler, place: Place) -> None:
    place.pod("web", schedulerName=NAME)
    path = f"/debug/explain?pod={place.key('web')}"
    assert ask(scheduler.url, path, token=PLAIN.token).code == 403


def test_an_unschedulable_pod_says_what_its_condition_says(
    scheduler: RunningScheduler, place: Place
) -> None:
    place.node("small", cpu="1")
    key = place.key(place.pod("big", cpu="2", schedulerName=NAME))
    story = scheduler.until_state(key, "unschedulable")
    scheduler.until(lambda: place.refused("big"), "the condition")
    assert story["refusedBy"] == sorted(
        {"NodeAffinity", "NodeResourcesFit"} & set(story["refusedBy"])
    )
    assert "NodeResourcesFit" in story["refusedBy"]
    assert story["explanation"]["event"]["message"] == place.condition("big")["message"]
    assert any("NodeAdd" in wake["events"] for wake in story["wakes"])


def test_a_pod_that_is_deleted_has_no_story(scheduler: RunningScheduler, place: Place) -> None:
    place.node()
    key = place.key(place.pod("web", schedulerName=NAME))
    scheduler.until_state(key, "bound")
    place.delete("web")
    scheduler.until(lambda: scheduler.story(key) is None, "the story ends")
    everybody = scheduler.live.teller.is_there
    scheduler.call(lambda: scheduler.live.stories.forget(everybody, 100_000))
    scheduler.call(lambda: scheduler.live.stories.forget(everybody, 100_000))
    assert scheduler.call(lambda: scheduler.live.stories.get(key)) is None
    assert ask(scheduler.url, f"/debug/explain?pod={key}", token=ADMIN.token).code == 404


# -- the command, told by the scheduler -----------------------------------------------------------


def test_the_command_shows_what_the_scheduler_says(
    scheduler: RunningScheduler, api_server: ApiServer, place: Place
) -> None:
    place.node("small", cpu="1")
    key = place.key(place.pod("big", cpu="2", schedulerName=NAME))
    story = scheduler.until_state(key, "unschedulable")
    ran = explain(api_server, key, *at(scheduler))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"{key} is unschedulable, refused by ")
    assert "May help, says NodeResourcesFit: " in ran.out
    assert "Insufficient cpu" in ran.out
    as_json = explain(api_server, key, *at(scheduler), "-o", "json")
    assert as_json.json == story
    assert yaml.safe_load(explain(api_server, key, *at(scheduler), "-o", "yaml").out) == story


def test_what_would_have_to_change_is_worked_out_though_a_scheduler_could_be_asked(
    scheduler: RunningScheduler, api_server: ApiServer, place: Place, config: str
) -> None:
    node = place.node("small", cpu="1")
    key = place.key(place.pod("big", cpu="2", schedulerName=NAME))
    scheduler.until_state(key, "unschedulable")
    ran = explain(api_server, key, *at(scheduler), "--config", config, "--changes")
    assert ran.status == 0
    assert f"  lacks 1 cpu on {node}\n" in ran.out


def test_a_pod_of_another_scheduler_is_named_by_the_scheduler(
    scheduler: RunningScheduler, api_server: ApiServer, place: Place
) -> None:
    key = place.key(place.pod("web", schedulerName="nobody"))
    scheduler.until_state(key, "foreign")
    ran = explain(api_server, key, *at(scheduler))
    assert ran.status == 0
    assert ran.out == (
        f'{key} asks for the scheduler "nobody", and no profile here has that name (there is '
        f'"{NAME}"): if no other scheduler runs under it, nobody places the pod.\n'
    )


# -- the command, worked out ----------------------------------------------------------------------


def objects(api: Api) -> bytes:
    """Return the cluster as `kubectl get -o json` would show it."""
    items: list[dict[str, Any]] = []
    for version, kind, path in KINDS:
        found = api.get(path).must(200).json["items"]
        items += [{"apiVersion": version, "kind": kind, **one} for one in found]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def test_what_is_worked_out_is_what_files_would_say(
    api_server: ApiServer, api: Api, place: Place, config: str
) -> None:
    for number in range(3):
        place.node(f"n{number}", cpu=str(number + 1))
    key = place.key(place.pod("web", cpu="2", schedulerName="only-from-objects"))
    profile = Path(config).read_text().replace(NAME, "only-from-objects")
    Path(config).write_text(profile)
    ran = explain(api_server, key, "--config", config, "-o", "json")
    assert ran.status == 0
    assert ran.err == "note: no --endpoint was given: no running scheduler is asked\n"
    story = ran.json
    assert (story["source"], story["state"], story["attempts"]) == ("api", "pending", 0)
    files = kubesched(
        "explain", "-f", "-", key, "--config", config, "-o", "json", stdin=objects(api)
    )
    assert story["explanation"] == files.json
    assert story["explanation"]["node"] == f"{place.name}-n2"
    text = explain(api_server, key, "--config", config)
    assert text.out.startswith(f"{key} has no node yet; no running scheduler was asked")
    assert f"{key} goes to {place.name}-n2: " in text.out
    about_node = explain(api_server, key, "--config", config, "--node", f"{place.name}-n0")
    assert "Insufficient cpu" in about_node.out
    decision = explain(api_server, key, "--config", config, "-o", "decision")
    assert set(decision.json["feasible"]) == {f"{place.name}-n1", f"{place.name}-n2"}


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        pytest.param(("--endpoint", "https://127.0.0.1:1"), "connection refused", id="nobody"),
        pytest.param(None, "forbidden", id="no right"),
    ],
)
def test_without_an_answer_it_is_worked_out(
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
    asked = endpoint or at(scheduler, PLAIN.token)
    ran = explain(api_server, key, *asked, "--config", config)
    assert ran.status == 0
    note = "note: worked out from the API server, since the scheduler does not tell: "
    assert ran.err.startswith(note)
    assert problem in ran.err.splitlines()[0].lower()
    assert ran.out.startswith(f"{key} is bound to {place.node_of('web')}; ")


def test_credentials_are_not_shown_to_a_server_that_is_not_known(
    scheduler: RunningScheduler, api_server: ApiServer, place: Place, config: str
) -> None:
    place.node()
    key = place.key(place.pod("web", schedulerName=NAME))
    scheduler.until_state(key, "bound")
    # The administrator's kubeconfig would be let in; without its token nobody is.
    unknown = ("--endpoint", scheduler.url, "--insecure-skip-tls-verify")
    ran = explain(api_server, key, *unknown, "--config", config)
    assert "forbidden" in ran.err.lower()
    strict = explain(api_server, key, "--endpoint", scheduler.url, "--config", config)
    assert "certificate" in strict.err


def test_gates_and_other_schedulers_show_in_the_objects_too(
    api_server: ApiServer, place: Place, config: str
) -> None:
    place.node()
    gated = place.pod("gated", schedulerName=NAME, schedulingGates=[{"name": "example.com/g"}])
    ran = explain(api_server, place.key(gated), "--config", config, "-o", "json")
    assert ran.json["state"] == "gated"
    assert ran.json["holds"][0]["message"] == "waiting for scheduling gates: [example.com/g]"
    assert ran.json["explanation"]["outcome"] == "placed"
    other = place.pod("other", schedulerName="nobody")
    ran = explain(api_server, place.key(other), "--config", config, "-o", "json")
    assert (ran.status, ran.json["state"], ran.json["explanation"]) == (0, "foreign", None)


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (("a/b", "--live", "-f", "x"), 2, "-f and --live cannot be given together"),
        (("--live",), 2, "which pod?"),
        (("a/b/c", "--live", "--endpoint", "https://x"), 2, "is not NAME or NAMESPACE/NAME"),
        (("a/b", "--live", "--endpoint", "10.0.0.1:10259"), 2, "not an address like https://"),
        (("a/b", "--live", "--token", "x", "--token-file", "y"), 2, "cannot be given together"),
        (("a/b", "--live", "--kubeconfig", "no/such"), 1, "no/such: no such file or directory"),
        (("a", "-f", "x", "--endpoint", "https://x"), 2, "go with --live"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    arguments: tuple[str, ...], status: int, problem: str
) -> None:
    ran = kubesched("explain", *arguments)
    assert ran.status == status
    assert problem in ran.err


def test_a_pod_that_is_not_there_is_one_line(api_server: ApiServer, place: Place) -> None:
    ran = explain(api_server, place.key("gone"))
    assert ran.status == 1
    assert f'pods "gone" not found in namespace {place.name}\n' in ran.err
    assert ran.out == ""


def test_a_workload_is_no_pod_and_the_line_says_so(api_server: ApiServer) -> None:
    ran = explain(api_server, "deploy/web")
    assert ran.status == 1
    assert 'pods "web" not found in namespace deploy; with --live name a pod' in ran.err
