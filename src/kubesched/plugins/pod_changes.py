"""Changes to a rejected pod that could make more nodes fit: what `explain` tries.

Each plugin offers its changes in its record; `explanation.counterfactual` filters again with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from kubesched.api.label_selectors import label_selector
from kubesched.api.meta import LabelSelector
from kubesched.api.pod import PodSpec
from kubesched.snapshot.pod_info import PodInfo, compile_shape
from kubesched.snapshot.view import NodeTable

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_REQUIREMENTS_MAX = 3

PartT = TypeVar("PartT")


class RejectedPod(NamedTuple):
    """A pod that a plugin rejects, and the nodes that no other plugin rejects."""

    plugin: Any
    pod: PodInfo
    nodes: NodeTable


class PodChange(NamedTuple):
    """One change to a pod."""

    kind: str
    field: str
    text: str
    """The change in words that follow `fits on 3 nodes`."""
    edit: Callable[[PodInfo], PodInfo]
    """Returns the changed pod; other changes may have been made before."""
    is_of_shape: bool = False
    """Whether the compiled pod is edited: a later edit of the spec would undo it."""
    lacks: Mapping[str, int] = {}
    """How much less is requested, by resource."""
    row: int = -1
    """The node that the change is made for; -1 if for any."""
    text_alone: str = ""
    """The words for the change when nothing else is changed, if they differ."""
    needs_node: bool = False
    """Whether the node of `row` has to change: no edit of the pod opens it."""


class UnmetDemand(NamedTuple):
    """A requirement of a pod that no node meets."""

    field: str
    text: str
    lacks: Mapping[str, int]


def changed(pod: PodInfo, changes: Iterable[PodChange]) -> PodInfo:
    """Return the pod with all changes made."""
    for change in sorted(changes, key=lambda change: change.is_of_shape):
        pod = change.edit(pod)
    return pod


def with_spec(pod: PodInfo, spec: PodSpec) -> PodInfo:
    """Return the pod with another spec."""
    changed = replace(pod.object, spec=spec)
    return PodInfo(changed, compile_shape(changed))


def distinct_texts(parts: Mapping[int, tuple[str, ...]], *, least: int) -> dict[int, str]:
    """Return a text for each part of a list, with just enough details to distinguish it.

    Args:
        parts: The details of each part by its index, the most distinctive first.
        least: How many details are always shown.
    """
    texts = {}
    for number, own in parts.items():
        others = [other for place, other in parts.items() if place != number]
        count = least
        while count <= len(own) and any(other[:count] == own[:count] for other in others):
            count += 1
        words = (*own, f"number {number + 1}")[:count]
        notes = ", ".join(filter(None, words[1:]))
        texts[number] = f"{words[0]} ({notes})" if notes else words[0]
    return texts


def selector_text(selector: LabelSelector | None) -> str:
    """Return a label selector as kubectl writes it, shortened."""
    if selector is None:
        return "no pods"
    try:
        listed = [str(requirement) for requirement in label_selector(selector).requirements]
    except ValueError:
        return "an invalid selector"
    more = ",..." if len(listed) > _REQUIREMENTS_MAX else ""
    return ",".join(listed[:_REQUIREMENTS_MAX]) + more or "all pods"


def without_part(attribute: str, part: object) -> Callable[[PodInfo], PodInfo]:
    """Return the edit that drops a part of a list in the spec."""

    def edit(pod: PodInfo) -> PodInfo:
        spec = pod.object.spec
        return with_spec(
            pod, replace(spec, **{attribute: without_one(getattr(spec, attribute), part)})
        )

    return edit


def with_affinity(pod: PodInfo, **parts: object) -> PodInfo:
    """Return the pod with other parts of its affinity."""
    spec = pod.object.spec
    assert spec.affinity is not None
    return with_spec(pod, replace(spec, affinity=replace(spec.affinity, **parts)))


def without_one(parts: tuple[PartT, ...], dropped: object) -> tuple[PartT, ...]:
    """Return a list without this object; equal ones are kept."""
    for place, part in enumerate(parts):
        if part is dropped:
            return parts[:place] + parts[place + 1 :]
    return parts
