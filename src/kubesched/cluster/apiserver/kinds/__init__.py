"""Strategies of the built-in kinds: defaulting, validation and updates.

Exports those of the core group; `named_groups` has the others.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.kinds.core import (
    core_actions,
    core_collection_actions,
    core_strategies,
    core_views,
    share_storage,
)
from kubesched.cluster.apiserver.resources import Action
from kubesched.cluster.apiserver.strategy import Strategy

__all__ = ["actions", "collection_actions", "share_storage", "strategies", "views"]


def strategies() -> dict[tuple[str, str], Strategy]:
    """Return the strategies of the core group and events.k8s.io, by group and resource."""
    return core_strategies()


def views() -> dict[tuple[str, str, str], Strategy]:
    """Return the strategies of subresources other than status."""
    return core_views()


def actions() -> dict[tuple[str, str, str], Action]:
    """Return the actions of subresources, by group, resource and subresource."""
    return core_actions()


def collection_actions() -> dict[tuple[str, str], Action]:
    """Return the actions of collections that store nothing, by group and resource."""
    return core_collection_actions()
