"""Pod reports of a running cluster, from its scheduler or from the API server.

Owns both sources: a running kubesched serves its last decision and the pod's state; without one,
the objects that scheduling reads are listed and one attempt is made on them. Never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kubesched.api.decode import STRUCTS, KubeObject, decode_as
from kubesched.api.errors import MalformedObject
from kubesched.api.pod import Pod
from kubesched.client.auth.credentials import ClusterAccess
from kubesched.client.errors import ApiError, ForbiddenError, NotFoundError, TransportError
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.client.watch.stream import ListPage
from kubesched.explanation.report import (
    Hold,
    PodReport,
    ReportedEvent,
    State,
    foreign_text,
)
from kubesched.framework.runtime.profile import Profile
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.manifests.scenario import Subject, choose_pod
from kubesched.snapshot.pod_info import PodInfo

_TIMEOUT_S: Final = 15.0
_PAGE_ITEMS: Final = 500
# Terminated pods use no resources, and the scheduler does not watch them.
_POD_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
_REQUIRED: Final = (PODS, NODES)
_PAGES: Final = msgspec.json.Decoder(ListPage)
_REPORTS: Final = msgspec.json.Decoder(PodReport)
_SOURCE: Final = "computed from the API server's objects; no running scheduler was queried"


class LiveError(Exception):
    """The cluster or its scheduler did not return the required data; the message is one line."""


async def fetch_report(access: ClusterAccess, key: str) -> PodReport:
    """Fetch the report of a pod from a running scheduler.

    Raises:
        LiveError: The scheduler does not respond, has no such page, or does not know the pod.
    """
    client = _client(access)
    where = f"{access.server}/debug/explain"
    try:
        body = await client.request(
            "GET", "/debug/explain", query={"pod": key}, timeout_s=_TIMEOUT_S
        )
        return _REPORTS.decode(body)
    except NotFoundError:
        raise LiveError(f"{where} does not exist or does not know the pod {key}") from None
    except ApiError as problem:
        raise LiveError(f"{where}: {problem.message or problem.reason}") from None
    except TransportError as problem:
        raise LiveError(str(problem)) from None
    except msgspec.MsgspecError as problem:
        raise LiveError(f"{where}: invalid response: {problem}") from None
    finally:
        await client.close()


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A pod and the objects of its cluster, as the API server returns them."""

    pod: Pod
    objects: list[KubeObject]
    notes: list[str]

    def subject(self) -> Subject:
        """Return the pod to explain; ExplainError if it has terminated."""
        subject = choose_pod(self.objects, self.pod.key)
        return replace(subject, notes=(*self.notes, *subject.notes))


async def read_cluster(
    access: ClusterAccess, key: str, resources: Iterable[Resource]
) -> LiveCluster:
    """List all objects that scheduling reads.

    Args:
        access: the address and credentials of the API server.
        key: the pod, as `namespace/name`.
        resources: the resources that the profiles read.

    Raises:
        LiveError: There is no such pod, or pods and nodes cannot be listed.
    """
    client = _client(access)
    namespace, _, name = key.partition("/")
    objects: list[KubeObject] = []
    notes: list[str] = []
    try:
        pod = await client.get_pod(namespace, name)
        # Nodes first, as in files: a pod bound to an unknown node would create a placeholder.
        for resource in sorted(resources, key=lambda resource: resource != NODES):
            kind = STRUCTS.get((resource.api_version, resource.kind))
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
    others = [obj for obj in objects if not (isinstance(obj, Pod) and obj.key == key)]
    return LiveCluster(pod, [*others, pod], notes)


async def _listed(
    client: Client, resource: Resource, kind: type[Any], notes: list[str]
) -> list[KubeObject]:
    """Return all objects of a kind; none if it is not served or listing is forbidden."""
    objects: list[KubeObject] = []
    query: dict[str, str | int | bool] = {"limit": _PAGE_ITEMS}
    if resource == PODS:
        query["fieldSelector"] = _POD_SELECTOR
    while True:
        try:
            page = _PAGES.decode(await client.get(resource, query=query))
        except NotFoundError:
            return objects
        except ForbiddenError as problem:
            if resource in _REQUIRED:
                raise
            notes.append(f"assuming there are none, because listing failed: {problem.message}")
            return objects
        except msgspec.MsgspecError as problem:
            raise LiveError(f"{resource.plural}: invalid list: {problem}") from None
        for item in page.items or ():
            try:
                objects.append(decode_as(kind, item))
            except MalformedObject as problem:
                notes.append(f"skipped: {problem}")
        if not page.metadata.continue_token:
            return objects
        query["continue"] = page.metadata.continue_token


def _client(access: ClusterAccess) -> Client:
    return Client(
        access,
        qps=-1,
        burst=0,
        user_agent="kubesched/explanation",
        clock=SystemClock(),
        log=NullLog(),
    )


# -- a report from the API server's objects -------------------------------------------------------


def pod_report_of(pod: Pod, info: PodInfo, profiles: Mapping[str, Profile]) -> PodReport:
    """Return the report of a pod, as far as its object shows its state."""
    profile = profiles.get(info.scheduler_name)
    held = None if profile is None else profile.run_pre_enqueue_plugins(info)
    state: State = "pending"
    text = f"{pod.key} has no node yet; {_SOURCE}"
    holds: tuple[Hold, ...] = ()
    if pod.spec.node_name:
        state, text = "bound", f"{pod.key} is bound to {pod.spec.node_name}; {_SOURCE}"
    elif profile is None:
        state, text = "foreign", foreign_text(info, profiles)
    elif pod.metadata.deletion_timestamp:
        state = "deleting"
        text = f"{pod.key} is being deleted; the scheduler skips it"
    elif held is not None:
        state, holds = "gated", (Hold(plugin=held.plugin, message=held.message),)
        text = f"{pod.key} is held back by {held.plugin}: {held.message}"
    return PodReport(
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


def _condition(pod: Pod) -> ReportedEvent | None:
    """Return the PodScheduled condition of the last failed attempt as an event."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return ReportedEvent(
                type="Warning",
                reason=condition.reason,
                message=condition.message,
                time=condition.last_transition_time or "",
            )
    return None
