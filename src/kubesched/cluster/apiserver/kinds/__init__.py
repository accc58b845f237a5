"""Strategies of the built-in kinds: defaults, validation, update rules."""

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
    """Return the rules of every kind that has some, by group and resource."""
    return core_strategies()


def views() -> dict[tuple[str, str, str], Strategy]:
    """Return the rules of views other than status, by group, resource and subresource."""
    return core_views()


def actions() -> dict[tuple[str, str, str], Action]:
    """Return what POSTing to a subresource does, by group, resource and subresource."""
    return core_actions()


def collection_actions() -> dict[tuple[str, str], Action]:
    """Return what POSTing to a collection does where nothing is stored."""
    return core_collection_actions()
