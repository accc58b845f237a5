"""Pages that only kubesched has or that differ, and the shutdown of the server."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import uvloop

from kubesched.cluster.launch.http import Response
from kubesched.ops.serving import AuthorizationSettings, ServingSettings
from tests.integration.ops_world import World, connected, ops_world, send_request

OPEN = ServingSettings(
    bind_address="127.0.0.1", port=0, authorization=AuthorizationSettings(always_allow_paths=("*",))
)


@pytest.fixture(scope="module", params=[asyncio.new_event_loop, uvloop.new_event_loop])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    make: Callable[[], asyncio.AbstractEventLoop] = request.param
    with ops_world(None, settings=OPEN, loop=make()) as running:
        yield running


def test_a_failing_check_is_shown_without_its_reason(world: World) -> None:
    world.failing["sched-handler-sync"] = "handlers are not fully synchronized"
    try:
        answer = send_request(world.url, "/readyz")
        assert answer.code == 500
        assert answer.text == (
            "[+]leaderElection ok\n[+]shutdown ok\n"
            "[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n"
        )
        single = send_request(world.url, "/readyz/sched-handler-sync")
        assert single.code == 500
        assert single.text == "internal server error: handlers are not fully synchronized\n"
        assert send_request(world.url, "/readyz?exclude=sched-handler-sync").text == "ok"
        assert send_request(world.url, "/healthz").text == "ok"
        slis = send_request(world.url, "/metrics/slis").text
        assert 'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0\n' in slis
        failed = 'healthchecks_total{name="sched-handler-sync",status="error",type="readyz"} 1\n'
        assert failed in slis
    finally:
        world.failing.clear()


def test_metrics_are_compressed_if_accepted(world: World) -> None:
    plain = send_request(world.url, "/metrics")
    packed = send_request(world.url, "/metrics", headers={"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body).splitlines()[0] == plain.body.splitlines()[0]
    assert "Content-Encoding" not in plain.headers
    rejected = send_request(world.url, "/metrics", headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in rejected.headers
    assert plain.headers["Content-Type"] == (
        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    )
    assert "# TYPE scheduler_preemption_attempts_total counter\n" in plain.text


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        ("application/openmetrics-text; version=1.0.0", True),
        # Prometheus also accepts the text format, and gets it as from kube-scheduler.
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2", False),
        ("application/openmetrics-text, */*;q=0.1", False),
        ("*/*", False),
    ],
)
def test_openmetrics_only_if_nothing_else_is_accepted(
    world: World, accept: str, is_open: bool
) -> None:
    answer = send_request(world.url, "/metrics", headers={"Accept": accept})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text") == is_open
    assert answer.text.endswith("# EOF\n") == is_open


def test_explanations_are_by_pod(world: World) -> None:
    known = send_request(world.url, "/debug/explain?pod=a/b")
    assert known.json == {"pod": "a/b"}
    assert known.headers["Content-Type"] == "application/json"
    unknown = send_request(world.url, "/debug/explain?pod=a/nope")
    assert unknown.code == 404
    assert unknown.text.startswith('pod "a/nope" is not known to this scheduler')
    for query in ("", "?pod=", "?pod=b", "?pod=a/", "?pod=a/b/c"):
        answer = send_request(world.url, f"/debug/explain{query}")
        assert answer.code == 400
        assert "/debug/explain?pod=<namespace>/<name>" in answer.text


def test_verbosity_is_set_for_the_log(world: World) -> None:
    assert send_request(world.url, "/debug/flags/v", method="PUT", body=b"4").code == 200
    assert world.log.verbosity == 4
    assert send_request(world.url, "/debug/flags/v", method="PUT", body=b"x").code == 400
    assert world.log.verbosity == 4


def test_profile_pages_list_the_replacements_of_gos_profiles(world: World) -> None:
    index = send_request(world.url, "/debug/pprof/").text
    assert "no Go profiler" in index
    stacks = send_request(world.url, "/debug/pprof/goroutine?debug=1").text
    assert "threads: total " in stacks
    assert "[ops-server]" in stacks
    assert "tasks: total " in stacks
    assert "all_stacks" in stacks


def test_a_profile_counts_stacks(world: World) -> None:
    ended = threading.Event()
    busy = threading.Thread(target=spin, args=(ended,), name="busy")
    busy.start()
    try:
        answer = send_request(world.url, "/debug/pprof/profile?seconds=1")
    finally:
        ended.set()
        busy.join()
    counts = {
        line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in answer.text.splitlines()
    }
    spinning = [count for stack, count in counts.items() if ":spin" in stack]
    assert sum(spinning) > 10


def spin(ended: threading.Event) -> None:
    while not ended.is_set():
        sum(range(1000))


def test_a_second_profile_at_once_is_rejected(world: World) -> None:
    answers: list[Response] = []
    first = threading.Thread(
        target=lambda: answers.append(send_request(world.url, "/debug/pprof/profile?seconds=1"))
    )
    first.start()
    rejected = send_request(world.url, "/debug/pprof/profile?seconds=1")
    first.join()
    both = sorted([rejected.code, answers[0].code])
    assert both == [200, 500]
    late = rejected if rejected.code == 500 else answers[0]
    assert late.text == "Could not enable CPU profiling: cpu profiling already in use\n"


def test_without_profiling_there_is_no_debug_page() -> None:
    with ops_world(None, settings=replace(OPEN, enable_profiling=False)) as running:
        for path in ("/debug/pprof/", "/debug/flags/v", "/debug/pprof"):
            assert send_request(running.url, path).text == "404 page not found\n"
        assert send_request(running.url, "/debug/explain?pod=a/b").code == 200


def test_optional_pages() -> None:
    with ops_world(None, settings=OPEN, flagz=None, has_statusz=False) as running:
        assert send_request(running.url, "/flagz").code == 404
        assert send_request(running.url, "/statusz").code == 404


def test_a_standby_shows_no_resource_metrics() -> None:
    with ops_world(None, settings=OPEN, resource_metrics=lambda: None) as running:
        answer = send_request(running.url, "/metrics/resources")
        assert (answer.code, answer.body) == (200, b"")
        assert "Content-Type" not in answer.headers


def test_resource_metrics_may_come_in_parts() -> None:
    with ops_world(None, settings=OPEN, resource_metrics=lambda: iter(["a 1\n", "b 2\n"])) as run:
        assert send_request(run.url, "/metrics/resources").text == "a 1\nb 2\n"


def test_a_page_that_fails_does_not_end_the_server() -> None:
    def fails() -> dict[str, object]:
        raise RuntimeError("no configuration")

    with ops_world(None, settings=OPEN, configz=fails) as running:
        answer = send_request(running.url, "/configz")
        assert answer.code == 500
        assert answer.text == (
            "This request caused apiserver to panic. Look in the logs for details.\n"
        )
        assert send_request(running.url, "/healthz").text == "ok"


def test_configz_keeps_the_order_of_fields(world: World) -> None:
    answer = send_request(world.url, "/configz")
    assert answer.text == (
        '{"componentconfig":{"kind":"KubeSchedulerConfiguration","parallelism":16}}'
    )
    assert answer.headers["Content-Type"] == "application/json"


def test_flagz_shows_every_flag(world: World) -> None:
    text = send_request(world.url, "/flagz").text
    assert text.splitlines()[3:] == ["bind-address: 0.0.0.0", "leader-elect: true", "v: 2"]
    accept = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"
    flags = json.loads(send_request(world.url, "/flagz", headers={"Accept": accept}).body)["flags"]
    assert flags == {"bind-address": "0.0.0.0", "leader-elect": "true", "v": "2"}


def test_stopping_finishes_active_requests_and_closes_the_port() -> None:
    with ops_world(None, settings=OPEN) as running:
        answers: list[Response] = []
        caller = threading.Thread(
            target=lambda: answers.append(
                send_request(running.url, "/debug/pprof/profile?seconds=30")
            )
        )
        caller.start()
        while "sampled_stacks" not in send_request(running.url, "/debug/pprof/goroutine").text:
            pass
        with connected(running.url) as idle:
            idle.request("GET", "/healthz")
            assert idle.getresponse().read() == b"ok"
            running.run(running.server.stop())
        caller.join(10)
        assert [answer.code for answer in answers] == [200]
        with pytest.raises(OSError, match="refused"):
            send_request(running.url, "/healthz")
