"""`kubesched run` on an API server that lacks kinds, and on one that is restarted.

Always on the embedded server: kinds can be removed from it, and it is a process of
its own that is killed. The real one is killed under a burst by conformance/faults.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.testing import ApiServer, embedded_server
from tests.integration.live_processes import Place, start
from tests.integration.test_server_process import running

# Kinds that an older server, or one with APIs disabled, does not serve.
LACKING = (
    ("storage.k8s.io", "v1", "csistoragecapacities"),
    ("storage.k8s.io", "v1", "volumeattachments"),
    ("apps", "v1", "statefulsets"),
)


@pytest.mark.slow
def test_kinds_that_are_not_served_are_skipped(tmp_path: Path) -> None:
    with embedded_server() as server, server.api() as api, ProcessGroup(tmp_path) as group:
        assert server.embedded is not None
        for kind in LACKING:
            server.embedded.context.registry.remove(*kind)
        with Place(api) as place:
            place.node()
            place.pod("pod")
            scheduler = start(server, group)
            scheduler.until(lambda: bool(place.node_of("pod")), "the pod is bound")
        assert scheduler.page("/readyz") == (200, "ok")
        skipped = scheduler.lines("Skipping a resource that the API server does not serve")
        assert len(skipped) == len(LACKING)
        for _, _, plural in LACKING:
            assert any(f'resource="{plural}"' in line for line in skipped)


@pytest.mark.slow
@pytest.mark.timeout(180)  # Retries back off, up to half a minute.
def test_a_killed_and_restarted_server(tmp_path: Path) -> None:
    options = ("--port", str(free_ports(1)[0]), "--data", str(tmp_path / "data.db"))
    with ProcessGroup(tmp_path) as group:
        with running(tmp_path, *options) as (process, api), api:
            server = ApiServer(api.url, tmp_path)
            place = Place(api).__enter__()  # Not exited: its server is gone by then.
            place.node()
            for name in ("early", "doomed"):
                place.pod(name)
            # A copy: the server rewrites its file after a restart.
            kubeconfig = tmp_path / "scheduler.kubeconfig"
            kubeconfig.write_bytes((tmp_path / "kubeconfig").read_bytes())
            scheduler = start(server, group, "-v=2", kubeconfig=kubeconfig)
            for name in ("early", "doomed"):
                scheduler.until(lambda name=name: bool(place.node_of(name)), f"{name} is bound")  # type: ignore[misc]  # bound at once
            place.pod("waiting", nodeSelector={"disk": "fast"})
            scheduler.until(lambda: place.rejected("waiting"), "waiting is rejected")
            process.kill()
            process.wait()
            # The server is down. The scheduler stays alive.
            scheduler.until(
                lambda: scheduler.metric("rest_client_requests_total", code="<error>") >= 3,
                "its requests fail",
            )
            assert scheduler.page("/healthz") == (200, "ok")
        with running(tmp_path, *options) as (_, api), api:
            place.api = api
            place.delete("doomed")
            place.pod("late")
            place.node("fast", labels={"disk": "fast"})
            scheduler.until(lambda: bool(place.node_of("late")), "late is bound", timeout_s=60)
            scheduler.until(lambda: bool(place.node_of("waiting")), "waiting", timeout_s=60)
        assert "Traceback" not in scheduler.log
        assert scheduler.lines("Failed to apply a change") == []
