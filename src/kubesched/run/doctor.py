"""Checks of a cluster before a scheduler starts in it: `kubesched doctor`.

Checks the server and its version, permissions, the lease, scheduler names, clocks and extenders.
Only reads, and reviews its own access. `cli.doctor` prints the findings.
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

from kubesched.client.errors import ApiError, ForbiddenError, TransportError
from kubesched.client.http.transport import Outgoing, Response, Transport
from kubesched.client.resources import PODS, SELF_SUBJECT_ACCESS_REVIEWS, Resource
from kubesched.client.rest import Client, Query
from kubesched.config.versions import KUBERNETES_VERSION, parse_version
from kubesched.extender.client.http_extender import connection_problem
from kubesched.kit.clock import Clock
from kubesched.kit.urls import without_password
from kubesched.ops.serving import ServingSettings
from kubesched.profile.build import Built
from kubesched.run.lease_holder import holder_of, kubesched_pod
from kubesched.run.options.values import Options
from kubesched.run.rbac import Right, needed_rights
from kubesched.run.watched_kinds import watched_resources

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
    """The result of one check."""

    check: str
    verdict: Verdict
    text: str
    advice: str = ""
    """What to do about it."""


class ClockSkewTransport:
    """Sends through another transport, and measures the skew of the server's clock."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self.skew_s: float | None = None
        """How far the server's clock is ahead of ours, at least; None before the first response."""

    async def send(self, request: Outgoing) -> Response:
        """Send a request once and return the head of its response."""
        began_s = self._clock.now_s()
        response = await self._inner.send(request)
        ended_s = self._clock.now_s()
        server_s = _seconds_of(response.headers.get("Date", ""))
        if server_s is not None and self.skew_s is None:
            # The server read its clock between our two readings, in whole seconds.
            self.skew_s = _beyond(server_s, began_s - 1.0, ended_s)
        return response

    async def close(self) -> None:
        """Close all connections."""
        await self._inner.close()


def _seconds_of(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None


def _beyond(value: float, low: float, high: float) -> float:
    """Return how far a value is outside a range."""
    return max(value - high, 0.0) + min(value - low, 0.0)


def port_finding(serving: ServingSettings) -> Finding:
    """Check whether the port to serve on is free."""
    port = serving.port
    if port == 0:
        return Finding("port", "ok", "nothing is served (--secure-port=0)")
    where = f"{serving.bind_address}:{port}"
    family = socket.AF_INET6 if ":" in serving.bind_address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        # As the server: a connection in TIME_WAIT does not block the port.
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
    """Runs the checks, and collects their findings."""

    client: Client
    options: Options
    built: Built
    clock: Clock
    transport: ClockSkewTransport | None = None
    findings: list[Finding] = field(default_factory=list)

    async def examine(self) -> list[Finding]:
        """Run all checks; return their findings in order."""
        if not await self._server():
            return self.findings
        checks = (
            self._clocks,
            self._kinds,
            self._rights,
            self._lease,
            self._names,
            self._extenders,
        )
        for check in checks:
            await self._run(check)
        return self.findings

    def _report(self, check: str, verdict: Verdict, text: str, advice: str = "") -> None:
        self.findings.append(Finding(check, verdict, text, advice))

    async def _run(self, check: Callable[[], Awaitable[None]]) -> None:
        try:
            await check()
        except (ApiError, TransportError) as problem:
            self._report(check.__name__.strip("_"), "fail", problem.message)

    # -- the server -------------------------------------------------------------------------------

    async def _server(self) -> bool:
        """Check whether the server responds; if not, the other checks are skipped."""
        where = without_password(self.client.access.server)
        try:
            version = await self.client.version()
        except TransportError as problem:
            advice = "Check the address in the kubeconfig (--kubeconfig, --context, --master)."
            self._report("server", "fail", f"{where} does not respond: {problem.message}", advice)
            return False
        except ApiError as problem:
            advice = "Check the credentials in the kubeconfig: the server rejects them."
            self._report(
                "server", "fail", f"{where} rejects the request: {problem.message}", advice
            )
            return False
        self._version(where, version)
        return True

    def _version(self, where: str, version: str) -> None:
        text = f"{where} responds, Kubernetes {version}"
        try:
            minor = parse_version(version).minor_version
        except ValueError:
            advice = f"The version cannot be parsed; kubesched behaves as {KUBERNETES_VERSION}."
            self._report("server", "warn", text, advice)
            return
        newest = parse_version(KUBERNETES_VERSION).minor_version
        if (minor.major, minor.minor) < (1, OLDEST_MINOR):
            advice = f"kubesched needs Kubernetes 1.{OLDEST_MINOR} or newer."
            self._report("server", "fail", text, advice)
        elif minor.minor > newest.minor + 1:
            advice = (
                f"kubesched behaves as {KUBERNETES_VERSION}; a scheduler may be one minor version "
                "older than its API server."
            )
            self._report("server", "warn", text, advice)
        else:
            self._report("server", "ok", text)

    async def _clocks(self) -> None:
        skew_s = None if self.transport is None else self.transport.skew_s
        if skew_s is None:
            return
        behind = "behind" if skew_s > 0 else "ahead of"
        text = f"the local clock is {abs(skew_s):.0f} s {behind} the server's"
        advice = "Synchronize both clocks (NTP): tokens, leases and events depend on them."
        if abs(skew_s) > _SKEW_FAIL_S:
            self._report("clocks", "fail", text, advice)
        elif abs(skew_s) > _SKEW_WARN_S:
            self._report("clocks", "warn", text, advice)
        else:
            self._report("clocks", "ok", "the local clock and the server's agree")

    async def _kinds(self) -> None:
        watched = watched_resources(self.built.profiles.values())
        served = await asyncio.gather(*map(self.client.serves, watched))
        absent = [kind for kind, is_served in zip(watched, served, strict=True) if not is_served]
        if not absent:
            self._report("kinds", "ok", f"all {len(watched)} watched kinds are served")
        for kind in absent:
            text = f"{kind.plural}.{kind.api_version} is not served: plugins run without it"
            advice = "An older API server lacks some kinds; for a custom resource, install its CRD."
            self._report("kinds", "warn", text, advice)

    # -- rights -----------------------------------------------------------------------------------

    async def _rights(self) -> None:
        rights = needed_rights(self.built, self.options)
        responses = await asyncio.gather(*map(self._missing_verbs, rights))
        user = await self._whoami()
        lacking = [
            (right, missing) for right, missing in zip(rights, responses, strict=True) if missing
        ]
        count = sum(len(right.verbs) for right in rights)
        held = count - sum(len(missing) for _, missing in lacking)
        if not lacking:
            self._report("rights", "ok", f"{user} has all {count} required permissions")
            return
        if held:
            self._report("rights", "ok", f"{user} has {held} of {count} required permissions")
        for right, missing in lacking:
            text = f"{user} may not {', '.join(missing)} {right.title}: {right.purpose}"
            advice = "`kubesched doctor --rbac` prints the rules to grant."
            self._report("rights", "fail" if right.is_vital else "warn", text, advice)

    async def _missing_verbs(self, right: Right) -> list[str]:
        responses = await asyncio.gather(*(self._may(right, verb) for verb in right.verbs))
        return [verb for verb, may in zip(right.verbs, responses, strict=True) if not may]

    async def _may(self, right: Right, verb: str) -> bool:
        plural, _, subresource = right.resource.partition("/")
        attributes = {
            "group": right.group,
            "resource": plural,
            "subresource": subresource,
            "verb": verb,
            "namespace": right.namespace,
            "name": right.name,
        }
        response = await self._review(
            SELF_SUBJECT_ACCESS_REVIEWS,
            {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        )
        return bool(response["status"].get("allowed"))

    async def _whoami(self) -> str:
        try:
            response = await self._review(_SELF_REVIEWS, {})
        except ApiError:
            # Not every server has this API.
            return "this user"
        name: str = response["status"]["userInfo"].get("username") or "this user"
        return name

    async def _review(self, resource: Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        response: dict[str, Any] = msgspec.json.decode(await self.client.create(resource, body))
        return response

    # -- other schedulers -------------------------------------------------------------------------

    async def _lease(self) -> None:
        election = self.options.config.leader_election
        ours = (election.resource_namespace, election.resource_name)
        if not election.leader_elect:
            text = "leader election is off: a second replica would schedule too"
            self._report("lease", "warn", text, "Keep --leader-elect on if replicas may run.")
        else:
            await self._our_lease(*ours)
        if not election.leader_elect or ours != _INCUMBENT:
            await self._incumbent()

    async def _our_lease(self, namespace: str, name: str) -> None:
        held = await holder_of(self.client, self.clock, namespace, name)
        where = f"lease {namespace}/{name}"
        if held is None:
            self._report("lease", "ok", f"{where} has no holder")
            return
        text = f"{where} is held by {held.identity}, renewed {held.age_s:.0f} s ago"
        if not held.is_alive:
            self._report("lease", "ok", f"{text}: it has expired")
            return
        if pod := await kubesched_pod(self.client, held):
            text = f"{where} is held by a kubesched, pod {pod}, renewed {held.age_s:.0f} s ago"
            self._report("lease", "ok", text)
            return
        advice = (
            "A kubesched started now waits until the holder stops. To take over, stop the holder; "
            "to run beside it, choose other names for profiles and lease."
        )
        self._report("lease", "warn", text, advice)

    async def _incumbent(self) -> None:
        """Check for a kube-scheduler that places the same pods under another lease."""
        try:
            held = await holder_of(self.client, self.clock, *_INCUMBENT)
        except ForbiddenError:
            return
        if held is None or not held.is_alive or self.options.shadow:
            return
        if _DEFAULT_SCHEDULER in self.built.profiles:
            text = (
                f"{held.identity} holds the lease {'/'.join(_INCUMBENT)} and this configuration "
                f"does not use it: both would place pods of {_DEFAULT_SCHEDULER}"
            )
            advice = (
                "Use that lease, or another schedulerName in the profile, or --shadow to "
                "compare decisions only."
            )
            self._report("names", "fail", text, advice)

    async def _names(self) -> None:
        names = sorted(self.built.profiles)
        waiting = await self._waiting()
        others = {name: count for name, count in waiting.items() if name not in names}
        ours = sum(waiting.values()) - sum(others.values())
        listed = ", ".join(names)
        self._report("names", "ok", f"profiles {listed}: {_pods(ours)} waiting for them now")
        for name, count in sorted(others.items()):
            shown = name or "(none)"
            text = f"{_pods(count)} waiting for scheduler {shown}, but no profile has that name"
            advice = "If no other scheduler of that name runs, add a profile with this name."
            self._report("names", "warn", text, advice)

    async def _extenders(self) -> None:
        for extender in () if self.options.shadow else self.built.config.extenders:
            name = without_password(extender.url_prefix)
            problem = await connection_problem(extender.url_prefix)
            if not problem:
                self._report("extenders", "ok", f"{name} can be reached")
                continue
            is_required = (
                bool(extender.filter_verb or extender.bind_verb) and not extender.ignorable
            )
            outcome = "cannot be placed" if is_required else "are placed without it"
            advice = f"Pods that it manages {outcome} until it can be reached."
            self._report("extenders", "warn", f"{name}: {problem}", advice)

    async def _waiting(self) -> Counter[str]:
        """Count pods without a node by scheduler name."""
        query: Query = {
            "fieldSelector": "spec.nodeName=,status.phase=Pending",
            "limit": _PODS_MAX,
        }
        response = await self.client.get(PODS, query=query)
        items: Sequence[dict[str, Any]] = msgspec.json.decode(response).get("items") or ()
        return Counter(item["spec"].get("schedulerName") or "" for item in items)


def _pods(count: int) -> str:
    shown = f"{count} or more" if count >= _PODS_MAX else str(count)
    return f"{shown} pod{'' if count == 1 else 's'}"
