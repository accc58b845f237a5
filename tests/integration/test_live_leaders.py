"""Several `kubesched run` with one lease: leading, taking over and shutting down.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.testing import Api, ApiServer
from tests.integration.live_processes import Document, Place, start

PLUGIN = f"{Path(__file__).parent / 'moody_plugin.py'}:Hanging"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
TIMES = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "300ms"}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[ProcessGroup]:
    with ProcessGroup(tmp_path) as created:
        yield created


@pytest.fixture
def place(api: Api) -> Iterator[Place]:
    with Place(api) as created:
        created.node(cpu="100")
        yield created


def leads(lease: str) -> dict[str, Any]:
    return {**TIMES, "resourceName": lease}


def lease_of(api: Api, lease: str) -> Document:
    spec: Document = api.get(f"{LEASES}/{lease}").must(200).json["spec"]
    return spec


def steals(api: Api, lease: str) -> bool:
    """Return whether the lease was stolen; its holder may have renewed it in between."""
    stolen = api.get(f"{LEASES}/{lease}").must(200).json
    stolen["spec"] |= {"holderIdentity": "thief", "leaseDurationSeconds": 60}
    return api.put(f"{LEASES}/{lease}", stolen).must(200, 409).code == 200


@pytest.mark.slow
def test_takeover_after_a_stop_and_after_a_stolen_lease(
    api_server: ApiServer, api: Api, place: Place, group: ProcessGroup
) -> None:
    lease = "live-lease"
    first = start(api_server, group, "-v=2", label="first", leads=leads(lease))
    first.until_logged("Successfully acquired lease")
    holder = lease_of(api, lease)["holderIdentity"]
    # The standby logs at level 0, except for its reflectors.
    second = start(
        api_server,
        group,
        "--vmodule=reflector=3",
        label="second",
        leads=leads(lease),
        delayCacheUntilActive=True,
    )
    third = start(api_server, group, label="third", port=first.port, leads=leads(lease))

    # A port in use.
    assert third.wait() == 1
    group.stop("third")
    (line,) = third.lines("command failed")
    address = f"127.0.0.1:{first.port}"
    assert f"failed to listen on {address}: listen tcp {address}: bind: address already" in line
    assert "Traceback" not in third.log

    # A held lease.
    second.until_logged("Lease is held by and has not yet expired")
    assert second.lines("Lease is held by and has not yet expired") == [
        (f'"Lease is held by and has not yet expired" lock="kube-system/{lease}" holder="{holder}"')
    ]
    place.pod("by-first")
    first.until(lambda: bool(place.node_of("by-first")), "by-first is bound")
    assert first.page("/readyz") == (200, "ok")
    assert second.page("/healthz") == (200, "ok")
    code, text = second.page("/readyz")
    assert code == 500, "it has read nothing yet"
    assert "[-]sched-handler-sync" in text
    assert second.lines("Starting reflector") == []

    # The leader is killed.
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    group.stop("first")
    place.pod("by-second")
    second.until(lambda: bool(place.node_of("by-second")), "by-second is bound")
    second.until_logged("Starting reflector")
    held = lease_of(api, lease)
    assert held["holderIdentity"] not in ("", holder)
    assert held["leaseTransitions"] == 1
    second.until(lambda: second.page("/readyz")[0] == 200, "it is ready")

    # Another holder takes the lease from the leader.
    second.until(lambda: steals(api, lease), "the lease is stolen")
    assert second.wait() == 1
    group.stop("second")
    assert len(second.lines("Leaderelection lost")) == 1
    assert lease_of(api, lease)["holderIdentity"] == "thief", "it is not released by who lost it"


@pytest.mark.slow
def test_a_leader_shuts_down_gracefully(
    api_server: ApiServer, api: Api, place: Place, group: ProcessGroup
) -> None:
    lease, pod_count = "live-burst", 600
    for number in range(6):
        place.node(f"n{number}", cpu="100")
    for number in range(pod_count):
        place.pod(f"p{number}", cpu="1m")
    with api.watch(place.pods, timeout_s=60) as changes:
        leader = start(api_server, group, "-v=2", label="leader", leads=leads(lease))
        # In the middle of it: the first pod is bound.
        next(change for change in changes if change["object"]["spec"].get("nodeName"))
    leader.send_signal(signal.SIGTERM)
    assert leader.wait() == 0
    group.stop("leader")
    placed = {
        one["metadata"]["name"]
        for one in api.get(place.pods).must(200).json["items"]
        if one["spec"].get("nodeName")
    }
    assert 0 < len(placed) < pod_count
    lines = leader.lines("Successfully bound pod to node")
    logged = {re.search(rf'pod="{place.name}/(\w+)"', line).group(1) for line in lines}  # type: ignore[union-attr]  # every line has a pod
    assert logged == placed, "every active binding was finished and logged"
    events = api.get(f"/apis/events.k8s.io/v1/namespaces/{place.name}/events").json["items"]
    assert {event["regarding"]["name"] for event in events} == placed
    held = lease_of(api, lease)
    assert (held["holderIdentity"], held["leaseDurationSeconds"]) == ("", 1)
    assert len(leader.lines("Requested to terminate, exiting")) == 1
    assert "Traceback" not in leader.log
    for message in ("Error scheduling pod; retrying", "Failed to bind pod"):
        assert leader.lines(message) == []


@pytest.mark.slow
def test_a_second_signal_ends_the_process_immediately(
    api_server: ApiServer, api: Api, place: Place, group: ProcessGroup
) -> None:
    lease = "live-hang"
    binders = {"disabled": [{"name": "*"}], "enabled": [{"name": "Hanging"}]}
    stuck = start(
        api_server,
        group,
        f"--plugin={PLUGIN}",
        label="stuck",
        leads=leads(lease),
        profiles=[{"plugins": {"bind": binders}}],
    )
    place.pod("pod")
    stuck.until_logged("Binding for ever")
    stuck.send_signal(signal.SIGTERM)
    stuck.until(lambda: "[-]shutdown" in stuck.page("/readyz")[1], "it ends")
    stuck.send_signal(signal.SIGTERM)
    assert stuck.wait() == 1
    group.stop("stuck")
    assert lease_of(api, lease)["holderIdentity"] != "", "nothing is tidied up then"


@pytest.mark.slow
def test_a_lost_lease_ends_the_process_with_an_error(
    api_server: ApiServer, place: Place, group: ProcessGroup
) -> None:
    alone = start(api_server, group, label="alone")
    place.pod("pod")
    alone.until(lambda: bool(place.node_of("pod")), "the pod is bound")
    alone.send_signal(signal.SIGTERM)
    assert alone.wait() == 1
    group.stop("alone")
    assert alone.lines("command failed") == ['"command failed" err="finished without leader elect"']
