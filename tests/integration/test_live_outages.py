"""`kubesched run` on an API server that lacks kinds, goes away, and comes back as another."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.testing import embedded_server
from kubesched.testing.ports import free_ports
from kubesched.testing.processes import ProcessGroup
from tests.integration.live_processes import Place, start

# What an older server, or one with less than everything, does not serve.
LACKING = (
    ("storage.k8s.io", "v1", "csistoragecapacities"),
    ("storage.k8s.io", "v1", "volumeattachments"),
    ("apps", "v1", "statefulsets"),
)


@pytest.mark.slow
def test_kinds_that_are_not_served_are_skipped_and_an_outage_is_sat_out(tmp_path: Path) -> None:
    at = {"port": free_ports(1)[0], "data": tmp_path / "data.db", "directory": tmp_path / "server"}
    with ProcessGroup(tmp_path) as group:
        with embedded_server(**at) as server, server.api() as api:  # type: ignore[arg-type]  # by name
            assert server.embedded is not None
            for kind in LACKING:
                server.embedded.context.registry.remove(*kind)
            place = Place(api)
            place.node()
            place.pod("early")
            place.pod("doomed")
            scheduler = start(server, group, "-v=2")
            scheduler.until(lambda: bool(place.node_of("early")), "early is bound")
            scheduler.until(lambda: bool(place.node_of("doomed")), "doomed is bound")
            assert scheduler.page("/readyz") == (200, "ok")
            skipped = scheduler.lines("Skipping a kind that the API server does not serve")
            assert len(skipped) == len(LACKING)
            for _, _, plural in LACKING:
                assert any(f'resource="{plural}"' in line for line in skipped)
            # Pods that nothing helps as long as the server is away.
            place.pod("waiting", nodeSelector={"disk": "fast"})
            scheduler.until(lambda: place.refused("waiting"), "waiting is refused")
        # Nobody listens now. The scheduler stays, and is alive.
        scheduler.until(
            lambda: scheduler.metric("rest_client_requests_total", code="<error>") >= 3,
            "it asks in vain",
        )
        assert scheduler.page("/healthz") == (200, "ok")
        with embedded_server(**at) as server, server.api() as api:  # type: ignore[arg-type]  # by name
            place.api = api
            place.delete("doomed")
            place.pod("late")
            place.node("fast", labels={"disk": "fast"})
            scheduler.until(lambda: bool(place.node_of("late")), "late is bound", timeout_s=45)
            scheduler.until(lambda: bool(place.node_of("waiting")), "waiting is bound")
            group.check()
        assert "Traceback" not in scheduler.log
        assert scheduler.lines("Error applying a change") == []
