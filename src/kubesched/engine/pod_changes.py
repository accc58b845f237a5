"""A pod with one of its demands left out or eased.

Owns the copies that counterfactuals are tried with: the pod's own object with one field changed,
compiled anew. Never judges.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kubesched.model.pod_info import HostPort, PodInfo, compile_shape, meets_rules, resources_of
from kubesched.model.tolerations import Taint
from kubesched.objects.affinity import (
    Affinity,
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


class PodChange(NamedTuple):
    """A changed pod, which field it is, and the change in words that follow `fits on 3 nodes`."""

    kind: str
    field: str
    text: str
    pod: PodInfo


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


def with_toleration(pod: PodInfo, taint: Taint, *, any_value: bool = False) -> PodInfo:
    """Return the pod tolerating a taint, or all of its key and effect."""
    toleration = Toleration(
        key=taint.key,
        operator="Exists" if any_value else "Equal",
        value="" if any_value else taint.value,
        effect=taint.effect,
    )
    spec = pod.object.spec
    return with_spec(pod, replace(spec, tolerations=(*spec.tolerations, toleration)))


def spread_changes(pod: PodInfo) -> Iterator[PodChange]:
    """Yield the pod without each of its hard spread constraints."""
    spec = pod.object.spec
    constraints = spec.topology_spread_constraints
    hard = {
        number: (one.topology_key, f"maxSkew {one.max_skew}", _selector_text(one.label_selector))
        for number, one in enumerate(constraints)
        if one.when_unsatisfiable == _DO_NOT_SCHEDULE
    }
    for number, told in _told_apart(hard, least=2).items():
        others = constraints[:number] + constraints[number + 1 :]
        yield PodChange(
            "spread-constraint",
            f"spec.topologySpreadConstraints[{number}]",
            f"without the spread constraint over {told}",
            with_spec(pod, replace(spec, topology_spread_constraints=others)),
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
            others = terms[:number] + terms[number + 1 :]
            fewer = replace(part, required_during_scheduling_ignored_during_execution=others)
            yield PodChange(
                f"{words.replace(' ', '-')}-term",
                f"spec.affinity.{wire_name}.{_REQUIRED}[{number}]",
                f"without the {words} term over {told}",
                _with_affinity(pod, replace(affinity, **{attribute: fewer})),
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
        others = {k: v for k, v in spec.node_selector.items() if k != key}
        yield PodChange(
            "node-selector",
            f"spec.nodeSelector[{key}]",
            f"without the node selector {key}={value}",
            with_spec(pod, replace(spec, node_selector=others)),
        )
    own = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if own is None else own.required_during_scheduling_ignored_during_execution
    if spec.affinity is None or own is None or required is None:
        return
    terms = required.node_selector_terms
    if len(terms) == 1:
        yield from _expression_changes(pod, spec.affinity, terms[0])
    if len(terms) != 1 or len((*terms[0].match_expressions, *terms[0].match_fields)) != 1:
        free = replace(own, required_during_scheduling_ignored_during_execution=None)
        yield PodChange(
            "node-affinity",
            f"spec.affinity.nodeAffinity.{_REQUIRED}",
            "without the required node affinity",
            _with_affinity(pod, replace(spec.affinity, node_affinity=free)),
        )


def _expression_changes(
    pod: PodInfo, affinity: Affinity, term: NodeSelectorTerm
) -> Iterator[PodChange]:
    own = affinity.node_affinity
    assert own is not None
    for attribute, wire_name in (
        ("match_expressions", "matchExpressions"),
        ("match_fields", "matchFields"),
    ):
        parts: tuple[NodeSelectorRequirement, ...] = getattr(term, attribute)
        for number, part in enumerate(parts):
            fewer = replace(term, **{attribute: parts[:number] + parts[number + 1 :]})
            # A term that demands nothing would match nothing: without its last part, it is gone.
            empty = not fewer.match_expressions and not fewer.match_fields
            required = own.required_during_scheduling_ignored_during_execution
            assert required is not None
            kept = None if empty else replace(required, node_selector_terms=(fewer,))
            yield PodChange(
                "node-affinity",
                f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].{wire_name}[{number}]",
                f"without the node affinity {_expression_text(part)}",
                _with_affinity(
                    pod,
                    replace(
                        affinity,
                        node_affinity=replace(
                            own, required_during_scheduling_ignored_during_execution=kept
                        ),
                    ),
                ),
            )


def _expression_text(part: NodeSelectorRequirement) -> str:
    values = part.values or ()
    listed = ", ".join(values[:3]) + (", ..." if len(values) > 3 else "")
    return f"{part.key} {part.operator}{f' ({listed})' if values else ''}"


def port_changes(pod: PodInfo) -> Iterator[PodChange]:
    """Yield the pod without each of its host ports."""
    ports = pod.shape.host_ports
    for port in dict.fromkeys(ports):
        others = tuple(other for other in ports if other != port)
        shape = pod.shape.changed(host_ports=others)
        yield PodChange(
            "host-port",
            "spec.containers[*].ports",
            f"without host port {_port_text(port)}",
            PodInfo(pod.object, shape),
        )


def _port_text(port: HostPort) -> str:
    ip = f"[{port.ip}]" if ":" in port.ip else port.ip
    address = "" if ip == _ANY_ADDRESS else f"{ip}:"
    return f"{address}{port.port}/{port.protocol}"


def without_volume(pod: PodInfo) -> Iterator[PodChange]:
    """Yield the pod without each of its volumes that a rule reads."""
    spec = pod.object.spec
    for number, volume in enumerate(spec.volumes):
        # Not by name: pods of one shape may name their volumes differently.
        if not meets_rules(volume):
            continue
        others = spec.volumes[:number] + spec.volumes[number + 1 :]
        claim = volume.persistent_volume_claim
        of_claim = f" (claim {claim.claim_name})" if claim is not None else ""
        yield PodChange(
            "volume",
            f"spec.volumes[{number}]",
            f"without the volume {volume.name}{of_claim}",
            with_spec(pod, replace(spec, volumes=others)),
        )


def _with_affinity(pod: PodInfo, affinity: Affinity) -> PodInfo:
    return with_spec(pod, replace(pod.object.spec, affinity=affinity))
