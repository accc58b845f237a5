"""Warnings about pods.

Upstream: pkg/api/pod/warnings.go, pkg/api/node/util.go
"""

from __future__ import annotations

from typing import Any

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.kinds.annotations import SECCOMP_CONTAINER, SECCOMP_POD
from kubesched.cluster.apiserver.kinds.checks import ip_warnings, value_problems
from kubesched.cluster.apiserver.kinds.pod_options import all_containers
from kubesched.cluster.apiserver.kinds.volume_warnings import volume_warnings
from kubesched.golang.strconv import go_quote

DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def pod_warnings(holder: Document, path: str) -> list[str]:
    """Return warnings about a pod, or about the template at a path."""
    start = f"{path}." if path else ""
    spec_path = f"{start}spec"
    spec = holder.get("spec") or {}
    annotations = (holder.get("metadata") or {}).get("annotations") or {}
    found: list[str] = []
    _placement(spec, spec_path, found)
    for key, text in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            found.append(f"{start}metadata.annotations[{key}]: {text}")
    if spec.get("volumes"):
        found.extend(volume_warnings(spec["volumes"], f"{spec_path}.volumes"))
    _duplicates(spec, spec_path, found)
    overhead = spec.get("overhead") or {}
    for name in ("memory", "ephemeral-storage"):
        _fraction(overhead, name, f"{spec_path}.overhead", found)
    context = spec.get("securityContext") or {}
    if SECCOMP_POD in annotations and context.get("seccompProfile") is None:
        found.append(f"{start}metadata.annotations[{SECCOMP_POD}]: {_SECCOMP}")
    for kind, index, container in all_containers(spec):
        own = f"{spec_path}.{kind}[{index}]"
        _container(container, annotations, own, f"{start}metadata.annotations", found)
    _ports(spec, spec_path, found)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{spec_path}.terminationGracePeriodSeconds: {text}")
    _null_selectors(spec, spec_path, found)
    for index, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        found.extend(ip_warnings(server, f"{spec_path}.dnsConfig.nameservers[{index}]"))
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        found.extend(ip_warnings(alias.get("ip") or "", f"{spec_path}.hostAliases[{index}].ip"))
    return found


def _placement(spec: Document, path: str, found: list[str]) -> None:
    found.extend(
        f"{path}.nodeSelector[{key}]: {DEPRECATED_LABELS[key]}"
        for key in spec.get("nodeSelector") or ()
        if key in DEPRECATED_LABELS
    )
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    child = f"{path}.affinity.nodeAffinity"
    for index, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        own = f"{child}.{_REQUIRED}.nodeSelectorTerms[{index}]"
        node_term_warnings(term, own, found, checks_values=False)
    for index, term in enumerate(affinity.get(_PREFERRED) or ()):
        own = f"{child}.{_PREFERRED}[{index}].preference"
        node_term_warnings(term.get("preference") or {}, own, found, checks_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        own = f"{path}.topologySpreadConstraints[{index}]"
        key = constraint.get("topologyKey") or ""
        if key in DEPRECATED_LABELS:
            found.append(f"{own}.topologyKey: {key} is {DEPRECATED_LABELS[key]}")
        if constraint.get("labelSelector") is None:
            found.append(f"{own}.labelSelector: {_NULL_SELECTOR}")


def node_term_warnings(term: Document, path: str, found: list[str], *, checks_values: bool) -> None:
    """Add warnings about a term of a node selector."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        own, key = f"{path}.matchExpressions[{index}]", expression.get("key") or ""
        if key in DEPRECATED_LABELS:
            found.append(f"{own}.key: {key} is {DEPRECATED_LABELS[key]}")
        if checks_values:
            for position, value in enumerate(expression.get("values") or ()):
                for text in value_problems(value):
                    found.append(f"{own}.values[{position}]: {value} is invalid, {text}")  # noqa: PERF401


def _duplicates(spec: Document, path: str, found: list[str]) -> None:
    for name, field in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(name) or ()):
            value = item.get(field) or ""
            if value in seen:
                where = f"{path}.{name}[{index}].{field}"
                found.append(f"{where}: duplicate {field} {go_quote(value)}")
            seen.add(value)
    for index, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            found.append(f'{path}.imagePullSecrets[{index}].name: invalid empty name ""')


def _fraction(amounts: dict[str, str], name: str, path: str, found: list[str]) -> None:
    text = amounts.get(name)
    if text is not None and parse_quantity(text).milli_value() % 1000:
        reason = "is invalid, must be an integer"
        found.append(f"{path}[{name}]: fractional byte value {go_quote(text)} {reason}")


def _container(
    container: Document,
    annotations: dict[str, str],
    path: str,
    annotations_path: str,
    found: list[str],
) -> None:
    if annotations:
        key = f"{SECCOMP_CONTAINER}{container.get('name') or ''}"
        context = container.get("securityContext") or {}
        if key in annotations and context.get("seccompProfile") is None:
            found.append(f"{annotations_path}[{key}]: {_SECCOMP}")
    resources = container.get("resources")
    if resources:
        for name in ("memory", "ephemeral-storage"):
            for which in ("limits", "requests"):
                amounts = resources.get(which) or {}
                _fraction(amounts, name, f"{path}.resources.{which}", found)
    variables = container.get("env") or ()
    if len(variables) > 1:
        _hidden_variables(variables, path, found)


def _hidden_variables(variables: Any, path: str, found: list[str]) -> None:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        if name not in seen:
            seen.add(name)
        elif variable.get("valueFrom") is not None or value == reference or reference not in value:
            text = f"hides previous definition of {go_quote(name)}, which may be dropped when"
            found.append(f"{path}.env[{index}]: {text} using apply")


def _ports(spec: Document, path: str, found: list[str]) -> None:
    ports = [
        (f"{path}.{kind}[{index}].ports[{position}]", port)
        for kind, index, container in all_containers(spec)
        for position, port in enumerate(container.get("ports") or ())
    ]
    known: dict[tuple[Any, Any], list[tuple[str, Document]]] = {}
    for child, port in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            found.append(f"{child}: hostIP set without hostPort: {_go_port(port)}")
        key = (port.get("containerPort"), port.get("protocol"))
        others = known.setdefault(key, [])
        for there, other in others:
            text = _clash(port, other)
            if text:
                found.append(f"{child}: {text} port definition with {there}")
        others.append((child, port))
    names: dict[str, str] = {}
    for child, port in ports:
        name = port.get("name")
        if name and name in names:
            first = names[name]
            text = "services and probes that select ports by name will use"
            found.append(
                f"{child}: duplicate port name {go_quote(name)} with {first}, {text} {first}"
            )
        elif name:
            names[name] = child


def _clash(port: Document, other: Document) -> str:
    mine, theirs = port.get("hostPort") or 0, other.get("hostPort") or 0
    my_ip, their_ip = port.get("hostIP") or "", other.get("hostIP") or ""
    if my_ip == their_ip and mine == theirs:
        return "duplicate"
    if not mine or not theirs:
        return "overlapping"
    if mine == theirs and bool(my_ip) != bool(their_ip):
        return "dangerously ambiguous"
    return ""


def _go_port(port: Document) -> str:
    return (
        f"{{Name:{port.get('name') or ''} HostPort:{port.get('hostPort') or 0} "
        f"ContainerPort:{port.get('containerPort') or 0} Protocol:{port.get('protocol') or ''} "
        f"HostIP:{port.get('hostIP') or ''}}}"
    )


def _null_selectors(spec: Document, path: str, found: list[str]) -> None:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        child = f"{path}.affinity.{kind}"
        for index, term in enumerate(part.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                found.append(f"{child}.{_REQUIRED}[{index}].labelSelector: {_NULL_SELECTOR}")
        for index, term in enumerate(part.get(_PREFERRED) or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                own = f"{child}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector"
                found.append(f"{own}: {_NULL_SELECTOR}")
