"""What `kubesched run` serves, from options and the scheduler that runs.

Owns which part of the process each page shows. What pages look like is `web`'s.
Upstream: cmd/kube-scheduler/app/server.go Run (checks), newEndpointsHandler
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kubesched.app.live import LiveScheduler, all_pods
from kubesched.app.option_values import Options
from kubesched.client.auth import ClusterAccess
from kubesched.client.read_only import ReadOnlyClient
from kubesched.client.rest import Client
from kubesched.config.encode import effective
from kubesched.kit.log import Log
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_resource_metrics import resource_metrics
from kubesched.model.process_metrics import ProcessMetrics, SliMetrics
from kubesched.model.serving_metrics import ServingMetrics
from kubesched.web.parts import OpsParts, StatuszInfo
from kubesched.web.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    ServingSettings,
    SniCertificate,
)

if TYPE_CHECKING:
    from kubesched.kit.clock import Clock
    from kubesched.web.ops_server import OpsServer

_NOT_SYNCED: Final = "handlers are not fully synchronized"


@dataclass(frozen=True, slots=True)
class Shown:
    """What of the process pages show."""

    options: Options
    live: LiveScheduler
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    measured: ProcessMetrics
    started_s: float
    access: Callable[[str], ClusterAccess]
    """The way to the API server of a kubeconfig."""
    missing_right: Callable[[], str | None]
    is_stopping: Callable[[], bool]
    is_leading: Callable[[], bool]
    notes: Callable[[], Mapping[str, str]]
    """What /statusz says beside."""


async def start_pages(shown: Shown) -> OpsServer | None:
    """Serve; None if nothing is to be served, ServingError if it cannot be."""
    if shown.options.serving.secure_port == 0:
        return None
    # In a thread: it takes a tenth of a second, and the cluster is being read meanwhile.
    make = await asyncio.to_thread(_ops_server)
    server = make(_serving_settings(shown.options), _parts(shown))
    await server.start()
    return server


def _ops_server() -> type[OpsServer]:
    """Import what serves; nothing of it is needed to begin to watch."""
    from kubesched.web.ops_server import OpsServer  # noqa: PLC0415

    return OpsServer


def _parts(shown: Shown) -> OpsParts:
    live, options = shown.live, shown.options
    elects = options.config.leader_election.leader_elect
    # Parity: upstream's check of leader election is never connected, and always passes.
    election = {"leaderElection": _passes} if elects else {}
    return OpsParts(
        log=shown.log,
        clock=shown.clock,
        metrics=shown.metrics,
        slis=SliMetrics(),
        configz=lambda: effective(live.built.config),
        statusz=StatuszInfo(shown.started_s, notes=shown.notes),
        healthz=election,
        readyz={
            **election,
            "shutdown": lambda: "process is shutting down" if shown.is_stopping() else None,
            "sched-handler-sync": lambda: shown.missing_right() if live.has_synced else _NOT_SYNCED,
        },
        resource_metrics=lambda: resource_metrics(all_pods(live)) if shown.is_leading() else None,
        flagz=lambda: options.flags,
        explain=live.explain,
        authentication_client=_review_client(shown, options.authentication.kubeconfig),
        authorization_client=_review_client(shown, options.authorization.kubeconfig),
        serving_metrics=ServingMetrics(shown.metrics.measures),
    )


def _passes() -> None:
    return None


def _review_client(shown: Shown, kubeconfig: str) -> Client | None:
    """Return who asks about callers of our pages; nobody where there is no way to ask."""
    # Parity: apiserver options/authentication.go getClient, v1.36: the kubeconfig of the flag,
    # or that of the cluster we are in; never the one that schedules.
    if not kubeconfig and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    make = partial(ReadOnlyClient, asks_reviews=True) if shown.options.shadow else Client
    return make(
        shown.access(kubeconfig),
        qps=-1,
        burst=0,
        user_agent="kubesched",
        clock=shown.clock,
        log=shown.log,
        metrics=shown.measured,
    )


def _serving_settings(options: Options) -> ServingSettings:
    serving, who, may = options.serving, options.authentication, options.authorization
    return ServingSettings(
        bind_address=serving.bind_address,
        port=serving.secure_port,
        cert_dir=serving.cert_dir,
        tls_cert_file=serving.tls_cert_file,
        tls_private_key_file=serving.tls_private_key_file,
        sni_certificates=tuple(
            SniCertificate(one.cert_file, one.key_file, tuple(one.names))
            for one in serving.tls_sni_cert_keys
        ),
        min_tls_version=serving.tls_min_version,
        cipher_suites=serving.tls_cipher_suites,
        curve_preferences=serving.tls_curve_preferences,
        permit_port_sharing=serving.permit_port_sharing,
        permit_address_sharing=serving.permit_address_sharing,
        enable_profiling=bool(options.config.enable_profiling),
        authentication=AuthenticationSettings(
            client_ca_file=who.client_ca_file,
            requestheader_client_ca_file=who.requestheader_client_ca_file,
            requestheader_allowed_names=who.requestheader_allowed_names,
            requestheader_username_headers=who.requestheader_username_headers,
            requestheader_uid_headers=who.requestheader_uid_headers,
            requestheader_group_headers=who.requestheader_group_headers,
            requestheader_extra_headers_prefix=who.requestheader_extra_headers_prefix,
            skip_lookup=who.skip_lookup,
            tolerate_lookup_failure=who.tolerate_lookup_failure,
            token_cache_ttl_s=who.token_cache_ttl_s,
        ),
        authorization=AuthorizationSettings(
            always_allow_paths=may.always_allow_paths,
            allow_cache_ttl_s=may.allow_cache_ttl_s,
            deny_cache_ttl_s=may.deny_cache_ttl_s,
        ),
    )
