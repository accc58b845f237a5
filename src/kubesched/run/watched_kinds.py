"""Kinds that a scheduler watches: those that every decision needs, and those its plugins read.

A plugin that is disabled needs no watch, and no permission for it. In-tree plugins declare what
they read in their records, out-of-tree plugins by the events they register for.
Upstream: the informers that pkg/scheduler and its plugins request
"""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api.kinds import KINDS, Resource
from kubesched.cache.cache import Cache
from kubesched.framework.runtime.profile import Profile
from kubesched.plugins.in_tree import IN_TREE


def always_watched() -> list[Resource]:
    """Return the kinds that are watched regardless of the enabled plugins."""
    return [kind.resource for kind in KINDS if kind.is_always_watched]


def read_by(plugin: str) -> list[Resource]:
    """Return the kinds that an in-tree plugin reads; none for an out-of-tree plugin."""
    record = IN_TREE.get(plugin)
    return [KINDS.resource_of(struct) for struct in record.watches] if record else []


def watched_resources(profiles: Iterable[Profile]) -> list[Resource]:
    """Return the kinds that some profile reads, the ones that every decision needs first."""
    kinds = always_watched()
    for profile in profiles:
        for plugin in profile.plugins:
            kinds += read_by(plugin)
        kinds += _registered(profile)
    return list(dict.fromkeys(kinds))


def _registered(profile: Profile) -> list[Resource]:
    """Return the kinds that out-of-tree plugins registered for."""
    kinds = (
        registered_resource(registration.event.resource)
        for plugin, registrations in profile.event_registrations().items()
        for registration in (() if plugin in IN_TREE else registrations or ())
    )
    return [kind for kind in kinds if kind is not None]


def registered_resource(name: str) -> Resource | None:
    """Return the kind of an event: upstream's name for it, or `<plural>.<version>.<group>`.

    None for pods and nodes, which are always watched, and for a name of neither form.
    """
    kind = KINDS.by_event_name(name)
    if kind is not None:
        return None if kind.is_in_columns else kind.resource
    plural, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    if not plural or not version or not group or "/" in name:
        return None
    return Resource(group, version, plural, kind=plural)


def registered_kind(name: str, watched: Iterable[Resource], cache: Cache) -> Resource:
    """Return the watched kind of a name `<plural>.<version>.<group>` that only plugins read.

    Raises:
        LookupError: No plugin has registered for it.
    """
    for kind in watched:
        is_named = name == f"{kind.plural}.{kind.version}.{kind.group}"
        if is_named and cache.kind_of(kind.kind) is None:
            return kind
    raise LookupError(
        f"objects of {name} are not kept: plugins can read pods and the resources "
        "<plural>.<version>.<group> that they register for in events_to_register()"
    )
