"""What a profile's plugins tell the queue: who gates pods, and which events wake them.

Owns which plugins are heard at all, and what stands for those that do not say. Never queues a pod.
Upstream: pkg/scheduler/framework/runtime/framework.go fillEnqueueExtensions,
pkg/scheduler/framework/types.go UnrollWildCardResource
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kubesched.framework.adapt import guarded
from kubesched.framework.interface import EventRegistration, points_of
from kubesched.framework.profile import Profile
from kubesched.framework.status import Status
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.model.pod_info import PodInfo

EXTENDER: Final = "Extender"
"""Who refused a pod when extenders left no node."""
_POINTS_THAT_REFUSE: Final = frozenset(("preEnqueue", "preFilter", "filter", "reserve", "permit"))
ANY_EVENT: Final = tuple(
    EventRegistration(ClusterEvent(resource, ActionType.ALL))
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)
"""What may help a pod that a plugin refused which does not say."""


def enqueue_registrations(
    profile: Profile, *, has_extenders: bool = False
) -> dict[str, Sequence[EventRegistration]]:
    """Return, for each plugin that may refuse a pod, the events that may change its mind."""
    # Parity: runtime/framework.go NewFramework, fillEnqueueExtensions, v1.36.
    found: dict[str, Sequence[EventRegistration]] = {}
    if has_extenders:
        found[EXTENDER] = ANY_EVENT
    for name, plugin in profile.plugins.items():
        if points_of(plugin) & _POINTS_THAT_REFUSE:
            says = hasattr(plugin, "events_to_register")
            found[name] = _registered_by(name, plugin) if says else ANY_EVENT
    return found


def _registered_by(name: str, plugin: Any) -> Sequence[EventRegistration]:
    """Return what a plugin registers for; ValueError if that is not what it should be."""
    what = f'plugin "{name}": events_to_register()'
    try:
        # Nothing at all is what a plugin waits for whose pods only change themselves.
        registered = list(plugin.events_to_register() or ())
    except Exception as problem:
        raise ValueError(f"{what}: {type(problem).__name__}: {problem}") from problem
    for one in registered:
        if not isinstance(one, EventRegistration):
            got = type(one).__name__
            raise ValueError(f"{what} returned a {got}, expected a list of EventRegistration")
    return registered


def pre_enqueue_calls(profile: Profile) -> dict[str, Callable[[PodInfo], Status | None]]:
    """Return the PreEnqueue plugins in run order; one that raises answers with an error."""
    return {
        name: partial(guarded, profile.plugins[name].pre_enqueue)
        for name in profile.plugin_names("preEnqueue")
    }


def queue_sort_key(profile: Profile) -> Callable[[Any], Any] | None:
    """Return what the QueueSort plugin compares by, if it offers that."""
    (name,) = profile.plugin_names("queueSort")
    key: Callable[[Any], Any] | None = getattr(profile.plugins[name], "sort_key", None)
    return key
