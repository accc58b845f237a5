"""The keys under which a profile keeps verdicts and scores.

Owns the fields of a pod that a plugin may read while its verdict is kept for other pods. In-tree
plugins read only the template, which tests ensure. An out-of-tree plugin gets a `TemplatePod`: when
it reads a field outside the template, the attempt with kept verdicts ends and is repeated with the
pod itself, and from then on the field is part of the key. So a plugin that reads more than the
template still gets the right verdict, never that of another pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from operator import attrgetter
from typing import Any, Final

import msgspec

from kubesched.framework.status import StatusError, error
from kubesched.kit.read_only import ReadOnly
from kubesched.snapshot.pod_info import SHAPE_SPEC_FIELDS, TEMPLATE_FIELDS, PodInfo

# These differ between any two pods, or change over time: nothing can be kept by them.
UNIQUE_FIELDS: Final = frozenset(
    ("generation", "key", "name", "object", "raw", "resource_version", "start_s", "status", "uid")
)


class UndeclaredFieldError(StatusError):
    """A plugin read a field of the pod that was not part of the key of kept verdicts."""


class PodKeys:
    """The template, and the fields outside it that plugins of a profile were seen to read."""

    __slots__ = ("fields", "guarded")

    def __init__(self, guarded: Iterable[str] = ()) -> None:
        self.guarded = frozenset(guarded)
        """The out-of-tree plugins that declare `reads`. Their verdicts are kept under this key
        alone: only in-tree plugins, whose reads are tested, have a `fragment`."""
        self.fields: tuple[str, ...] = ()
        """In the order in which they were first read; fields of the spec as `spec.<field>`."""

    @property
    def is_unique(self) -> bool:
        """Return whether no two pods have the same key."""
        return not UNIQUE_FIELDS.isdisjoint(self.fields)

    def of(self, pod: PodInfo) -> tuple[Hashable, ...]:
        """Return the key of a pod."""
        return (pod.template, self.values(pod)) if self.fields else pod.template

    def values(self, pod: PodInfo) -> tuple[Hashable, ...]:
        """Return the part of the key outside the template."""
        return tuple([_key_of(attrgetter(field)(pod)) for field in self.fields])

    def recording_view(self, pod: PodInfo) -> PodInfo:
        """Return what plugins get while verdicts are kept; it records the fields they read."""
        return TemplatePod(pod, self) if self.guarded else pod

    def require(self, field: str) -> None:
        """If a field is not part of the key, add it and raise `UndeclaredFieldError`.

        Verdicts under the old key are not found any more.
        """
        if field not in self.fields:
            self.fields = (*self.fields, field)
            raise UndeclaredFieldError(
                error(f"read the pod's {field}, which was not part of the key of kept verdicts")
            )


def _key_of(value: Any) -> Hashable:
    if value is None or isinstance(value, str | int | float):
        return value
    return msgspec.json.encode(value, order="sorted", enc_hook=dict)


class TemplatePod(ReadOnly, PodInfo):
    """A pod that represents all pods with one key, and shows only their common fields."""

    __slots__ = ("_keys", "_pod")

    def __init__(self, pod: PodInfo, keys: PodKeys) -> None:
        self._pod = pod
        self._keys = keys

    def __getattribute__(self, name: str) -> Any:
        """Return a field that is part of the key."""
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        pod: PodInfo = object.__getattribute__(self, "_pod")
        if name == "spec":
            return _TemplateSpec(pod, object.__getattribute__(self, "_keys"))
        if name not in TEMPLATE_FIELDS and hasattr(PodInfo, name):
            object.__getattribute__(self, "_keys").require("object" if name[0] == "_" else name)
        return getattr(pod, name)

    def __repr__(self) -> str:
        return "<PodInfo of a template>"


class _TemplateSpec(ReadOnly):
    """The spec of a pod that represents all pods with one key."""

    __slots__ = ("_keys", "_pod")

    def __init__(self, pod: PodInfo, keys: PodKeys) -> None:
        self._pod = pod
        self._keys = keys

    def __getattr__(self, name: str) -> Any:
        """Return a field that is part of the key."""
        value = getattr(self._pod.spec, name)
        if name not in SHAPE_SPEC_FIELDS:
            self._keys.require(f"spec.{name}")
        return value
