"""A pod with some of its demands left out or eased.

Owns the copies that counterfactuals are tried with: the pod's own object with one field changed, or
several, compiled anew. Never judges.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kubesched.model.pod_info import HostPort, PodInfo, compile_shape, meets_rules, resources_of
from kubesched.model.tolerations import Taint
from kubesched.objects.affinity import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from kubesched.objects.meta import LabelSelector
from kubesched.objects.pod import PodSpec
from kubesched.objects.selectors import label_selector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_DO_NOT_SCHEDULE = "DoNotSchedule"
_ANY_ADDRESS = "0.0.0.0"
_REQUIREMENTS_MAX = 3

PartT = TypeVar("PartT")


class PodChange(NamedTuple):
    """How a pod is changed, which field it is, and in words that follow `fits on 3 nodes`."""

    kind: str
    field: str
    text: str
    edit: Callable[[PodInfo], PodInfo]
    """Makes the change; the pod may have been changed in other ways before."""
    is_of_shape: bool = False
    """Whether what was compiled is changed: lost if the spec is changed after it."""
    lacks: Mapping[str, int] = {}
    """How much less is asked for, by resource."""


def changed(pod: PodInfo, changes: Iterable[PodChange]) -> PodInfo:
    """Return the pod with all changes made."""
    for change in sorted(changes, key=lambda change: change.is_of_shape):
        pod = change.edit(pod)
    return pod


def without_nomination(pod: PodInfo) -> PodInfo:
    """Return the pod as if it had been promised nothing, so that all nodes are looked at."""
    if not pod.nominated_node_name:
        return pod
    changed = copy.copy(pod)
    changed.nominated_node_name = ""
    return changed


def with_spec(pod: PodInfo, spec: PodSpec) -> PodInfo:
    """Return the pod with another spec."""
    changed = replace(pod.object, spec=spec)
    return PodInfo(changed, compile_shape(changed))


def with_requests(pod: PodInfo, less: Mapping[str, int]) -> PodInfo:
    """Return the pod asking for less of some resources."""
    requests = {name: value - less.get(name, 0) for name, value in pod.requests.items()}
    shape = pod.shape.changed(requests=resources_of(requests))
    return PodInfo(pod.object, shape)


def tolerating(taint: Taint, *, any_value: bool = False) -> Callable[[PodInfo], PodInfo]:
    """Return how a pod comes to tolerate a taint, or all of its key and effect."""
    toleration = Toleration(
        key=taint.key,
        operator="Exists" if any_value else "Equal",
        value="" if any_value else taint.value,
        effect=taint.effect,
    )

    def edit(pod: PodInfo) -> PodInfo:
        spec = pod.object.spec
        return with_spec(pod, replace(spec, tolerations=(*spec.tolerations, toleration)))

    return edit


def spread_changes(pod: PodInfo) -> Iterator[PodChange]:
    """Yield the pod without each of its hard spread constraints."""
    constraints = pod.object.spec.topology_spread_constraints
    hard = {
        number: (one.topology_key, f"maxSkew {one.max_skew}", _selector_text(one.label_selector))
        for number, one in enumerate(constraints)
        if one.when_unsatisfiable == _DO_NOT_SCHEDULE
    }
    for number, told in _told_apart(hard, least=2).items():
        yield PodChange(
            "spread-constraint",
            f"spec.topologySpreadConstraints[{number}]",
            f"without the spread constraint over {told}",
            _without_part("topology_spread_constraints", constraints[number]),
        )


def affinity_changes(pod: PodInfo) -> Iterator[PodChange]:
    """Yield the pod without each required term of pod affinity and anti-affinity."""
    affinity = pod.object.spec.affinity
    if affinity is None:
        return
    for attribute, wire_name, words in (
        ("pod_affinity", "podAffinity", "pod affinity"),
        ("pod_anti_affinity", "podAntiAffinity", "pod anti-affinity"),
    ):
        part = getattr(affinity, attribute)
        terms = () if part is None else part.required_during_scheduling_ignored_during_execution
        details = {
            number: (
                term.topology_key,
                _selector_text(term.label_selector),
                f"in {', '.join(term.namespaces)}" if term.namespaces else "",
            )
            for number, term in enumerate(terms)
        }
        for number, told in _told_apart(details, least=1).items():
            yield PodChange(
                f"{words.replace(' ', '-')}-term",
                f"spec.affinity.{wire_name}.{_REQUIRED}[{number}]",
                f"without the {words} term over {told}",
                _without_term(attribute, terms[number]),
            )


def _told_apart(parts: Mapping[int, tuple[str, ...]], *, least: int) -> dict[int, str]:
    """Return each part of a list in words: as few as tell it from the others, its place at last.

    Args:
        parts: by place, what can be said of each, in this order.
        least: how much of that is said in any case.
    """
    told = {}
    for number, own in parts.items():
        others = [other for place, other in parts.items() if place != number]
        count = least
        while count <= len(own) and any(other[:count] == own[:count] for other in others):
            count += 1
        words = (*own, f"number {number + 1}")[:count]
        notes = ", ".join(filter(None, words[1:]))
        told[number] = f"{words[0]} ({notes})" if notes else words[0]
    return told


def _selector_text(selector: LabelSelector | None) -> str:
    if selector is None:
        return "no pods"
    try:
        listed = [str(one) for one in label_selector(selector).requirements]
    except ValueError:
        return "an invalid selector"
    more = ",..." if len(listed) > _REQUIREMENTS_MAX else ""
    return ",".join(listed[:_REQUIREMENTS_MAX]) + more or "all pods"


def node_affinity_changes(pod: PodInfo) -> Iterator[PodChange]:
    """Yield the pod without each label of its node selector, and each part of its affinity."""
    spec = pod.object.spec
    for key, value in sorted(spec.node_selector.items()):
        yield PodChange(
            "node-selector",
            f"spec.nodeSelector[{key}]",
            f"without the node selector {key}={value}",
            _without_label(key),
        )
    own = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if own is None else own.required_during_scheduling_ignored_during_execution
    if required is None:
        return
    terms = required.node_selector_terms
    if len(terms) == 1:
        yield from _expression_changes(terms[0])
    if len(terms) != 1 or len((*terms[0].match_expressions, *terms[0].match_fields)) != 1:
        yield PodChange(
            "node-affinity",
            f"spec.affinity.nodeAffinity.{_REQUIRED}",
            "without the required node affinity",
            lambda pod: _with_required_terms(pod, ()),
        )


def _expression_changes(term: NodeSelectorTerm) -> Iterator[PodChange]:
    for attribute, wire_name in (
        ("match_expressions", "matchExpressions"),
        ("match_fields", "matchFields"),
    ):
        parts: tuple[NodeSelectorRequirement, ...] = getattr(term, attribute)
        for number, part in enumerate(parts):
            yield PodChange(
                "node-affinity",
                f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].{wire_name}[{number}]",
                f"without the node affinity {_expression_text(part)}",
                _without_expression(attribute, part),
            )


def _expression_text(part: NodeSelectorRequirement) -> str:
    values = part.values or ()
    listed = ", ".join(values[:3]) + (", ..." if len(values) > 3 else "")
    return f"{part.key} {part.operator}{f' ({listed})' if values else ''}"


def port_changes(pod: PodInfo) -> Iterator[PodChange]:
    """Yield the pod without each of its host ports."""
    ports = pod.shape.host_ports
    for port in dict.fromkeys(ports):
        yield PodChange(
            "host-port",
            "spec.containers[*].ports",
            f"without host port {_port_text(port)}",
            _without_port(port),
            is_of_shape=True,
        )


def _port_text(port: HostPort) -> str:
    ip = f"[{port.ip}]" if ":" in port.ip else port.ip
    address = "" if ip == _ANY_ADDRESS else f"{ip}:"
    return f"{address}{port.port}/{port.protocol}"


def without_volume(pod: PodInfo) -> Iterator[PodChange]:
    """Yield the pod without each of its volumes that a rule reads."""
    for number, volume in enumerate(pod.object.spec.volumes):
        # Not by name: pods of one shape may name their volumes differently.
        if not meets_rules(volume):
            continue
        claim = volume.persistent_volume_claim
        of_claim = f" (claim {claim.claim_name})" if claim is not None else ""
        yield PodChange(
            "volume",
            f"spec.volumes[{number}]",
            f"without the volume {volume.name}{of_claim}",
            _without_part("volumes", volume),
        )


# -- edits ------------------------------------------------------------------------------------


def _without_part(attribute: str, part: object) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        spec = pod.object.spec
        return with_spec(pod, replace(spec, **{attribute: _less(getattr(spec, attribute), part)}))

    return edit


def _without_term(attribute: str, term: object) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        affinity = pod.object.spec.affinity
        part = getattr(affinity, attribute)
        terms = part.required_during_scheduling_ignored_during_execution
        fewer = replace(
            part, required_during_scheduling_ignored_during_execution=_less(terms, term)
        )
        return _with_affinity(pod, **{attribute: fewer})

    return edit


def _without_label(key: str) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        spec = pod.object.spec
        others = {k: v for k, v in spec.node_selector.items() if k != key}
        return with_spec(pod, replace(spec, node_selector=others))

    return edit


def _without_expression(attribute: str, part: object) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        terms = _required_terms(pod)
        if not terms:
            return pod
        fewer = replace(terms[0], **{attribute: _less(getattr(terms[0], attribute), part)})
        # A term that demands nothing would match nothing: without its last part, it is gone.
        return _with_required_terms(
            pod, (fewer,) if fewer.match_expressions or fewer.match_fields else ()
        )

    return edit


def _without_port(port: HostPort) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        others = tuple(other for other in pod.shape.host_ports if other != port)
        return PodInfo(pod.object, pod.shape.changed(host_ports=others))

    return edit


def _required_terms(pod: PodInfo) -> tuple[NodeSelectorTerm, ...]:
    affinity = pod.object.spec.affinity
    own = None if affinity is None else affinity.node_affinity
    required = None if own is None else own.required_during_scheduling_ignored_during_execution
    return () if required is None else required.node_selector_terms


def _with_required_terms(pod: PodInfo, terms: tuple[NodeSelectorTerm, ...]) -> PodInfo:
    affinity = pod.object.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    required = NodeSelector(node_selector_terms=terms) if terms else None
    own = replace(
        affinity.node_affinity, required_during_scheduling_ignored_during_execution=required
    )
    return _with_affinity(pod, node_affinity=own)


def _with_affinity(pod: PodInfo, **parts: object) -> PodInfo:
    spec = pod.object.spec
    assert spec.affinity is not None
    return with_spec(pod, replace(spec, affinity=replace(spec.affinity, **parts)))


def _less(parts: tuple[PartT, ...], one: object) -> tuple[PartT, ...]:
    """Return the parts without this one; others may be equal to it."""
    for place, part in enumerate(parts):
        if part is one:
            return parts[:place] + parts[place + 1 :]
    return parts
