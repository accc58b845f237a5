"""Validates updates of a pod's status.

Upstream: pkg/apis/core/validation/validation.go ValidatePodStatusUpdate,
pkg/registry/core/pod/strategy.go podStatusStrategy
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    InOrder,
    Problem,
    ProblemType,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.kinds.checks import (
    IMMUTABLE,
    check_dns_label,
    check_ip,
    check_qualified_name,
    id_problems,
    is_dual_stack,
    parse_ip_sloppily,
)
from kubesched.cluster.apiserver.kinds.pod_options import PodOptions
from kubesched.cluster.apiserver.kinds.pod_updates import check_annotations
from kubesched.cluster.apiserver.names import subdomain_problems

_SYSTEM = ("PodScheduled", "Ready", "Initialized")
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_NOT_NEGATIVE = "must be a non-negative integer"


def keep_observed_generations(status: Document, old: Document) -> None:
    """Keep observedGeneration fields that old clients do not send."""
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    known: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        kind = condition.get("type") or ""
        known.setdefault(kind, []).append(condition.get("observedGeneration") or 0)
    for condition in status.get("conditions") or ():
        generations = known.get(condition.get("type") or "")
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def drop_disabled_status(status: Document, old: Document) -> None:
    """Drop fields of features that are off by default, unless the old status has them."""
    # Parity: pkg/api/pod/util.go dropDisabledPodStatusFields, v1.36 with default gates
    name = "nodeAllocatableResourceClaimStatuses"
    if not old.get(name):
        status.pop(name, None)
    if not any(mount.get("volumeStatus") is not None for mount in _mounts(old)):
        for mount in _mounts(status):
            mount.pop("volumeStatus", None)


def _mounts(status: Document) -> Iterator[Document]:
    for kind in _STATUSES:
        for one in status.get(kind) or ():
            yield from one.get("volumeMounts") or ()


def check_pod_status(new: Document, old: Document, options: PodOptions) -> list[Problem]:
    """Validate a status update."""
    out: list[Problem] = []
    check_annotations(new, old, options, out)
    status, old_status = new.get("status") or {}, old.get("status") or {}
    _check_conditions(status, out)
    _check_nomination(status, old_status, old["spec"], out)
    generation = status.get("observedGeneration") or 0
    if generation < 0:
        out.append(invalid("status.observedGeneration", generation, _NOT_NEGATIVE))
    quality = status.get("qosClass") or ""
    if quality != (old_status.get("qosClass") or ""):
        out.append(invalid("status.qosClass", quality, IMMUTABLE))
    for kind in _STATUSES:
        _check_transitions(kind, status, old_status, old["spec"], out)
    if status.get("resourceClaimStatuses"):
        _check_claim_statuses(status["resourceClaimStatuses"], new["spec"], out)
    if status.get("extendedResourceClaimStatus") is not None:
        _check_extended_claim(status["extendedResourceClaimStatus"], new["spec"], out)
    _check_ips(status, old_status, "podIPs", out)
    if status.get("hostIPs"):
        first = status["hostIPs"][0].get("ip") or ""
        if (status.get("hostIP") or "") != first:
            out.append(invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`"))
        _check_ips(status, old_status, "hostIPs", out)
    if (new["spec"].get("os") or {}).get("name") != "windows":
        _check_users(status, out)
    _check_device_health(status, new["spec"], out)
    return out


def _check_device_health(status: Document, spec: Document, out: list[Problem]) -> None:
    for kind in ("containerStatuses", "initContainerStatuses"):
        containers = {
            one.get("name"): one.get("resources") or {}
            for one in spec.get("initContainers" if kind.startswith("init") else "containers") or ()
        }
        for index, one in enumerate(status.get(kind) or ()):
            resources = containers.get(one.get("name"))
            for position, health in enumerate(one.get("allocatedResourcesStatus") or ()):
                path = f"status.{kind}[{index}].allocatedResourcesStatus[{position}]"
                if resources is not None:
                    _check_device_name(health.get("name") or "", resources, path, out)
                _check_devices(health.get("resources") or (), path, out)
    for index, one in enumerate(status.get("ephemeralContainerStatuses") or ()):
        if one.get("allocatedResourcesStatus"):
            path = f"status.ephemeralContainerStatuses[{index}].allocatedResourcesStatus"
            out.append(forbidden_field(path, "must not be specified in container status"))


def _check_device_name(name: str, resources: Document, path: str, out: list[Problem]) -> None:
    if name.startswith("claim:"):
        known = {
            f"claim:{claim.get('name') or ''}"
            + (f"/{claim['request']}" if claim.get("request") else "")
            for claim in resources.get("claims") or ()
        }
        text = (
            "must match one of the container's resource claims in a format "
            "'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
        )
    else:
        known = set(resources.get("requests") or ())
        text = "must match one of the container's resource requests"
    if name not in known:
        out.append(invalid(f"{path}.name", name, text))


def _check_devices(devices: Iterable[Document], path: str, out: list[Problem]) -> None:
    seen: set[str] = set()
    for index, device in enumerate(devices):
        child, health = f"{path}.resources[{index}]", device.get("health") or ""
        if health not in {"Healthy", "Unhealthy", "Unknown"}:
            known = ("Healthy", "Unhealthy", "Unknown")
            out.append(not_supported(f"{child}.health", health, known))
        message = device.get("message")
        if message is not None and not message:
            out.append(required(f"{child}.message", "must be non-empty if specified"))
        elif message is not None and len(message.encode()) > 1024:
            out.append(too_long(f"{child}.message", 1024))
        name = device.get("resourceID") or ""
        if name in seen:
            out.append(duplicate(f"{child}.resourceID", name))
        seen.add(name)


def _check_conditions(status: Document, out: list[Problem]) -> None:
    for index, condition in enumerate(status.get("conditions") or ()):
        path = f"status.conditions[{index}]"
        generation = condition.get("observedGeneration") or 0
        if generation < 0:
            out.append(invalid(f"{path}.observedGeneration", generation, _NOT_NEGATIVE))
        kind = condition.get("type") or ""
        if kind not in _SYSTEM:
            check_qualified_name(kind, f"{path}.Type", out)


def _check_nomination(
    status: Document, old_status: Document, spec: Document, out: list[Problem]
) -> None:
    name = status.get("nominatedNodeName") or ""
    if not name or name == (old_status.get("nominatedNodeName") or ""):
        return
    path = "status.nominatedNodeName"
    out.extend(invalid(path, name, text) for text in subdomain_problems(name))
    if spec.get("nodeName"):
        text = "may not be set on pods that are already bound to a node"
        out.append(forbidden_field(path, text))


def _check_transitions(
    kind: str, status: Document, old_status: Document, spec: Document, out: list[Problem]
) -> None:
    if kind != "ephemeralContainerStatuses" and _all_could_restart(spec):
        return
    by_name = {one.get("name"): one for one in reversed(status.get(kind) or [])}
    for index, old in enumerate(old_status.get(kind) or ()):
        ended = (old.get("state") or {}).get("terminated")
        new = by_name.get(old.get("name"))
        if ended is None or new is None or (new.get("state") or {}).get("terminated") is not None:
            continue
        if kind == "ephemeralContainerStatuses" or not _may_restart(
            kind, old.get("name"), ended.get("exitCode") or 0, spec
        ):
            text = "may not be transitioned to non-terminated state"
            out.append(forbidden_field(f"status.{kind}[{index}].state", text))


def _all_could_restart(spec: Document) -> bool:
    # Parity: pkg/api/v1/pod/util.go AllContainersCouldRestart, v1.36
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


def _may_restart(kind: str, name: str | None, exit_code: int, spec: Document) -> bool:
    # Parity: pkg/api/v1/pod/util.go ContainerShouldRestart, v1.36
    containers = spec.get("initContainers" if kind.startswith("init") else "containers") or ()
    found = next((container for container in containers if container.get("name") == name), None)
    if found is None:
        return False
    for rule in found.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        is_listed = exit_code in (codes.get("values") or ())
        if rule.get("action") == "Restart" and is_listed == (codes.get("operator") == "In"):
            return True
    policy = found.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _check_claim_statuses(statuses: list[Document], spec: Document, out: list[Problem]) -> None:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{index}]", status.get("name") or ""
        if name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            out.append(invalid(f"{path}.name", name, text))
        if name in seen:
            out.append(duplicate(f"{path}.name", name))
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            texts = subdomain_problems(claim)
            out.extend(invalid(f"{path}.resourceClaimName", claim, text) for text in texts)


def _check_extended_claim(status: Document, spec: Document, out: list[Problem]) -> None:
    path = "status.extendedResourceClaimStatus"
    containers = {
        one.get("name") or "": (one.get("resources") or {}).get("requests") or {}
        for kind in ("initContainers", "containers")
        for one in spec.get(kind) or ()
    }
    mappings = status.get("requestMappings") or []
    if not mappings:
        text = "at least one request mapping is required"
        out.append(required(f"{path}.requestMappings", text))
    seen: list[tuple[str, ...]] = []
    names = ("containerName", "resourceName", "requestName")
    for index, mapping in enumerate(mappings):
        child = f"{path}.requestMappings[{index}]"
        container, resource, request = key = tuple(mapping.get(name) or "" for name in names)
        start = "must match the"
        if container not in containers:
            text = f"{start} name of an entry in spec.initContainers.name or spec.containers.name"
            out.append(invalid(f"{child}.containerName", container, text))
        elif resource not in containers[container]:
            text = (
                f"{start} extended resource name of an entry in spec.initContainers.resources."
                "requests or spec.containers.resources.requests"
            )
            out.append(invalid(f"{child}.resourceName", resource, text))
        check_dns_label(request, f"{path}.requestName", out)
        if key in seen:
            out.extend(
                duplicate(f"{child}.{name}", value) for name, value in zip(names, key, strict=True)
            )
        seen.append(key)
    claim, child = status.get("resourceClaimName") or "", f"{path}.resourceClaimName"
    if not claim:
        out.append(required(child))
    else:
        out.extend(invalid(child, claim, text) for text in subdomain_problems(claim))


def _check_ips(status: Document, old_status: Document, name: str, out: list[Problem]) -> None:
    listed = [one.get("ip") or "" for one in status.get(name) or ()]
    known = tuple(one.get("ip") or "" for one in old_status.get(name) or ())
    for index, address in enumerate(listed):
        check_ip(address, f"status.{name}[{index}]", out, known)
    if len(listed) > 1:
        parsed = [parse_ip_sloppily(address) for address in listed]
        families = [one.version for one in parsed if one is not None]
        for index, one in enumerate(parsed):
            if one is None:
                text = "failed to check for dual stack with error:"
                text += f"invalid IP[{index}]: {listed[index]}"
                out.append(Problem(ProblemType.INTERNAL, f"status.{name}", None, text))
                families = []
                break
        if not is_dual_stack(families):
            internal = [InOrder(IP=address) for address in listed]
            text = "may specify no more than one IP for each IP family"
            out.append(invalid(f"status.{name}", internal, text))


def _check_users(status: Document, out: list[Problem]) -> None:
    for kind in _STATUSES:
        for index, one in enumerate(status.get(kind) or ()):
            user = (one.get("user") or {}).get("linux")
            if user is None:
                continue
            path = f"status.{kind}[{index}].user.linux"
            for name in ("uid", "gid"):
                number = user.get(name) or 0
                texts = id_problems(number)
                out.extend(invalid(f"{path}.{name}", number, text) for text in texts)
