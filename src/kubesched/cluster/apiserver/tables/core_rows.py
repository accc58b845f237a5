"""Table rows of the core group and of events. Pods are in pod_rows.

Upstream: pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.tables.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    age,
    containers_cells,
    labels_text,
    since,
)

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def _name(document: Document) -> str:
    return str(document["metadata"].get("name") or "")


def namespace_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a Namespace."""
    return [_name(one), (one.get("status") or {}).get("phase", ""), age(one, now_s)]


def config_map_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ConfigMap."""
    count = len(one.get("data") or {}) + len(one.get("binaryData") or {})
    return [_name(one), count, age(one, now_s)]


def secret_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a Secret."""
    return [_name(one), one.get("type", ""), len(one.get("data") or {}), age(one, now_s)]


def name_and_age_row(one: Document, now_s: float) -> list[Any]:
    """Return name and age."""
    return [_name(one), age(one, now_s)]


def node_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a Node."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    info = status.get("nodeInfo") or {}
    ready = [c for c in status.get("conditions") or [] if c.get("type") == "Ready"]
    states = ["Unknown"]
    if ready:
        states = ["Ready" if ready[-1].get("status") == "True" else "NotReady"]
    if spec.get("unschedulable"):
        states.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        _name(one),
        ",".join(states),
        ",".join(_roles(one)) or NONE,
        age(one, now_s),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(node: Document) -> list[str]:
    roles = set()
    for key, value in (node["metadata"].get("labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return sorted(roles - {""})


def _address(status: Document, kind: str) -> str:
    for address in status.get("addresses") or []:
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return NONE


def service_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a Service."""
    spec = one.get("spec") or {}
    addresses = spec.get("clusterIPs") or [NONE]
    return [
        _name(one),
        spec.get("type", ""),
        addresses[0],
        _external_address(spec, one.get("status") or {}),
        ",".join(_port(port) for port in spec.get("ports") or []) or NONE,
        age(one, now_s),
        labels_text(spec.get("selector")),
    ]


def _port(port: Document) -> str:
    protocol = port.get("protocol", "")
    if port.get("nodePort"):
        return f"{port.get('port', 0)}:{port['nodePort']}/{protocol}"
    return f"{port.get('port', 0)}/{protocol}"


def _external_address(spec: Document, status: Document) -> str:
    external = spec.get("externalIPs") or []
    kind = spec.get("type")
    if kind in {"ClusterIP", "NodePort"}:
        return ",".join(external) or NONE
    if kind == "LoadBalancer":
        balanced = balancer_text(status.get("loadBalancer") or {})
        return ",".join([*([balanced] if balanced else []), *external]) or "<pending>"
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    return UNKNOWN


def balancer_text(balancer: Document) -> str:
    """Return the addresses of a load balancer."""
    points = balancer.get("ingress") or []
    return ",".join(sorted({p.get("ip") or p.get("hostname") or "" for p in points} - {""}))


def endpoints_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of Endpoints."""
    listed: list[str] = []
    for subset in one.get("subsets") or []:
        addresses = [address.get("ip", "") for address in subset.get("addresses") or []]
        ports = subset.get("ports") or []
        if not ports:
            listed += addresses
        listed += [_host_port(ip, port.get("port", 0)) for port in ports for ip in addresses]
    text = ",".join(listed[:3])
    if len(listed) > 3:
        text += f" + {len(listed) - 3} more..."
    return [_name(one), text if one.get("subsets") else NONE, age(one, now_s)]


def _host_port(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def volume_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a PersistentVolume."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    claim = spec.get("claimRef")
    return [
        _name(one),
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(one),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(one),
        _or_unset(spec.get("volumeAttributesClassName")),
        status.get("reason", ""),
        age(one, now_s),
        _or_unset(spec.get("volumeMode")),
    ]


def claim_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a PersistentVolumeClaim."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    volume = spec.get("volumeName") or ""
    return [
        _name(one),
        _phase(one),
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        _class(one),
        _or_unset(spec.get("volumeAttributesClassName")),
        age(one, now_s),
        _or_unset(spec.get("volumeMode")),
    ]


def _or_unset(value: str | None) -> str:
    return UNSET if value is None else value


def _phase(one: Document) -> str:
    if one["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str((one.get("status") or {}).get("phase", ""))


def _class(one: Document) -> str:
    annotations = one["metadata"].get("annotations") or {}
    named = (one.get("spec") or {}).get("storageClassName") or ""
    return str(annotations.get(_BETA_CLASS, named))


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or []))


def event_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of an Event of either group."""
    target = one.get("involvedObject") or one.get("regarding") or {}
    series = one.get("series")
    first = one.get("firstTimestamp") or one.get("deprecatedFirstTimestamp")
    first_seen = since(first or one.get("eventTime"), now_s)
    last = one.get("lastTimestamp") or one.get("deprecatedLastTimestamp")
    last_seen = since(last, now_s) if last else first_seen
    count = one.get("count") or one.get("deprecatedCount") or 1
    if series is not None:
        last_seen = since(series.get("lastObservedTime"), now_s)
        count = series.get("count") or 0
    kind, name = str(target.get("kind", "")).lower(), target.get("name")
    return [
        last_seen,
        one.get("type", ""),
        one.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        target.get("fieldPath", ""),
        _source(one),
        str(one.get("message") or one.get("note") or "").strip(),
        first_seen,
        count,
        _name(one),
    ]


def _source(event: Document) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    reporting = event.get("reportingComponent") or event.get("reportingController")
    component = source.get("component") or reporting or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else str(component)


def quota_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ResourceQuota."""
    status = one.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [_name(one), ", ".join(requests), ", ".join(limits), age(one, now_s)]


def pod_template_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a PodTemplate."""
    template = one.get("template") or {}
    names, images = containers_cells((template.get("spec") or {}).get("containers"))
    return [_name(one), names, images, labels_text((template.get("metadata") or {}).get("labels"))]


def component_status_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ComponentStatus."""
    for condition in one.get("conditions") or []:
        if condition.get("type") == "Healthy":
            state = "Healthy" if condition.get("status") == "True" else "Unhealthy"
            return [_name(one), state, condition.get("message", ""), condition.get("error", "")]
    return [_name(one), "Unknown", "", ""]
