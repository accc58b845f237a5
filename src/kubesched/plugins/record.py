"""The record of an in-tree plugin: its description for the rest of the scheduler.

Each plugin has one, beside its rule. Its name, extension points and queueing hints are those of the
class; the record adds arguments, watched kinds, permissions and the changes that `explain` tests.
Whether and where a plugin is enabled by default is in `config.defaults`, where upstream's order is.
Upstream: none
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubesched.api.field_errors import aggregate_text
from kubesched.api.meta import KubeResource
from kubesched.plugins.pod_changes import PodChange, RejectedPod, UnmetDemand

ArgsT = TypeVar("ArgsT")


class Write(NamedTuple):
    """A permission to write that a plugin needs while it is enabled."""

    group: str
    resource: str
    """The plural, with a slash and the subresource if it is one."""
    verbs: tuple[str, ...]
    purpose: str
    """Shown by `kubesched doctor`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InTreePlugin:
    """One in-tree plugin."""

    plugin: type[Any]
    """Its class, with a `name` and the methods of its extension points."""
    args: type[msgspec.Struct] | None = None
    """The struct its constructor takes; None if it takes none, or one that `config` decodes."""
    watches: tuple[type[KubeResource], ...] = ()
    """The kinds it reads, besides those that are always watched."""
    writes: tuple[Write, ...] = ()
    pod_changes: Callable[[RejectedPod], Iterable[PodChange]] | None = None
    """Yields changes to a rejected pod that `explain` tests."""
    has_shared_changes: bool = False
    """Whether these are tried even if no node fits without this plugin: others read the field."""
    unmet_demands: Callable[[RejectedPod], Iterable[UnmetDemand]] | None = None
    """Yields requirements that no node meets."""

    @property
    def name(self) -> str:
        """Return the name of the plugin in configurations, logs and metrics."""
        name: str = self.plugin.name
        return name


def checked_args(
    args: object,
    expected: type[ArgsT],
    validate: Callable[[ArgsT], Sequence[str]],
    wrong_type: str = "want args to be of type {}, got {}",
) -> ArgsT:
    """Return the arguments of a plugin; ValueError with upstream's text if they are invalid."""
    if not isinstance(args, expected):
        got = "<nil>" if args is None else "*runtime.Unknown"
        raise ValueError(wrong_type.format(expected.__name__, got))
    problems = validate(args)
    if problems:
        raise ValueError(aggregate_text(problems))
    return args
