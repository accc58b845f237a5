"""`bind` of an extender: from reserve to post-bind, in one call.

Owns the order of what plugins do when a node was chosen, and what a failure undoes. The binding
itself is written by the first plugin that does not leave it to others, by DefaultBinder at last.
Never decides where a pod goes.
Upstream: pkg/scheduler/schedule_one.go bindingCycle, pkg/scheduler/extender.go Bind (the other end)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubesched.app.extender_service import ExtenderService, ServiceError
from kubesched.extender.wire import ExtenderBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import ApiCallError
from kubesched.framework.profile import Profile
from kubesched.framework.status import Status
from kubesched.model.pod_info import PodInfo
from kubesched.objects.decode import decode_as
from kubesched.objects.pod import Pod
from kubesched.scheduler.api_client import LiveApiClient

_NOBODY: Final = "every plugin left the binding to others"


@dataclass(frozen=True, slots=True)
class ExtenderBinder:
    """Binds pods that another scheduler has placed."""

    service: ExtenderService
    client: LiveApiClient

    async def bind(self, args: ExtenderBindingArgs) -> None:
        """Have a pod bound.

        Raises:
            ServiceError: Why it is not.
        """
        pod = await self._pod(args)
        profile, state = self.service.profile_of(pod), CycleState()
        failure = profile.run_reserve_plugins_reserve(state, pod, args.node)
        try:
            if failure is None:
                failure = await _bound(profile, state, pod, args.node)
        except BaseException:
            profile.run_reserve_plugins_unreserve(state, pod, args.node)
            raise
        if failure is not None:
            profile.run_reserve_plugins_unreserve(state, pod, args.node)
            raise ServiceError(failure.message or _NOBODY)
        self.service.world.assume(pod, args.node)
        await profile.run_post_bind_plugins(state, pod, args.node)

    async def _pod(self, args: ExtenderBindingArgs) -> PodInfo:
        """Return the very pod that is meant; as the API server has it if no watch showed it."""
        key = f"{args.pod_namespace}/{args.pod_name}"
        known = self.service.world.pods.get(key)
        if known is not None and known.uid == args.pod_uid:
            return known
        try:
            document: dict[str, Any] = await self.client.get_object(
                "pods", args.pod_namespace, args.pod_name
            )
        except ApiCallError as problem:
            raise ServiceError(problem.message) from None
        pod = self.service.world.cache.pod_info(decode_as(Pod, document))
        if pod.uid != args.pod_uid:
            raise ServiceError(
                f"pod {key} is not the one that was placed: its uid is {pod.uid}, "
                f"not {args.pod_uid}"
            )
        return pod


async def _bound(
    profile: Profile, state: CycleState, pod: PodInfo, node_name: str
) -> Status | None:
    """Do what precedes the binding, then have it written; return why it was not."""
    flight = profile.run_pre_bind_pre_flights(state, pod, node_name)
    if flight is not None and not flight.is_skip and not flight.is_success:
        return flight
    if flight is None or flight.is_success:
        failure = await profile.run_pre_bind_plugins(state, pod, node_name)
        if failure is not None:
            return failure
    status = await profile.run_bind_plugins(state, pod, node_name)
    return None if status.is_success else status
