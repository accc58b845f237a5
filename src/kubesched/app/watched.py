"""Which kinds a scheduler watches.

Owns the table from plugins to the kinds they read. A plugin that is disabled needs no watch, and no
right to it.
Upstream: the informers that pkg/scheduler and its plugins ask for
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubesched.client import resources
from kubesched.client.resources import Resource
from kubesched.framework.profile import Profile
from kubesched.plugins.in_tree import IN_TREE_NAMES
from kubesched.scheduler.eventhandlers import EVENT_RESOURCES

ALWAYS: Final = (resources.PODS, resources.NODES, resources.NAMESPACES, resources.CSI_NODES)
_VOLUMES: Final = (
    resources.PERSISTENT_VOLUMES,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.STORAGE_CLASSES,
)
_OWNERS: Final = (
    resources.SERVICES,
    resources.REPLICATION_CONTROLLERS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
)
BY_PLUGIN: Final[Mapping[str, tuple[Resource, ...]]] = {
    "VolumeBinding": (*_VOLUMES, resources.CSI_DRIVERS, resources.CSI_STORAGE_CAPACITIES),
    "VolumeZone": _VOLUMES,
    "VolumeRestrictions": (resources.PERSISTENT_VOLUME_CLAIMS,),
    "NodeVolumeLimits": (*_VOLUMES, resources.CSI_DRIVERS, resources.VOLUME_ATTACHMENTS),
    "DefaultPreemption": (resources.POD_DISRUPTION_BUDGETS,),
    "PodTopologySpread": _OWNERS,
}
_BY_EVENT: Final[Mapping[str, Resource]] = {name: kind for kind, name in EVENT_RESOURCES.items()}


def watched_resources(profiles: Iterable[Profile]) -> list[Resource]:
    """Return the kinds that some profile reads, the ones everything hangs on first."""
    found = dict.fromkeys(ALWAYS)
    for profile in profiles:
        for plugin in profile.plugins:
            found.update(dict.fromkeys(BY_PLUGIN.get(plugin, ())))
        found.update(dict.fromkeys(_registered(profile)))
    return list(found)


def _registered(profile: Profile) -> list[Resource]:
    """Return the kinds that plugins of users registered for."""
    found = []
    for plugin, registered in profile.event_registrations().items():
        for one in () if plugin in IN_TREE_NAMES else registered or ():
            resource = registered_resource(one.event.resource)
            if resource is not None:
                found.append(resource)
    return found


def registered_resource(name: str) -> Resource | None:
    """Return the kind that plugins register for by upstream's name or `<plural>.<version>.<group>`.

    None for pods and nodes, which are always watched, and for a name that is of neither form.
    """
    if name in _BY_EVENT:
        return _BY_EVENT[name]
    plural, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    if not plural or not version or not group or "/" in name:
        return None
    return Resource(group, version, plural, kind=plural)
