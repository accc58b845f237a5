"""Wiring of the HTTP server of `kubesched run`: health, metrics, configuration, explain pages.

Owns the data source of each page. `ops` renders and serves them.
Upstream: cmd/kube-scheduler/app/server.go Run (checks), newEndpointsHandler
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kubesched.client.read_only import ReadOnlyClient
from kubesched.client.rest import Client
from kubesched.config.encode import effective
from kubesched.metrics.pod_resources import resource_metrics
from kubesched.metrics.process import SliMetrics
from kubesched.metrics.serving import ServingMetrics
from kubesched.ops.sources import OpsSources, StatuszInfo
from kubesched.run.live_scheduler import all_pods

if TYPE_CHECKING:
    from kubesched.cli.run.process import Process
    from kubesched.ops.server import OpsServer

_NOT_SYNCED: Final = "handlers are not fully synchronized"


async def start_pages(process: Process) -> OpsServer | None:
    """Start the server; None if serving is disabled, ServingError if it fails."""
    options = process.options
    if options.serving.port == 0:
        return None
    # In a thread: the import takes a tenth of a second while the cluster is being listed.
    make = await asyncio.to_thread(_ops_server)
    settings = replace(options.serving, enable_profiling=options.config.enable_profiling)
    server = make(settings, _sources(process))
    await server.start()
    return server


def _ops_server() -> type[OpsServer]:
    """Import the server late: watching starts without it."""
    from kubesched.ops.server import OpsServer  # noqa: PLC0415

    return OpsServer


def _sources(process: Process) -> OpsSources:
    live, options, gates = process.live, process.options, process.options.feature_gates
    emulation = str(gates.versions.emulation)
    elects = options.config.leader_election.leader_elect
    # Parity: upstream's check of leader election is never connected, and always passes.
    election = {"leaderElection": _passes} if elects else {}
    return OpsSources(
        log=process.log,
        clock=process.clock,
        metrics=process.metrics,
        slis=SliMetrics(),
        configz=lambda: effective(live.built.config),
        statusz=StatuszInfo(
            process.started_s,
            emulation_version=emulation,
            notes=lambda: {} if process.reloader is None else process.reloader.notes(),
        ),
        healthz=election,
        readyz={
            **election,
            "shutdown": lambda: "process is shutting down" if process.stopping.is_set() else None,
            "sched-handler-sync": lambda: (
                process.rights.problem() if live.has_synced else _NOT_SYNCED
            ),
        },
        resource_metrics=lambda: resource_metrics(all_pods(live)) if process.is_leading else None,
        flagz=(lambda: options.flags) if gates.is_enabled("ComponentFlagz") else None,
        has_statusz=gates.is_enabled("ComponentStatusz"),
        explain=live.explain,
        authentication_client=_review_client(process, options.serving.authentication.kubeconfig),
        authorization_client=_review_client(process, options.serving.authorization.kubeconfig),
        serving_metrics=ServingMetrics(process.metrics.measures),
    )


def _passes() -> None:
    return None


def _review_client(process: Process, kubeconfig: str) -> Client | None:
    """Return the client for token and access reviews; None if there is no API server for them."""
    # Parity: apiserver options/authentication.go getClient, v1.36: the kubeconfig of the flag,
    # or that of the cluster we are in; never the one that schedules.
    if not kubeconfig and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    make = partial(ReadOnlyClient, sends_reviews=True) if process.options.shadow else Client
    return make(
        process.access(kubeconfig),
        qps=-1,
        burst=0,
        user_agent="kubesched",
        clock=process.clock,
        log=process.log,
        metrics=process.measured,
    )
