"""`kubesched explain --live`: a pod of a running cluster.

Owns where the cluster and its scheduler are looked for, in which order they are asked, and how a
story looks. What they say is `app.explain_live`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click

from kubesched.app.explain_live import (
    Endpoint,
    LiveCluster,
    LiveError,
    ask_scheduler,
    read_cluster,
)
from kubesched.app.watched import watched_resources
from kubesched.cli.render import Sheet, show_explanation
from kubesched.client.auth import AccessError, ClusterAccess
from kubesched.client.kubeconfig import load_access
from kubesched.framework.profile import Profile
from kubesched.objects.errors import one_line
from kubesched.scheduler.story import Story
from kubesched.sim.scenario import WORKLOAD_WORDS

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Source:
    """A running cluster, as the command line names it."""

    pod: str
    """`name` or `namespace/name`."""
    kubeconfig: str = ""
    context: str = ""
    endpoint: str = ""
    token: str = ""
    token_file: str = ""
    authority_file: str = ""
    is_insecure: bool = False

    @cached_property
    def access(self) -> ClusterAccess:
        """Return how the API server is reached."""
        try:
            return load_access(kubeconfig=self.kubeconfig, context=self.context, reads_home=True)
        except AccessError as problem:
            raise click.ClickException(one_line(str(problem))) from None

    @cached_property
    def key(self) -> str:
        """Return `namespace/name`, the namespace being the context's if none was given."""
        namespace, slash, name = self.pod.rpartition("/")
        if slash and (not namespace or "/" in namespace or not name):
            raise click.UsageError(f"{self.pod!r} is not NAME or NAMESPACE/NAME{self._hint}")
        return f"{namespace or self.access.namespace or 'default'}/{name}"

    @property
    def _hint(self) -> str:
        """Return what to try if a workload was named."""
        if self.pod.partition("/")[0].lower() not in WORKLOAD_WORDS:
            return ""
        return "; with --live name a pod, with -f the next pod of a workload is explained too"

    def story(self, note: Callable[[str], None]) -> Story | None:
        """Return what the scheduler at the endpoint says; None, with a note, if it does not."""
        key = self.key
        if not self.endpoint:
            note("no --endpoint was given: no running scheduler is asked")
            return None
        if not self.endpoint.startswith(("https://", "http://")):
            raise click.UsageError(f"--endpoint {self.endpoint}: not an address like https://...")
        try:
            endpoint = Endpoint(self.endpoint, self._token(), self.authority_file, self.is_insecure)
            return _run(ask_scheduler(endpoint.access(self._access_or_none()), key))
        except (LiveError, AccessError) as problem:
            note(f"worked out from the API server, since the scheduler does not tell: {problem}")
            return None

    def cluster(self, profiles: Iterable[Profile]) -> LiveCluster:
        """Return what the API server shows of all that the profiles read."""
        try:
            return _run(read_cluster(self.access, self.key, watched_resources(profiles)))
        except (LiveError, AccessError) as problem:
            raise click.ClickException(one_line(f"{problem}{self._hint}")) from None

    def _token(self) -> str:
        if not self.token_file:
            return self.token
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise click.ClickException(f"{self.token_file}: {reason}") from None

    def _access_or_none(self) -> ClusterAccess | None:
        """Return the cluster's access if it can matter to who asks the scheduler."""
        if self.token or self.token_file or self.is_insecure:
            return None
        return self.access


def _run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    return asyncio.run(work)


def show_story(story: Story, sheet: Sheet) -> None:
    """Print where a pod is, then the explanation of the last decision."""
    sheet.sentence(f"{story.text}.")
    for line in _lines(story):
        sheet.prose(line)
    if story.explanation is not None:
        when = f"Decision of {story.decided_at}:" if story.decided_at else "Decision:"
        sheet.heading(when)
        show_explanation(story.explanation, sheet)


def _lines(story: Story) -> Iterable[str]:
    if story.attempts:
        yield f"Attempts: {story.attempts}"
    if story.nominated_node:
        yield f"Nominated to: {one_line(story.nominated_node)}"
    if story.victims_left:
        yield f"Still to leave: {', '.join(map(one_line, story.victims_left))}"
    for wake in story.wakes:
        yield f"May help, says {one_line(wake.plugin)}: {', '.join(wake.events) or 'nothing'}"
    said, told = story.last_event, story.explanation
    if said is not None and (told is None or said.message != told.event.message):
        yield f"Last said ({said.time}): {one_line(said.reason)}: {one_line(said.message)}"
