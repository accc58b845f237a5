"""Several `kubesched run` and one lease: who leads, who follows, and how each of them ends.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesched.testing import Api, ApiServer
from kubesched.testing.processes import ProcessGroup
from tests.integration.live_processes import Document, Place, start

PLUGIN = f"{Path(__file__).parent / 'moody_plugin.py'}:Hanging"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
TIMES = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "300ms"}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[ProcessGroup]:
    with ProcessGroup(tmp_path) as made:
        yield made


@pytest.fixture
def place(api: Api) -> Iterator[Place]:
    with Place(api) as made:
        made.node(cpu="100")
        yield made


def leads(lease: str) -> dict[str, Any]:
    return {**TIMES, "resourceName": lease}


def lease_of(api: Api, lease: str) -> Document:
    spec: Document = api.get(f"{LEASES}/{lease}").must(200).json["spec"]
    return spec


def steals(api: Api, lease: str) -> bool:
    """Return whether the lease is a thief's now; its holder may have written in between."""
    stolen = api.get(f"{LEASES}/{lease}").must(200).json
    stolen["spec"] |= {"holderIdentity": "thief", "leaseDurationSeconds": 60}
    return api.put(f"{LEASES}/{lease}", stolen).must(200, 409).code == 200


@pytest.mark.slow
def test_one_leads_the_other_takes_over_and_a_thief_ends_it(
    api_server: ApiServer, api: Api, place: Place, group: ProcessGroup
) -> None:
    lease = "live-lease"
    first = start(api_server, group, "-v=2", label="first", leads=leads(lease))
    first.until_said("Successfully acquired lease")
    holder = lease_of(api, lease)["holderIdentity"]
    # The follower logs at level 0, readers of the cluster excepted.
    second = start(
        api_server,
        group,
        "--vmodule=reflector=3",
        label="second",
        leads=leads(lease),
        delayCacheUntilActive=True,
    )
    third = start(api_server, group, label="third", port=first.port, leads=leads(lease))

    # A port that somebody has.
    assert third.ended() == 1
    group.stop("third")
    (said,) = third.lines("command failed")
    address = f"127.0.0.1:{first.port}"
    assert f"failed to listen on {address}: listen tcp {address}: bind: address already" in said
    assert "Traceback" not in third.log

    # A lease that somebody has.
    second.until_said("Lease is held by and has not yet expired")
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
    first.tell(signal.SIGKILL)
    assert first.ended() == -signal.SIGKILL
    group.stop("first")
    place.pod("by-second")
    second.until(lambda: bool(place.node_of("by-second")), "by-second is bound")
    second.until_said("Starting reflector")
    held = lease_of(api, lease)
    assert held["holderIdentity"] not in ("", holder)
    assert held["leaseTransitions"] == 1
    second.until(lambda: second.page("/readyz")[0] == 200, "it is ready")

    # Somebody takes the lease from the leader.
    second.until(lambda: steals(api, lease), "the lease is stolen")
    assert second.ended() == 1
    group.stop("second")
    assert len(second.lines("Leaderelection lost")) == 1
    assert lease_of(api, lease)["holderIdentity"] == "thief", "it is not released by who lost it"


@pytest.mark.slow
def test_a_leader_that_is_asked_to_end_ends_in_order(
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
        next(one for one in changes if one["object"]["spec"].get("nodeName"))
    leader.tell(signal.SIGTERM)
    assert leader.ended() == 0
    group.stop("leader")
    placed = {
        one["metadata"]["name"]
        for one in api.get(place.pods).must(200).json["items"]
        if one["spec"].get("nodeName")
    }
    assert 0 < len(placed) < pod_count
    said = leader.lines("Successfully bound pod to node")
    told = {re.search(rf'pod="{place.name}/(\w+)"', line).group(1) for line in said}  # type: ignore[union-attr]  # every line has a pod
    assert told == placed, "every binding under way came to its end, and was told"
    events = api.get(f"/apis/events.k8s.io/v1/namespaces/{place.name}/events").json["items"]
    assert {one["regarding"]["name"] for one in events} == placed
    held = lease_of(api, lease)
    assert (held["holderIdentity"], held["leaseDurationSeconds"]) == ("", 1)
    assert len(leader.lines("Requested to terminate, exiting")) == 1
    assert "Traceback" not in leader.log
    for word in ("Error scheduling pod; retrying", "Failed to bind pod"):
        assert leader.lines(word) == []


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(
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
    stuck.until_said("Binding for ever")
    stuck.tell(signal.SIGTERM)
    stuck.until(lambda: "[-]shutdown" in stuck.page("/readyz")[1], "it ends")
    stuck.tell(signal.SIGTERM)
    assert stuck.ended() == 1
    group.stop("stuck")
    assert lease_of(api, lease)["holderIdentity"] != "", "nothing is tidied up then"


@pytest.mark.slow
def test_without_a_lease_the_end_is_an_error(
    api_server: ApiServer, place: Place, group: ProcessGroup
) -> None:
    alone = start(api_server, group, label="alone")
    place.pod("pod")
    alone.until(lambda: bool(place.node_of("pod")), "the pod is bound")
    alone.tell(signal.SIGTERM)
    assert alone.ended() == 1
    group.stop("alone")
    assert alone.lines("command failed") == ['"command failed" err="finished without leader elect"']
