"""Defaults of PodSpec, also inside pod templates.

Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/core/v1/zz_generated.defaults.go
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.kinds.images import default_pull_policy
from kubesched.cluster.apiserver.kinds.quantities import (
    POD_LEVEL,
    aggregate,
    allows_overcommit,
    is_huge_page,
    round_list,
)
from kubesched.cluster.apiserver.kinds.volume_defaults import default_volume

_SPEC = (
    ("dnsPolicy", "ClusterFirst"),
    ("restartPolicy", "Always"),
    ("schedulerName", "default-scheduler"),
)
_PROBE = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1))
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod(document: Document) -> None:
    """Set the defaults of a pod."""
    spec = document.setdefault("spec", {})
    _default_requests(spec)
    if spec.get("resources") is not None:
        _default_pod_level(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    default_pod_spec(spec)
    # Parity: pkg/apis/core/v1/conversion.go Convert_v1_Pod_To_core_Pod, v1.36; templates keep it.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    status = document.get("status")
    if status:
        _default_status(status)


def default_pod_spec(spec: Document) -> None:
    """Set the defaults of the spec of a pod or of a template."""
    _alias_service_account(spec)
    for name, value in _SPEC:
        if not spec.get(name):
            spec[name] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            _default_container(container)
    round_list(spec.get("overhead"))
    resources = spec.get("resources")
    if resources:
        round_list(resources.get("limits"))
        round_list(resources.get("requests"))


def _alias_service_account(spec: Document) -> None:
    """Set serviceAccountName and the deprecated serviceAccount alike, as conversion does."""
    # Parity: pkg/apis/core/v1/conversion.go Convert_v1_PodSpec_To_core_PodSpec and back, v1.36
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _default_requests(spec: Document) -> None:
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container.get("resources")
            limits = resources.get("limits") if resources else None
            if limits:
                requests = resources.get("requests")
                resources["requests"] = {**limits, **requests} if requests else dict(limits)


def _default_host_ports(spec: Document) -> None:
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def _default_pod_level(spec: Document) -> None:
    """Default pod-level requests from limits and containers."""
    resources = spec["resources"]
    limits = dict(resources.get("limits") or {})
    requests = dict(resources.get("requests") or {})
    if limits or requests:
        huge = aggregate(spec, "limits").items()
        limits |= {
            name: text
            for name, text in huge
            if is_huge_page(name) and name not in requests and name not in limits
        }
    if not limits:
        return
    resources["limits"] = limits
    for name, text in aggregate(spec, "requests").items():
        if name not in requests and _is_pod_level(name) and allows_overcommit(name):
            requests[name] = text
    for name, text in limits.items():
        if name not in requests and _is_pod_level(name):
            requests[name] = text
    if requests:
        resources["requests"] = requests


def _is_pod_level(name: str) -> bool:
    return name in POD_LEVEL or is_huge_page(name)


_CONTAINER = (
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "File"),
)


def _default_container(container: Document) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = default_pull_policy(container.get("image") or "")
    for name, value in _CONTAINER:
        if not container.get(name):
            container[name] = value
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        if variable.get("valueFrom"):
            _default_env_source(variable["valueFrom"])
    resources = container.get("resources")
    if resources:
        round_list(resources.get("limits"))
        round_list(resources.get("requests"))
    _default_handlers(container)


def _default_handlers(container: Document) -> None:
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for name in ("postStart", "preStop"):
            _default_http_get((lifecycle.get(name) or {}).get("httpGet"))


def _default_env_source(source: Document) -> None:
    field = source.get("fieldRef")
    if field is not None and not field.get("apiVersion"):
        field["apiVersion"] = "v1"
    file = source.get("fileKeyRef")
    if file is not None and file.get("optional") is None:
        file["optional"] = False


def _default_probe(probe: Document) -> None:
    for name, value in _PROBE:
        if not probe.get(name):
            probe[name] = value
    if not probe.get("failureThreshold"):
        probe["failureThreshold"] = 3
    _default_http_get(probe.get("httpGet"))
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http_get(action: Document | None) -> None:
    if action is None:
        return
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def _default_status(status: Document) -> None:
    _mirror_ips(status, "podIP", "podIPs")
    round_list(status.get("allocatedResources"))
    whole: dict[str, Any] = status.get("resources") or {}
    round_list(whole.get("limits"))
    round_list(whole.get("requests"))
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for one in status.get(kind) or ():
            round_list(one.get("allocatedResources"))
            resources: dict[str, Any] = one.get("resources") or {}
            round_list(resources.get("limits"))
            round_list(resources.get("requests"))


def _mirror_ips(status: Document, single: str, several: str) -> None:
    """Keep podIP and podIPs consistent, as conversion does."""
    # Parity: pkg/apis/core/v1/conversion.go Convert_v1_PodStatus_To_core_PodStatus, v1.36
    first, listed = status.get(single), status.get(several)
    if (first and not listed) or (listed and first and listed[0].get("ip") != first):
        status[several] = [{"ip": first}]
    elif listed and not first:
        status[single] = listed[0].get("ip") or ""
