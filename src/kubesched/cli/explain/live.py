"""`kubesched explain --live`: explain a pod of a running cluster.

Owns access to the cluster and its scheduler, and the text form of a pod report. The requests are
`cli.explain.live_cluster`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.api.errors import one_line
from kubesched.cli.explain.live_cluster import LiveCluster, LiveError, fetch_report, read_cluster
from kubesched.cli.explain.text import show_explanation
from kubesched.cli.printer import Printer
from kubesched.client.auth.credentials import (
    AccessError,
    ClusterAccess,
    FixedCredential,
    TlsSettings,
)
from kubesched.client.auth.kubeconfig import load_access
from kubesched.explanation.report import PodReport
from kubesched.framework.runtime.profile import Profile
from kubesched.manifests.scenario import WORKLOAD_WORDS
from kubesched.run.watched_kinds import watched_resources

if TYPE_CHECKING:
    from kubesched.cli.explain.command import ExplainOptions


class Source:
    """A running cluster and the pod to explain, from the command line."""

    def __init__(self, options: ExplainOptions) -> None:
        self._options = options
        self._pod = options.pod or ""

    @cached_property
    def access(self) -> ClusterAccess:
        """Return the address and credentials of the API server."""
        options = self._options
        try:
            return load_access(
                kubeconfig=options.kubeconfig, context=options.context, reads_home=True
            )
        except AccessError as problem:
            raise click.ClickException(one_line(str(problem))) from None

    @cached_property
    def key(self) -> str:
        """Return `namespace/name`; the default namespace is the context's."""
        namespace, slash, name = self._pod.rpartition("/")
        if slash and (not namespace or "/" in namespace or not name):
            raise click.UsageError(f"{self._pod!r} is not NAME or NAMESPACE/NAME{self._hint}")
        return f"{namespace or self.access.namespace or 'default'}/{name}"

    @property
    def _hint(self) -> str:
        """Return a hint if the argument names a workload."""
        if self._pod.partition("/")[0].lower() not in WORKLOAD_WORDS:
            return ""
        return "; --live explains pods only, -f also explains the next pod of a workload"

    def report(self, note: Callable[[str], None]) -> PodReport | None:
        """Return the report of the scheduler at the endpoint; None, with a note, on failure."""
        key, options = self.key, self._options
        if not options.endpoint:
            note("no running scheduler is queried: --endpoint is not set")
            return None
        if not options.endpoint.startswith(("https://", "http://")):
            raise click.UsageError(
                f"--endpoint {options.endpoint}: expected a URL like https://..."
            )
        try:
            return asyncio.run(fetch_report(self._endpoint_access(), key))
        except (LiveError, AccessError) as problem:
            note(f"computed from the API server, because the scheduler has no report: {problem}")
            return None

    def cluster(self, profiles: Iterable[Profile]) -> LiveCluster:
        """Return the objects of the API server that the profiles read."""
        try:
            return asyncio.run(read_cluster(self.access, self.key, watched_resources(profiles)))
        except (LiveError, AccessError) as problem:
            raise click.ClickException(one_line(f"{problem}{self._hint}")) from None

    def _token(self) -> str:
        file = self._options.token_file
        if not file:
            return self._options.token
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise click.ClickException(f"{file}: {reason}") from None

    def _endpoint_access(self) -> ClusterAccess:
        """Return access to the scheduler; the cluster's credentials are the fallback for the token.

        A server whose certificate is not verified never receives the cluster's credentials.
        """
        options, token, url = self._options, self._token(), self._options.endpoint.rstrip("/")
        authority, is_insecure = options.certificate_authority, options.insecure_skip_tls_verify
        if token or options.token_file or is_insecure:
            credentials = FixedCredential(f"Bearer {token}" if token else "")
            tls = TlsSettings(authority_file=authority, is_insecure=is_insecure)
            return ClusterAccess(url, credentials, tls)
        cluster = replace(self.access.tls, authority_data=b"", server_name="", is_insecure=False)
        tls = replace(cluster, authority_file=authority)
        return ClusterAccess(url, self.access.credentials, tls)


def show_pod_report(report: PodReport, printer: Printer) -> None:
    """Print the state of a pod, then the explanation of the last decision."""
    printer.sentence(f"{report.text}.")
    for line in _lines(report):
        printer.prose(line)
    if report.explanation is not None:
        printer.heading(f"Decision at {report.decided_at}:" if report.decided_at else "Decision:")
        show_explanation(report.explanation, printer)


def _lines(report: PodReport) -> Iterable[str]:
    if report.attempts:
        yield f"Attempts: {report.attempts}"
    if report.nominated_node:
        yield f"Nominated to: {one_line(report.nominated_node)}"
    if report.victims_left:
        yield f"Victims still terminating: {', '.join(map(one_line, report.victims_left))}"
    for wake in report.wakes:
        yield f"Events that requeue it for {one_line(wake.plugin)}: {', '.join(wake.events) or '-'}"
    event, explanation = report.last_event, report.explanation
    if event is not None and (explanation is None or event.message != explanation.event.message):
        yield f"Last event ({event.time}): {one_line(event.reason)}: {one_line(event.message)}"
