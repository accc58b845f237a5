"""Validates containers: regular, init and ephemeral.

Upstream: pkg/apis/core/validation/validation.go validateContainerCommon, validateContainers,
validateInitContainers, validateEphemeralContainers
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    field_not_found,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubesched.cluster.apiserver.kinds.checks import (
    check_dns_label,
    port_name_problems,
    port_number_problems,
)
from kubesched.cluster.apiserver.kinds.environment import check_env, check_env_from
from kubesched.cluster.apiserver.kinds.handlers import (
    check_lifecycle,
    check_liveness_probe,
    check_readiness_probe,
)
from kubesched.cluster.apiserver.kinds.mounts import check_devices, check_mounts
from kubesched.cluster.apiserver.kinds.pod_options import PodOptions
from kubesched.cluster.apiserver.kinds.quantities import check_requirements
from kubesched.cluster.apiserver.kinds.security import check_security_context

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_FORBIDDEN_IN_EPHEMERAL = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe",
    "readinessProbe", "startupProbe", "lifecycle",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context of the validation of a container."""

    volumes: dict[str, Document]
    claim_names: frozenset[str]
    options: PodOptions
    restart_policy: str
    uses_host_users: bool
    grace_s: int | None


def check_containers(
    containers: list[Document], around: Surroundings, path: str, out: list[Problem]
) -> None:
    """Validate regular containers, adding errors."""
    if not containers:
        out.append(required(path))
        return
    seen: set[str] = set()
    has_host_ports = False
    for index, container in enumerate(containers):
        child = f"{path}[{index}]"
        _check_common(container, around, child, out)
        name = container.get("name") or ""
        if name in seen:
            out.append(duplicate(f"{child}.name", name))
        seen.add(name)
        _check_hooks(container, around, child, out)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            _check_restart(container, child, out)
        has_host_ports = has_host_ports or bool(container.get("ports"))
    if has_host_ports:
        check_host_ports(containers, path, out)


def check_init_containers(
    containers: list[Document],
    regular: list[Document],
    around: Surroundings,
    path: str,
    out: list[Problem],
) -> None:
    """Validate init containers, adding errors."""
    seen = {container.get("name") or "" for container in regular}
    for index, container in enumerate(containers):
        child = f"{path}[{index}]"
        _check_common(container, around, child, out)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            _check_restart(container, child, out)
        name = container.get("name") or ""
        if name in seen:
            out.append(duplicate(f"{child}.name", name))
        elif name:
            seen.add(name)
        check_host_ports([container], path, out)
        if container.get("restartPolicy") == "Always":
            _check_hooks(container, around, child, out)
            continue
        out.extend(
            forbidden_field(f"{child}.{field}", _ONLY_SIDECARS)
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            if container.get(field) is not None
        )
        if not around.options.restart_container_of_init:
            _check_init_resize(container, child, out)


def _check_init_resize(container: Document, path: str, out: list[Problem]) -> None:
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        if policy.get("restartPolicy") == "RestartContainer":
            child = f"{path}.resizePolicy[{index}].restartPolicy"
            text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            out.append(invalid(child, "RestartContainer", text))


def check_ephemeral_containers(
    spec: Document, around: Surroundings, path: str, out: list[Problem]
) -> None:
    """Validate ephemeral containers, adding errors."""
    others = {
        container.get("name") or ""
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    }
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        child = f"{path}[{index}]"
        _check_common(container, around, child, out)
        check_image_text(container, child, out)
        name = container.get("name") or ""
        if name in seen:
            out.append(duplicate(f"{child}.name", name))
        seen.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            out.append(field_not_found(f"{child}.targetContainerName", target))
        out.extend(
            forbidden_field(f"{child}.{field}", _NOT_EPHEMERAL)
            for field in _FORBIDDEN_IN_EPHEMERAL
            if container.get(field)
        )
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    where = f"{child}.volumeMounts[{position}].{field}"
                    out.append(forbidden_field(where, _NOT_EPHEMERAL))


def check_image_text(container: Document, path: str, out: list[Problem]) -> None:
    """Append an error if an image has leading or trailing whitespace, except in templates."""
    image = container.get("image") or ""
    if image != image.strip():
        text = "must not have leading or trailing whitespace"
        out.append(invalid(f"{path}.image", image, text))


def _check_common(container: Document, around: Surroundings, path: str, out: list[Problem]) -> None:
    name = container.get("name") or ""
    if not name:
        out.append(required(f"{path}.name"))
    else:
        check_dns_label(name, f"{path}.name", out)
    if not container.get("image"):
        out.append(required(f"{path}.image"))
    _check_message_policy(container.get("terminationMessagePolicy") or "", path, out)
    _check_lists(container, around, path, out)
    check_pull_policy(container.get("imagePullPolicy") or "", f"{path}.imagePullPolicy", out)
    check_requirements(
        container.get("resources"),
        f"{path}.resources",
        out,
        claim_names=around.claim_names,
        allow_indivisible=around.options.indivisible_huge_pages,
    )
    if container.get("resizePolicy"):
        child = f"{path}.resizePolicy"
        _check_resize_policy(container["resizePolicy"], around.restart_policy, child, out)
    if container.get("securityContext") is not None:
        child = f"{path}.securityContext"
        check_security_context(
            container["securityContext"], child, out, uses_host_users=around.uses_host_users
        )


def _check_lists(container: Document, around: Surroundings, path: str, out: list[Problem]) -> None:
    if container.get("ports"):
        _check_ports(container["ports"], f"{path}.ports", out)
    if container.get("env"):
        check_env(container["env"], f"{path}.env", out)
    if container.get("envFrom"):
        check_env_from(container["envFrom"], f"{path}.envFrom", out)
    if container.get("volumeMounts"):
        check_mounts(container, around.volumes, f"{path}.volumeMounts", out)
    if container.get("volumeDevices"):
        check_devices(container, around.volumes, f"{path}.volumeDevices", out)


def _check_message_policy(policy: str, path: str, out: list[Problem]) -> None:
    known = ("File", "FallbackToLogsOnError")
    if policy in known:
        return
    child = f"{path}.terminationMessagePolicy"
    out.append(not_supported(child, policy, known) if policy else required(child))


def check_pull_policy(policy: str, path: str, out: list[Problem]) -> None:
    """Validate an image pull policy, adding errors."""
    if policy in _PULL_POLICIES:
        return
    out.append(not_supported(path, policy, _PULL_POLICIES) if policy else required(path))


def _check_hooks(container: Document, around: Surroundings, path: str, out: list[Problem]) -> None:
    lifecycle = container.get("lifecycle")
    if lifecycle is not None:
        check_lifecycle(lifecycle, around.grace_s, f"{path}.lifecycle", out)
    if container.get("livenessProbe") is not None:
        check_liveness_probe(container["livenessProbe"], f"{path}.livenessProbe", out)
    if container.get("readinessProbe") is not None:
        check_readiness_probe(container["readinessProbe"], f"{path}.readinessProbe", out)
    if container.get("startupProbe") is not None:
        check_liveness_probe(container["startupProbe"], f"{path}.startupProbe", out)


def _check_ports(ports: list[Document], path: str, out: list[Problem]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        child = f"{path}[{index}]"
        name = port.get("name")
        if name:
            if texts := port_name_problems(name):
                out.extend(invalid(f"{child}.name", name, text) for text in texts)
            elif name in seen:
                out.append(duplicate(f"{child}.name", name))
            else:
                seen.add(name)
        number = port.get("containerPort") or 0
        if not number:
            out.append(required(f"{child}.containerPort"))
        elif texts := port_number_problems(number):
            out.extend(invalid(f"{child}.containerPort", number, text) for text in texts)
        host = port.get("hostPort") or 0
        if host and (texts := port_number_problems(host)):
            out.extend(invalid(f"{child}.hostPort", host, text) for text in texts)
        check_protocol(port.get("protocol") or "", f"{child}.protocol", out)


def check_protocol(protocol: str, path: str, out: list[Problem]) -> None:
    """Validate a port's protocol, adding errors."""
    if protocol in PROTOCOLS:
        return
    out.append(not_supported(path, protocol, PROTOCOLS) if protocol else required(path))


def check_host_ports(containers: list[Document], path: str, out: list[Problem]) -> None:
    """Add errors for duplicate host ports."""
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            number = port.get("hostPort")
            if not number:
                continue
            key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{number}"
            if key in seen:
                out.append(duplicate(f"{path}[{index}].ports[{position}].hostPort", key))
            seen.add(key)


def _check_resize_policy(
    policies: list[Document], pod_restart_policy: str, path: str, out: list[Problem]
) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource = policy.get("resourceName") or ""
        restart = policy.get("restartPolicy") or ""
        if resource in seen:
            out.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        for value, known in (
            (resource, ("cpu", "memory")),
            (restart, ("NotRequired", "RestartContainer")),
        ):
            if value not in known:
                out.append(not_supported(path, value, known) if value else required(path))
        if pod_restart_policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            out.append(invalid(path, restart, text))


def _check_restart(container: Document, path: str, out: list[Problem]) -> None:
    policy = container.get("restartPolicy")
    rules = container.get("restartPolicyRules") or []
    child = f"{path}.restartPolicy"
    if policy is None:
        out.append(required(child, "must specify restartPolicy when restart rules are used"))
        if path.rpartition(".")[2].startswith("initContainers"):
            return
    elif policy not in _RESTART_POLICIES:
        out.append(not_supported(child, policy, _RESTART_POLICIES))
    if len(rules) > 20:
        out.append(too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        _check_restart_rule(rule, f"{path}.restartPolicyRules[{index}]", out)


def _check_restart_rule(rule: Document, path: str, out: list[Problem]) -> None:
    action = rule.get("action") or ""
    if action not in _RULE_ACTIONS:
        out.append(not_supported(f"{path}.action", action, _RULE_ACTIONS))
    codes = rule.get("exitCodes")
    if codes is None:
        out.append(required(f"{path}.exitCodes", "must be specified"))
        return
    operator = codes.get("operator") or ""
    if operator not in {"In", "NotIn"}:
        out.append(not_supported(f"{path}.exitCodes.operator", operator, ["In", "NotIn"]))
    values = codes.get("values") or []
    if len(values) > 255:
        out.append(too_many(f"{path}.exitCodes.values", len(values), 255))
