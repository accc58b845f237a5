"""Queueing of a profile: PreEnqueue plugins, event registrations and the sort key.

Owns which plugins may register for events, and the registrations of those that do not. Never queues
a pod.
Upstream: pkg/scheduler/framework/runtime/framework.go fillEnqueueExtensions,
pkg/scheduler/framework/types.go UnrollWildCardResource
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kubesched.api.kinds import KINDS, EventRole
from kubesched.framework.cluster_event import ActionType, ClusterEvent
from kubesched.framework.interface import EventRegistration, points_of
from kubesched.framework.runtime.adapters import guarded
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Status
from kubesched.snapshot.pod_info import PodInfo

EXTENDER: Final = "Extender"
"""The name under which all extenders register, as if they were one plugin."""
_POINTS_THAT_REJECT: Final = frozenset(("preEnqueue", "preFilter", "filter", "reserve", "permit"))


def any_event() -> tuple[EventRegistration, ...]:
    """Return the registrations of a plugin without `events_to_register`: every useful kind."""
    return tuple(
        EventRegistration(ClusterEvent(kind.event, ActionType.ALL))
        for kind in KINDS
        if kind.events is EventRole.WAKING
    )


def enqueue_registrations(
    profile: Profile, *, has_extenders: bool = False
) -> dict[str, Sequence[EventRegistration]]:
    """Return, for each plugin that may reject a pod, the events that may let the pod fit."""
    # Parity: runtime/framework.go NewFramework, fillEnqueueExtensions, v1.36.
    registrations: dict[str, Sequence[EventRegistration]] = {}
    if has_extenders:
        registrations[EXTENDER] = any_event()
    for name, plugin in profile.plugins.items():
        if points_of(plugin) & _POINTS_THAT_REJECT:
            has_own = hasattr(plugin, "events_to_register")
            registrations[name] = _registered_by(name, plugin) if has_own else any_event()
    return registrations


def _registered_by(name: str, plugin: Any) -> Sequence[EventRegistration]:
    """Return the registrations of a plugin; ValueError if they are malformed."""
    method = f'plugin "{name}": events_to_register()'
    try:
        # A plugin may register for nothing: its pods are woken by their own updates.
        registered = list(plugin.events_to_register() or ())
    except Exception as problem:
        raise ValueError(f"{method}: {type(problem).__name__}: {problem}") from problem
    for item in registered:
        if not isinstance(item, EventRegistration):
            got = type(item).__name__
            raise ValueError(f"{method} returned a {got}, expected a list of EventRegistration")
    return registered


def pre_enqueue_calls(profile: Profile) -> dict[str, Callable[[PodInfo], Status | None]]:
    """Return the PreEnqueue plugins in run order; an exception becomes an error status."""
    return {
        name: partial(guarded, profile.plugins[name].pre_enqueue)
        for name in profile.plugin_names("preEnqueue")
    }


def queue_sort_key(profile: Profile) -> Callable[[Any], Any] | None:
    """Return the sort key of the QueueSort plugin, if it has one."""
    (name,) = profile.plugin_names("queueSort")
    return getattr(profile.plugins[name], "sort_key", None)
