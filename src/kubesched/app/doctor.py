"""Looking over a cluster before a scheduler is started in it.

Owns what is looked at and what it means: the server and its version, rights, the lease, names of
schedulers, clocks, extenders. Only reads, and asks what it may do. How findings are shown is
cli.doctor's.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, TypeAlias

import msgspec

from kubesched.app.build import Built
from kubesched.app.extender_reach import reach_problem
from kubesched.app.lease_holder import holder_of, kubesched_pod
from kubesched.app.option_values import Options, ServingOptions
from kubesched.app.rights import Right, needed_rights
from kubesched.app.watched import watched_resources
from kubesched.client.errors import ApiError, ForbiddenError, TransportError
from kubesched.client.resources import PODS, SELF_SUBJECT_ACCESS_REVIEWS, Resource
from kubesched.client.rest import Client, Query
from kubesched.client.transport import Answer, Outgoing, Transport
from kubesched.config.versions import KUBERNETES_VERSION, parse_version
from kubesched.kit.clock import Clock
from kubesched.kit.urls import without_password

Verdict: TypeAlias = Literal["ok", "warn", "fail"]

OLDEST_MINOR: Final = 30
_SKEW_WARN_S: Final = 2.0
_SKEW_FAIL_S: Final = 30.0
_PODS_MAX: Final = 500
_SELF_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_INCUMBENT: Final = ("kube-system", "kube-scheduler")
_DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    verdict: Verdict
    text: str
    advice: str = ""
    """What to do about it."""


class NotingTransport:
    """Sends through another transport and notes what the server's clock said."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self.skew_s: float | None = None
        """How much the server's clock is ahead of ours, at least."""

    async def send(self, request: Outgoing) -> Answer:
        """Send it once and return the head of its answer."""
        began_s = self._clock.now_s()
        answer = await self._inner.send(request)
        ended_s = self._clock.now_s()
        told_s = _seconds_of(answer.headers.get("Date", ""))
        if told_s is not None and self.skew_s is None:
            # The server read its clock between our two readings, and tells whole seconds only.
            self.skew_s = _beyond(told_s, began_s - 1.0, ended_s)
        return answer

    async def close(self) -> None:
        """Close all connections."""
        await self._inner.close()


def _seconds_of(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None


def _beyond(value: float, low: float, high: float) -> float:
    """Return how far a value lies outside a range."""
    return max(value - high, 0.0) + min(value - low, 0.0)


def port_finding(serving: ServingOptions) -> Finding:
    """Look whether the port to serve on is free."""
    port = serving.secure_port
    if port == 0:
        return Finding("port", "ok", "nothing is served (--secure-port=0)")
    where = f"{serving.bind_address}:{port}"
    family = socket.AF_INET6 if ":" in serving.bind_address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        # As the server does: an old connection that is timing out is no obstacle.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((serving.bind_address, port))
        except OSError as problem:
            text = f"cannot serve on {where}: {problem.strerror}"
            advice = "Another scheduler may run on this machine; choose another --secure-port."
            return Finding("port", "fail", text, advice)
    return Finding("port", "ok", f"{where} is free")


@dataclass(slots=True)
class Doctor:
    """What is looked over, and what was found."""

    client: Client
    options: Options
    built: Built
    clock: Clock
    transport: NotingTransport | None = None
    findings: list[Finding] = field(default_factory=list)

    async def examine(self) -> list[Finding]:
        """Look at everything; return what was found, in the order of looking."""
        if not await self._server():
            return self.findings
        looks = (
            self._clocks,
            self._kinds,
            self._rights,
            self._lease,
            self._names,
            self._extenders,
        )
        for look in looks:
            await self._guarded(look)
        return self.findings

    def _found(self, check: str, verdict: Verdict, text: str, advice: str = "") -> None:
        self.findings.append(Finding(check, verdict, text, advice))

    async def _guarded(self, look: Callable[[], Awaitable[None]]) -> None:
        try:
            await look()
        except (ApiError, TransportError) as problem:
            self._found(look.__name__.strip("_"), "fail", problem.message)

    # -- the server -------------------------------------------------------------------------------

    async def _server(self) -> bool:
        """Look whether the server answers; nothing else makes sense if it does not."""
        where = without_password(self.client.access.server)
        try:
            version = await self.client.version()
        except TransportError as problem:
            advice = "Check the address in the kubeconfig (--kubeconfig, --context, --master)."
            self._found("server", "fail", f"{where} does not answer: {problem.message}", advice)
            return False
        except ApiError as problem:
            advice = "Check the credentials in the kubeconfig: the server does not take them."
            self._found("server", "fail", f"{where} refuses: {problem.message}", advice)
            return False
        self._version(where, version.git_version)
        return True

    def _version(self, where: str, told: str) -> None:
        text = f"{where} answers, Kubernetes {told}"
        try:
            minor = parse_version(told).minor_version
        except ValueError:
            self._found("server", "warn", text, "This version cannot be compared with ours.")
            return
        newest = parse_version(KUBERNETES_VERSION).minor_version
        if (minor.major, minor.minor) < (1, OLDEST_MINOR):
            advice = f"kubesched needs Kubernetes 1.{OLDEST_MINOR} or newer."
            self._found("server", "fail", text, advice)
        elif minor.minor > newest.minor + 1:
            advice = (
                f"kubesched behaves as {KUBERNETES_VERSION}; a scheduler may be one minor version "
                "older than its API server."
            )
            self._found("server", "warn", text, advice)
        else:
            self._found("server", "ok", text)

    async def _clocks(self) -> None:
        skew_s = None if self.transport is None else self.transport.skew_s
        if skew_s is None:
            return
        behind = "behind" if skew_s > 0 else "ahead of"
        text = f"our clock is {abs(skew_s):.0f} s {behind} the server's"
        advice = "Let both synchronise their clocks (NTP): tokens, leases and events depend on it."
        if abs(skew_s) > _SKEW_FAIL_S:
            self._found("clocks", "fail", text, advice)
        elif abs(skew_s) > _SKEW_WARN_S:
            self._found("clocks", "warn", text, advice)
        else:
            self._found("clocks", "ok", "our clock and the server's agree")

    async def _kinds(self) -> None:
        watched = watched_resources(self.built.profiles.values())
        served = await asyncio.gather(*map(self.client.serves, watched))
        absent = [one for one, is_served in zip(watched, served, strict=True) if not is_served]
        if not absent:
            self._found("kinds", "ok", f"all {len(watched)} kinds that are watched are served")
        for one in absent:
            text = f"{one.plural}.{one.api_version} is not served: no watch, plugins do without it"
            advice = "An older API server lacks some kinds; for a custom kind, install its CRD."
            self._found("kinds", "warn", text, advice)

    # -- rights -----------------------------------------------------------------------------------

    async def _rights(self) -> None:
        rights = needed_rights(self.built, self.options)
        answers = await asyncio.gather(*map(self._missing_verbs, rights))
        who = await self._whoami()
        lacking = [
            (right, missing) for right, missing in zip(rights, answers, strict=True) if missing
        ]
        count = sum(len(right.verbs) for right in rights)
        held = count - sum(len(missing) for _, missing in lacking)
        if not lacking:
            self._found("rights", "ok", f"{who} has all {count} rights that are used")
            return
        if held:
            self._found("rights", "ok", f"{who} has {held} of {count} rights that are used")
        for right, missing in lacking:
            text = f"{who} may not {', '.join(missing)} {right.title}: {right.purpose}"
            advice = "`kubesched doctor --rbac` prints what has to be granted."
            self._found("rights", "fail" if right.is_vital else "warn", text, advice)

    async def _missing_verbs(self, right: Right) -> list[str]:
        answers = await asyncio.gather(*(self._may(right, verb) for verb in right.verbs))
        return [verb for verb, may in zip(right.verbs, answers, strict=True) if not may]

    async def _may(self, right: Right, verb: str) -> bool:
        plural, _, subresource = right.resource.partition("/")
        asked = {
            "group": right.group,
            "resource": plural,
            "subresource": subresource,
            "verb": verb,
            "namespace": right.namespace,
            "name": right.name,
        }
        answer = await self._review(
            SELF_SUBJECT_ACCESS_REVIEWS,
            {"resourceAttributes": {key: value for key, value in asked.items() if value}},
        )
        return bool(answer["status"].get("allowed"))

    async def _whoami(self) -> str:
        try:
            answer = await self._review(_SELF_REVIEWS, {})
        except ApiError:
            # Not every server tells.
            return "this user"
        name: str = answer["status"]["userInfo"].get("username") or "this user"
        return name

    async def _review(self, resource: Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        answer: dict[str, Any] = msgspec.json.decode(await self.client.create(resource, body))
        return answer

    # -- other schedulers -------------------------------------------------------------------------

    async def _lease(self) -> None:
        election = self.options.config.leader_election
        ours = (election.resource_namespace, election.resource_name)
        if not election.leader_elect:
            text = "leader election is off: nothing keeps a second replica from scheduling too"
            self._found("lease", "warn", text, "Leave --leader-elect on where replicas may run.")
        else:
            await self._our_lease(*ours)
        if not election.leader_elect or ours != _INCUMBENT:
            await self._incumbent()

    async def _our_lease(self, namespace: str, name: str) -> None:
        held = await holder_of(self.client, self.clock, namespace, name)
        where = f"lease {namespace}/{name}"
        if held is None:
            self._found("lease", "ok", f"{where} is not held by anybody")
            return
        text = f"{where} is held by {held.identity}, renewed {held.age_s:.0f} s ago"
        if not held.is_alive:
            self._found("lease", "ok", f"{text}: it has run out")
            return
        if pod := await kubesched_pod(self.client, held):
            text = f"{where} is held by a kubesched, pod {pod}, renewed {held.age_s:.0f} s ago"
            self._found("lease", "ok", text)
            return
        advice = (
            "A kubesched started now waits until the holder ends. To take over, stop the holder; "
            "to run beside it, give profiles and lease names of their own."
        )
        self._found("lease", "warn", text, advice)

    async def _incumbent(self) -> None:
        """Look for a kube-scheduler that places the same pods without sharing our lease."""
        try:
            held = await holder_of(self.client, self.clock, *_INCUMBENT)
        except ForbiddenError:
            return
        if held is None or not held.is_alive or self.options.shadow:
            return
        if _DEFAULT_SCHEDULER in self.built.profiles:
            text = (
                f"{held.identity} holds the lease {'/'.join(_INCUMBENT)} and this configuration "
                f"does not share it: both would place pods of {_DEFAULT_SCHEDULER}"
            )
            advice = (
                "Use that lease, or another schedulerName in the profile, or --shadow to compare "
                "decisions only."
            )
            self._found("names", "fail", text, advice)

    async def _names(self) -> None:
        names = sorted(self.built.profiles)
        waiting = await self._waiting()
        others = {name: count for name, count in waiting.items() if name not in names}
        ours = sum(waiting.values()) - sum(others.values())
        listed = ", ".join(names)
        self._found("names", "ok", f"profiles {listed}: {_pods(ours)} waiting for them now")
        for name, count in sorted(others.items()):
            shown = name or "(none)"
            text = f"{_pods(count)} waiting for scheduler {shown}, which no profile is called"
            advice = "If no other scheduler of that name runs, add a profile with this name."
            self._found("names", "warn", text, advice)

    async def _extenders(self) -> None:
        for one in () if self.options.shadow else self.built.config.extenders:
            name = without_password(one.url_prefix)
            problem = await reach_problem(one.url_prefix)
            if not problem:
                self._found("extenders", "ok", f"{name} can be reached")
                continue
            is_missed = bool(one.filter_verb or one.bind_verb) and not one.ignorable
            what = "cannot be placed" if is_missed else "are placed without it"
            advice = f"Pods that it is to be asked about {what} until it can be reached."
            self._found("extenders", "warn", f"{name}: {problem}", advice)

    async def _waiting(self) -> Counter[str]:
        """Count pods without a node by the scheduler they wait for."""
        query: Query = {
            "fieldSelector": "spec.nodeName=,status.phase=Pending",
            "limit": _PODS_MAX,
        }
        answer = await self.client.get(PODS, query=query)
        items: Sequence[dict[str, Any]] = msgspec.json.decode(answer).get("items") or ()
        return Counter(item["spec"].get("schedulerName") or "" for item in items)


def _pods(count: int) -> str:
    shown = f"{count} or more" if count >= _PODS_MAX else str(count)
    return f"{shown} pod{'' if count == 1 else 's'}"
