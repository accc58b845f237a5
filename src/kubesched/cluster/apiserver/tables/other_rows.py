"""Table rows of networking, storage, RBAC, policy and device kinds.

Upstream: pkg/printers/internalversion/printers.go,
staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/etcd/etcd.go
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document, dig
from kubesched.cluster.apiserver.tables.cells import (
    NONE,
    UNSET,
    age,
    condition_status,
    human_duration,
    selector_text,
    shortened,
)
from kubesched.cluster.apiserver.tables.core_rows import balancer_text
from kubesched.golang.fmt import go_value


def _name(document: Document) -> str:
    return str(document["metadata"].get("name") or "")


def _spec(document: Document) -> Document:
    return document.get("spec") or {}


def ingress_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of an Ingress."""
    spec, class_name = _spec(one), _spec(one).get("ingressClassName")
    return [
        _name(one),
        NONE if class_name is None else class_name,
        _hosts(spec.get("rules") or []),
        balancer_text(dig(one, "status", "loadBalancer") or {}),
        "80, 443" if spec.get("tls") else "80",
        age(one, now_s),
    ]


def _hosts(rules: list[Document]) -> str:
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == 3:
            return f"{','.join(hosts)} + {len(rules) - 3} more..."
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


def ingress_class_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of an IngressClass."""
    spec = _spec(one)
    annotations = one["metadata"].get("annotations") or {}
    is_default = annotations.get("ingressclass.kubernetes.io/is-default-class") == "true"
    parameters = spec.get("parameters")
    cell = NONE
    if parameters is not None:
        kind = ".".join(filter(None, (parameters.get("kind"), parameters.get("apiGroup"))))
        cell = f"{kind}/{parameters.get('name', '')}"
    name = _name(one) + (" (default)" if is_default else "")
    return [name, spec.get("controller", ""), cell, age(one, now_s)]


def network_policy_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a NetworkPolicy."""
    return [_name(one), selector_text(_spec(one).get("podSelector") or {}), age(one, now_s)]


def service_cidr_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ServiceCIDR."""
    return [_name(one), ",".join(_spec(one).get("cidrs") or []), age(one, now_s)]


def ip_address_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of an IPAddress; like upstream, one more than it has columns."""
    parent = _spec(one).get("parentRef")
    cell = NONE
    if parent is not None:
        resource = ".".join(filter(None, (parent.get("resource"), parent.get("group"))))
        parts = (resource.lower(), parent.get("namespace"), parent.get("name", ""))
        cell = "/".join(part for part in parts if part is not None)
    return [_name(one), cell, age(one, now_s)]


def endpoint_slice_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of an EndpointSlice."""
    ports = [_slice_port(port) for port in one.get("ports") or []]
    addresses = [
        address for point in one.get("endpoints") or [] for address in point.get("addresses") or []
    ]
    return [
        _name(one),
        one.get("addressType", ""),
        shortened(ports),
        shortened(addresses),
        age(one, now_s),
    ]


def _slice_port(port: Document) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return "*" if port.get("name") is None else str(port["name"])


def binding_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a RoleBinding or ClusterRoleBinding."""
    role, subjects = one.get("roleRef") or {}, one.get("subjects") or []
    users = [s.get("name", "") for s in subjects if s.get("kind") == "User"]
    groups = [s.get("name", "") for s in subjects if s.get("kind") == "Group"]
    accounts = [
        f"{s.get('namespace', '')}/{s.get('name', '')}"
        for s in subjects
        if s.get("kind") == "ServiceAccount"
    ]
    return [
        _name(one),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(one, now_s),
        ", ".join(users),
        ", ".join(groups),
        ", ".join(accounts),
    ]


def storage_class_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a StorageClass."""
    annotations = one["metadata"].get("annotations") or {}
    prefixes = ("storageclass.kubernetes.io", "storageclass.beta.kubernetes.io")
    is_default = any(annotations.get(f"{prefix}/is-default-class") == "true" for prefix in prefixes)
    return [
        _name(one) + (" (default)" if is_default else ""),
        one.get("provisioner", ""),
        one.get("reclaimPolicy", "Delete"),
        one.get("volumeBindingMode", "Immediate"),
        bool(one.get("allowVolumeExpansion")),
        age(one, now_s),
    ]


def attributes_class_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a VolumeAttributesClass."""
    return [_name(one), one.get("driverName", ""), age(one, now_s)]


def attachment_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a VolumeAttachment."""
    spec = _spec(one)
    return [
        _name(one),
        spec.get("attacher", ""),
        dig(spec, "source", "persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool(dig(one, "status", "attached")),
        age(one, now_s),
    ]


def csi_node_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a CSINode."""
    return [_name(one), len(_spec(one).get("drivers") or []), age(one, now_s)]


def csi_driver_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a CSIDriver."""
    spec = _spec(one)
    requests = spec.get("tokenRequests")
    tokens = UNSET
    if requests is not None:
        tokens = ",".join(request.get("audience", "") for request in requests)
    return [
        _name(one),
        spec.get("attachRequired", True),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        tokens,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or []) or NONE,
        age(one, now_s),
    ]


def webhook_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a webhook configuration."""
    return [_name(one), len(one.get("webhooks") or []), age(one, now_s)]


def admission_policy_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a validating or mutating admission policy."""
    spec = _spec(one)
    rules = spec.get("validations") or spec.get("mutations") or []
    kind = spec.get("paramKind")
    cell = UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
    return [_name(one), len(rules), cell, age(one, now_s)]


def admission_binding_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of an admission policy binding."""
    spec = _spec(one)
    reference = spec.get("paramRef") or {}
    cell = UNSET
    if reference.get("name"):
        cell = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        cell = _selector_struct(reference["selector"])
    return [_name(one), spec.get("policyName", ""), cell, age(one, now_s)]


def _selector_struct(selector: Document) -> str:
    """Format a selector like the generated String method of its Go type."""
    pairs = "".join(
        f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items())
    )
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{expression.get('key', '')},"
        f"Operator:{expression.get('operator', '')},"
        f"Values:{go_value(expression.get('values') or [])},}},"
        for expression in selector.get("matchExpressions") or []
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def flow_schema_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a FlowSchema."""
    spec = _spec(one)
    return [
        _name(one),
        dig(spec, "priorityLevelConfiguration", "name") or "",
        spec.get("matchingPrecedence", 0),
        dig(spec, "distinguisherMethod", "type") or NONE,
        age(one, now_s),
        condition_status(dig(one, "status", "conditions"), "Dangling") or "?",
    ]


def priority_level_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a PriorityLevelConfiguration."""
    limited = _spec(one).get("limited")
    queuing = dig(limited, "limitResponse", "queuing")
    names = ("queues", "handSize", "queueLengthLimit")
    return [
        _name(one),
        _spec(one).get("type", ""),
        NONE if limited is None else limited.get("nominalConcurrencyShares", 0),
        *(NONE if queuing is None else queuing.get(name, 0) for name in names),
        age(one, now_s),
    ]


def priority_class_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a PriorityClass."""
    return [
        _name(one),
        one.get("value", 0),
        bool(one.get("globalDefault")),
        age(one, now_s),
        one.get("preemptionPolicy", ""),
    ]


def runtime_class_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a RuntimeClass."""
    return [_name(one), one.get("handler", ""), age(one, now_s)]


def lease_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a Lease."""
    return [_name(one), _spec(one).get("holderIdentity") or "", age(one, now_s)]


def signing_request_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a CertificateSigningRequest."""
    spec, seconds = _spec(one), _spec(one).get("expirationSeconds")
    return [
        _name(one),
        age(one, now_s),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        _signing_state(one.get("status") or {}),
    ]


def _signing_state(status: Document) -> str:
    kinds = {condition.get("type") for condition in status.get("conditions") or []}
    states = ["Pending"]
    if "Denied" in kinds:
        states = ["Denied"]
    elif "Approved" in kinds:
        states = ["Approved"]
    if "Failed" in kinds:
        states.append("Failed")
    if status.get("certificate"):
        states.append("Issued")
    return ",".join(states)


def resource_claim_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ResourceClaim."""
    is_deleted = bool(one["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if is_deleted else []
    if dig(one, "status", "allocation") is not None:
        states.append("allocated")
        if dig(one, "status", "reservedFor"):
            states.append("reserved")
    elif not is_deleted:
        states.append("pending")
    return [_name(one), ",".join(states), age(one, now_s)]


def resource_slice_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of a ResourceSlice."""
    spec = _spec(one)
    return [
        _name(one),
        spec.get("nodeName") or "",
        spec.get("driver", ""),
        dig(spec, "pool", "name") or "",
        age(one, now_s),
    ]


def api_service_row(one: Document, now_s: float) -> list[Any]:
    """Return the cells of an APIService."""
    service = _spec(one).get("service")
    cell = "Local"
    if service is not None:
        cell = f"{service.get('namespace', '')}/{service.get('name', '')}"
    state = "Unknown"
    for condition in dig(one, "status", "conditions") or []:
        if condition.get("type") == "Available":
            state, reason = condition.get("status", ""), condition.get("reason")
            if state != "True" and reason:
                state = f"{state} ({reason})"
            break
    return [_name(one), cell, state, age(one, now_s)]
