"""Explanations of pods in a running cluster: asked of its scheduler, or worked out from the API.

Owns both ways. A running kubesched tells what it decided, and where the pod is now; where there is
none to be asked, all that scheduling reads is listed and the pod is tried once, as from files.
Never writes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from kubesched.app.explain import Subject, choose_pod
from kubesched.client.auth import ClusterAccess, FixedCredential, TlsSettings
from kubesched.client.errors import ApiError, ForbiddenError, NotFoundError, TransportError
from kubesched.client.list_body import ListPage
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client, Query
from kubesched.engine.explained import Explanation, Hold
from kubesched.framework.profile import Profile
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import KINDS, KubeObject, decode_as
from kubesched.objects.errors import MalformedObject
from kubesched.objects.pod import Pod
from kubesched.scheduler.story import SaidEvent, State, Story, foreign_text

ANSWER_S_MAX: Final = 15.0
_PAGE_ITEMS: Final = 500
# Terminal pods take nothing, and the scheduler does not see them.
_POD_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
_NEEDED: Final = (PODS, NODES)
_PAGES: Final = msgspec.json.Decoder(ListPage)
_STORIES: Final = msgspec.json.Decoder(Story)
_WORKED_OUT: Final = "no running scheduler was asked, this is worked out from the API server"


class LiveError(Exception):
    """A cluster that does not tell what is needed, in one line."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a running scheduler serves its pages, and how it is asked."""

    url: str
    token: str = field(default="", repr=False)
    authority_file: str = ""
    is_insecure: bool = False

    def access(self, cluster: ClusterAccess | None) -> ClusterAccess:
        """Return how it is reached, with the credentials for the cluster if there are no others.

        These are not shown to a server whose certificate is not looked at.
        """
        tls = TlsSettings(authority_file=self.authority_file, is_insecure=self.is_insecure)
        url = self.url.rstrip("/")
        if self.token:
            return ClusterAccess(url, FixedCredential(f"Bearer {self.token}"), tls)
        if cluster is None or self.is_insecure:
            return ClusterAccess(url, tls=tls)
        own = replace(
            cluster.tls, authority_file=self.authority_file, authority_data=b"", server_name=""
        )
        return ClusterAccess(url, cluster.credentials, replace(own, is_insecure=False))


async def ask_scheduler(access: ClusterAccess, key: str) -> Story:
    """Return what a running scheduler knows of a pod.

    Raises:
        LiveError: It does not answer, has no such page, or does not know the pod.
    """
    client = _client(access)
    where = f"{access.server}/debug/explain"
    try:
        answer = await client.request(
            "GET", "/debug/explain", query={"pod": key}, timeout_s=ANSWER_S_MAX
        )
        return _STORIES.decode(answer)
    except NotFoundError:
        raise LiveError(f"{where} is not there, or does not know the pod {key}") from None
    except ApiError as problem:
        raise LiveError(f"{where}: {problem.message or problem.reason}") from None
    except TransportError as problem:
        raise LiveError(str(problem)) from None
    except msgspec.MsgspecError as problem:
        raise LiveError(f"{where}: the answer is not understood: {problem}") from None
    finally:
        await client.close()


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A pod and what is around it, as the API server shows them."""

    pod: Pod
    objects: list[KubeObject]
    notes: list[str]

    def subject(self) -> Subject:
        """Return the pod as something to explain; ExplainError if it has ended."""
        subject = choose_pod(self.objects, self.pod.key)
        return replace(subject, notes=(*self.notes, *subject.notes))


async def read_cluster(
    access: ClusterAccess, key: str, resources: Iterable[Resource]
) -> LiveCluster:
    """List all that scheduling reads.

    Args:
        access: how the API server is reached.
        key: the pod, as `namespace/name`.
        resources: the kinds that the profiles read.

    Raises:
        LiveError: There is no such pod, or pods and nodes cannot be listed.
    """
    client = _client(access)
    namespace, _, name = key.partition("/")
    objects: list[KubeObject] = []
    notes: list[str] = []
    try:
        pod = await client.get_pod(namespace, name)
        # Nodes first, as files have them: a pod on a node that is not known yet would name it.
        for resource in sorted(resources, key=lambda one: one != NODES):
            kind = KINDS.get((resource.api_version, resource.kind))
            if kind is not None:
                objects += await _listed(client, resource, kind, notes)
    except NotFoundError as problem:
        raise LiveError(f"{problem.message} in namespace {namespace}") from None
    except ApiError as problem:
        raise LiveError(problem.message) from None
    except TransportError as problem:
        raise LiveError(str(problem)) from None
    except MalformedObject as problem:
        raise LiveError(f"pod {key}: {problem}") from None
    finally:
        await client.close()
    others = [one for one in objects if not (isinstance(one, Pod) and one.key == key)]
    return LiveCluster(pod, [*others, pod], notes)


async def _listed(
    client: Client, resource: Resource, kind: type[Any], notes: list[str]
) -> list[KubeObject]:
    """Return all objects of a kind; none if it is not served or not to be seen by us."""
    found: list[KubeObject] = []
    query: dict[str, str | int | bool] = {"limit": _PAGE_ITEMS}
    if resource == PODS:
        query["fieldSelector"] = _POD_SELECTOR
    while True:
        try:
            page = await _page(client, resource, query)
        except NotFoundError:
            return found
        except ForbiddenError as problem:
            if resource in _NEEDED:
                raise
            notes.append(f"taken to be none, since they may not be listed: {problem.message}")
            return found
        for item in page.items or ():
            try:
                found.append(decode_as(kind, item))
            except MalformedObject as problem:
                notes.append(f"left out: {problem}")
        if not page.metadata.continue_token:
            return found
        query["continue"] = page.metadata.continue_token


async def _page(client: Client, resource: Resource, query: Query) -> ListPage:
    answer = await client.get(resource, query=query)
    try:
        return _PAGES.decode(answer)
    except msgspec.MsgspecError as problem:
        raise LiveError(f"{resource.plural}: the list is not understood: {problem}") from None


def _client(access: ClusterAccess) -> Client:
    return Client(
        access,
        qps=-1,
        burst=0,
        user_agent="kubesched/explain",
        clock=SystemClock(),
        log=NullLog(),
    )


# -- a story of what the API server shows ---------------------------------------------------------


def story_of(pod: Pod, info: PodInfo, profiles: Mapping[str, Profile]) -> Story:
    """Return where a pod is, as far as its object tells."""
    profile = profiles.get(info.scheduler_name)
    held = None if profile is None else profile.run_pre_enqueue_plugins(info)
    state: State = "pending"
    text = f"{pod.key} has no node yet; {_WORKED_OUT}"
    holds: tuple[Hold, ...] = ()
    if pod.spec.node_name:
        state, text = "bound", f"{pod.key} is bound to {pod.spec.node_name}; {_WORKED_OUT}"
    elif profile is None:
        state, text = "foreign", foreign_text(info, profiles)
    elif pod.metadata.deletion_timestamp:
        state = "deleting"
        text = f"{pod.key} is being deleted; the scheduler passes over it"
    elif held is not None:
        state, holds = "gated", (Hold(plugin=held.plugin, message=held.message),)
        text = f"{pod.key} is not tried while {held.plugin} keeps it: {held.message}"
    return Story(
        source="api",
        pod=pod.key,
        uid=pod.metadata.uid,
        scheduler_name=info.scheduler_name,
        profiles=tuple(profiles),
        state=state,
        text=text,
        node=pod.spec.node_name,
        nominated_node=pod.status.nominated_node_name,
        holds=holds,
        last_event=_condition(pod),
    )


def with_explanation(story: Story, explanation: Explanation) -> Story:
    """Return the story with what was worked out."""
    return msgspec.structs.replace(story, explanation=explanation)


def _condition(pod: Pod) -> SaidEvent | None:
    """Return what the scheduler that tried the pod last wrote into its status."""
    for one in pod.status.conditions or ():
        if one.type == "PodScheduled" and one.status == "False":
            return SaidEvent(
                type="Warning",
                reason=one.reason,
                message=one.message,
                time=one.last_transition_time or "",
            )
    return None
