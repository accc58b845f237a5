"""The `bind` verb: the binding cycle of the extender's plugins, from reserve to post-bind.

Owns the order of extension points and the rollback after a failure. The first plugin that does not
skip writes the binding, DefaultBinder last. Never chooses a node.
Upstream: pkg/scheduler/schedule_one.go bindingCycle, pkg/scheduler/extender.go Bind (the client)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.decode import decode_as
from kubesched.api.pod import Pod
from kubesched.extender.server.service import ExtenderService, ServiceError
from kubesched.extender.wire import ExtenderBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import ApiCallError
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Status
from kubesched.scheduler.live_handle import LiveApiClient
from kubesched.snapshot.pod_info import PodInfo

_ALL_SKIPPED: Final = "every plugin skipped the binding"


@dataclass(frozen=True, slots=True)
class ExtenderBinder:
    """Binds pods to nodes that another scheduler has chosen."""

    service: ExtenderService
    client: LiveApiClient

    async def bind(self, args: ExtenderBindingArgs) -> None:
        """Bind a pod; ServiceError if it is not bound."""
        pod = await self._pod(args)
        profile, state = self.service.profile_of(pod), CycleState()
        failure = profile.run_reserve_plugins_reserve(state, pod, args.node)
        try:
            if failure is None:
                failure = await _run_binding_cycle(profile, state, pod, args.node)
        except BaseException:
            profile.run_reserve_plugins_unreserve(state, pod, args.node)
            raise
        if failure is not None:
            profile.run_reserve_plugins_unreserve(state, pod, args.node)
            raise ServiceError(failure.message or _ALL_SKIPPED)
        self.service.cluster.assume(pod, args.node)
        await profile.run_post_bind_plugins(state, pod, args.node)

    async def _pod(self, args: ExtenderBindingArgs) -> PodInfo:
        """Return the pod of the arguments, from the API server if it is not watched."""
        key = f"{args.pod_namespace}/{args.pod_name}"
        watched = self.service.cluster.pods.get(key)
        if watched is not None and watched.uid == args.pod_uid:
            return watched
        try:
            document: dict[str, Any] = await self.client.get_object(
                "pods", args.pod_namespace, args.pod_name
            )
        except ApiCallError as problem:
            raise ServiceError(problem.message) from None
        pod = self.service.cluster.cache.pod_info(decode_as(Pod, document))
        if pod.uid != args.pod_uid:
            raise ServiceError(
                f"pod {key} is not the pod that was scheduled: its uid is {pod.uid}, "
                f"not {args.pod_uid}"
            )
        return pod


async def _run_binding_cycle(
    profile: Profile, state: CycleState, pod: PodInfo, node_name: str
) -> Status | None:
    """Run pre-bind and bind plugins; return the status of a failure."""
    flight = profile.run_pre_bind_pre_flights(state, pod, node_name)
    if flight is not None and not flight.is_skip and not flight.is_success:
        return flight
    if flight is None or flight.is_success:
        failure = await profile.run_pre_bind_plugins(state, pod, node_name)
        if failure is not None:
            return failure
    status = await profile.run_bind_plugins(state, pod, node_name)
    return None if status.is_success else status
