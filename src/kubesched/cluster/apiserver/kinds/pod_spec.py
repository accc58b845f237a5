"""Validates PodSpec, in pods and pod templates.

Upstream: pkg/apis/core/validation/validation.go ValidatePodSpec, ValidatePodTemplateSpec
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.documents import Document, dig, name_of
from kubesched.cluster.apiserver.errors import (
    InOrder,
    Problem,
    duplicate,
    field_not_found,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.kinds.annotations import (
    check_pod_annotations,
    check_profiles_match,
)
from kubesched.cluster.apiserver.kinds.checks import (
    INT32_MAX,
    check_dns_label,
    check_ip,
    check_qualified_name,
    check_subdomain,
    key_problems,
    range_text,
    underscored_subdomain_problems,
)
from kubesched.cluster.apiserver.kinds.containers import (
    Surroundings,
    check_containers,
    check_ephemeral_containers,
    check_image_text,
    check_init_containers,
)
from kubesched.cluster.apiserver.kinds.placement import (
    check_affinity,
    check_spread,
    check_tolerations,
)
from kubesched.cluster.apiserver.kinds.pod_options import (
    STRICT_TEMPLATE,
    PodOptions,
    all_containers,
)
from kubesched.cluster.apiserver.kinds.quantities import (
    aggregate,
    check_pod_resource_name,
    check_requirements,
    is_huge_page,
)
from kubesched.cluster.apiserver.kinds.security import check_pod_security_context
from kubesched.cluster.apiserver.kinds.selectors import check_labels
from kubesched.cluster.apiserver.kinds.volumes import check_volumes
from kubesched.cluster.apiserver.kinds.windows import check_host_process, check_linux, check_windows
from kubesched.cluster.apiserver.names import subdomain_problems

MIRROR = "kubernetes.io/config.mirror"
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def check_pod_template(
    template: Document, path: str, out: list[Problem], options: PodOptions = STRICT_TEMPLATE
) -> None:
    """Validate a pod template, adding errors."""
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    check_labels(metadata.get("labels"), f"{path}.labels", out)
    check_annotation_keys(annotations, f"{path}.annotations", out)
    check_pod_annotations(annotations, spec, f"{path}.annotations", options, out)
    check_pod_spec(spec, None, f"{path}.spec", options, out)
    check_profiles_match(annotations, spec, f"{path}.spec", out)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        out.append(forbidden_field(f"{path}.spec.ephemeralContainers", text))


def check_annotation_keys(annotations: dict[str, str], path: str, out: list[Problem]) -> None:
    """Validate the keys and the size of annotations, adding errors."""
    for key in annotations:
        out.extend(invalid(path, key, text) for text in key_problems(key.lower()))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > 256 * 1024:
        out.append(too_long(path, 256 * 1024))


def check_pod_metadata_and_spec(pod: Document, options: PodOptions, out: list[Problem]) -> None:
    """Validate a new or updated pod, adding errors."""
    spec = pod["spec"]
    annotations = pod["metadata"].get("annotations") or {}
    check_pod_annotations(annotations, spec, "metadata.annotations", options, out)
    check_pod_spec(spec, pod, "spec", options, out)
    if not spec.get("serviceAccountName"):
        _check_no_tokens(spec, out)
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            check_image_text(container, f"spec.{kind}[{index}]", out)


def _check_no_tokens(spec: Document, out: list[Problem]) -> None:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                where = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                text = "must not be specified when serviceAccountName is not set"
                out.append(forbidden_field(where, text))


def check_pod_spec(
    spec: Document, pod: Document | None, path: str, options: PodOptions, out: list[Problem]
) -> None:
    """Validate a PodSpec in upstream's order; the pod is None for templates."""
    grace_s = spec.get("terminationGracePeriodSeconds")
    if grace_s is None:
        out.append(required(f"{path}.terminationGracePeriodSeconds"))
    pod_name = name_of(pod) if pod is not None else ""
    volumes = spec.get("volumes") or []
    found = check_volumes(volumes, pod_name, options, f"{path}.volumes", out) if volumes else {}
    claims = spec.get("resourceClaims") or []
    if claims:
        _check_resource_claims(claims, pod, f"{path}.resourceClaims", out)
    around = Surroundings(
        volumes=found,
        claim_names=frozenset(claim["name"] for claim in claims if claim.get("name")),
        options=options,
        restart_policy=spec.get("restartPolicy") or "",
        uses_host_users=spec.get("hostUsers") is not False,
        grace_s=grace_s,
    )
    containers = spec.get("containers") or []
    check_containers(containers, around, f"{path}.containers", out)
    if spec.get("initContainers"):
        child = f"{path}.initContainers"
        check_init_containers(spec["initContainers"], containers, around, child, out)
    if spec.get("ephemeralContainers"):
        check_ephemeral_containers(spec, around, f"{path}.ephemeralContainers", out)
    if spec.get("resources") is not None:
        _check_pod_resources(spec, around, f"{path}.resources", out)
    _check_middle(spec, options, path, out)
    _check_names(spec, path, out)
    _check_end(spec, options, path, out)


def _check_middle(spec: Document, options: PodOptions, path: str, out: list[Problem]) -> None:
    if spec.get("hostNetwork"):
        _check_host_network_ports(spec, options, path, out)
    _check_listed(spec, "restartPolicy", _RESTART_POLICIES, path, out)
    _check_listed(spec, "dnsPolicy", _DNS_POLICIES, path, out)
    if spec.get("nodeSelector"):
        check_labels(spec["nodeSelector"], f"{path}.nodeSelector", out)
    check_pod_security_context(spec, options, f"{path}.securityContext", out)
    if spec.get("affinity"):
        check_affinity(spec["affinity"], options, f"{path}.affinity", out)
    if spec.get("dnsConfig") is not None or spec.get("dnsPolicy") == "None":
        _check_dns_config(spec, f"{path}.dnsConfig", out)
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        where = f"{path}.readinessGates[{index}].conditionType"
        check_qualified_name(gate.get("conditionType") or "", where, out)
    if spec.get("schedulingGates"):
        _check_gates(spec["schedulingGates"], f"{path}.schedulingGates", out)
    if spec.get("topologySpreadConstraints"):
        child = f"{path}.topologySpreadConstraints"
        check_spread(spec["topologySpreadConstraints"], options, child, out)
    check_host_process(spec, path, out)
    if spec.get("hostUsers") is False:
        _check_host_users(spec, options, path, out)
    if spec.get("hostnameOverride") is not None:
        _check_hostname_override(spec, f"{path}.hostnameOverride", out)


def _check_listed(
    spec: Document, name: str, known: tuple[str, ...], path: str, out: list[Problem]
) -> None:
    value = spec.get(name) or ""
    if value not in known:
        child = f"{path}.{name}"
        out.append(not_supported(child, value, known) if value else required(child))


def _check_names(spec: Document, path: str, out: list[Problem]) -> None:
    for name in ("serviceAccountName", "nodeName"):
        value = spec.get(name)
        if value:
            check_subdomain(value, f"{path}.{name}", out)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= INT32_MAX:
        child = f"{path}.activeDeadlineSeconds"
        out.append(invalid(child, deadline, range_text(1, INT32_MAX)))
    for name in ("hostname", "subdomain"):
        value = spec.get(name)
        if value:
            check_dns_label(value, f"{path}.{name}", out)


def _check_end(spec: Document, options: PodOptions, path: str, out: list[Problem]) -> None:
    if spec.get("tolerations"):
        check_tolerations(spec["tolerations"], options, f"{path}.tolerations", out)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        check_ip(alias.get("ip") or "", f"{path}.hostAliases[{index}].ip", out)
        for position, name in enumerate(alias.get("hostnames") or ()):
            check_subdomain(name, f"{path}.hostAliases[{index}].hostnames[{position}]", out)
    if spec.get("priorityClassName"):
        check_subdomain(spec["priorityClassName"], f"{path}.priorityClassName", out)
    runtime_class = spec.get("runtimeClassName")
    if runtime_class is not None:
        child = f"{path}.runtimeClassName"
        texts = subdomain_problems(runtime_class)
        out.extend(invalid(child, runtime_class, text) for text in texts)
    if spec.get("preemptionPolicy") is not None:
        known = ("PreemptLowerPriority", "Never")
        _check_listed(spec, "preemptionPolicy", known, path, out)
    if spec.get("overhead"):
        check_requirements(
            {"limits": spec["overhead"]},
            f"{path}.overhead",
            out,
            allow_indivisible=options.indivisible_huge_pages,
        )
    if spec.get("os") is not None:
        _check_os(spec, path, out)
    _check_file_key_volumes(spec, path, out)


def _check_resource_claims(
    claims: list[Document], pod: Document | None, path: str, out: list[Problem]
) -> None:
    if pod is not None and MIRROR in (pod["metadata"].get("annotations") or {}):
        text = "static pods do not support resource claims"
        out.extend(forbidden_field("", text) for _ in claims)
        return
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        child, name = f"{path}[{index}]", claim.get("name") or ""
        if not name:
            out.append(required(f"{child}.name"))
        elif name in seen:
            out.append(duplicate(f"{child}.name", name))
        else:
            check_dns_label(name, f"{child}.name", out)
            seen.add(name)
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        internal = InOrder(Name=name, ResourceClaimName=direct, ResourceClaimTemplateName=template)
        if direct is not None and template is not None:
            text = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            out.append(invalid(child, internal, text))
        if direct is None and template is None:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            out.append(invalid(child, internal, text))
        for field, value in (
            ("resourceClaimName", direct),
            ("resourceClaimTemplateName", template),
        ):
            if value is not None:
                texts = subdomain_problems(value)
                out.extend(invalid(f"{child}.{field}", value, text) for text in texts)


def _check_pod_resources(
    spec: Document, around: Surroundings, path: str, out: list[Problem]
) -> None:
    if dig(spec, "os", "name") == "windows":
        out.append(forbidden_field(path, "may not be set for a windows pod"))
        return
    resources = spec["resources"]
    if resources.get("claims") is not None:
        text = "claims may not be set for Resources at pod-level"
        out.append(forbidden_field(f"{path}.claims", text))
    check_requirements(
        resources,
        path,
        out,
        claim_names=around.claim_names,
        name_check=check_pod_resource_name,
        allow_indivisible=around.options.indivisible_huge_pages,
    )
    limits = resources.get("limits") or {}
    _check_sums(spec, "requests", resources.get("requests") or {}, path, out)
    _check_sums(spec, "limits", limits, path, out)
    for index, container in enumerate(spec.get("containers") or ()):
        own = (container.get("resources") or {}).get("limits") or {}
        for name, text in own.items():
            if name in limits and parse_quantity(text) > parse_quantity(limits[name]):
                where = f"{path}.containers[{index}][{name}].limits"
                reason = f"must be less than or equal to pod limits of {limits[name]}"
                out.append(invalid(where, text, reason))


def _check_sums(
    spec: Document, which: str, whole: dict[str, str], path: str, out: list[Problem]
) -> None:
    if not whole:
        return
    for name, text in aggregate(spec, which).items():
        if name not in whole or (which == "limits" and not is_huge_page(name)):
            continue
        if parse_quantity(text) > parse_quantity(whole[name]):
            reason = f"must be greater than or equal to aggregate container {which} of {text}"
            out.append(invalid(f"{path}.{which}[{name}]", whole[name], reason))


def _check_host_network_ports(
    spec: Document, options: PodOptions, path: str, out: list[Problem]
) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (options.is_pod or host) and host != (port.get("containerPort") or 0):
                where = f"{path}.containers[{index}].ports[{position}].hostPort"
                text = "must match `containerPort` when `hostNetwork` is true"
                out.append(invalid(where, host, text))


def _check_dns_config(spec: Document, path: str, out: list[Problem]) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            out.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            out.append(required(f"{path}.nameservers", text))
            return
    config = config or {}
    servers = config.get("nameservers") or []
    if len(servers) > 3:
        text = "must not have more than 3 nameservers"
        out.append(invalid(f"{path}.nameservers", servers, text))
    for index, server in enumerate(servers):
        check_ip(server, f"{path}.nameservers[{index}]", out)
    _check_searches(config.get("searches") or [], path, out)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            out.append(required(f"{path}.options[{index}]", "must not be empty"))


def _check_searches(searches: list[str], path: str, out: list[Problem]) -> None:
    if len(searches) > 32:
        text = "must not have more than 32 search paths"
        out.append(invalid(f"{path}.searches", searches, text))
    if len(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        out.append(invalid(f"{path}.searches", searches, text))
    for index, search in enumerate(searches):
        if search != ".":
            bare = search.removesuffix(".")
            texts = underscored_subdomain_problems(bare)
            out.extend(invalid(f"{path}.searches[{index}]", bare, text) for text in texts)


def _check_gates(gates: list[Document], path: str, out: list[Problem]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name") or ""
        check_qualified_name(name, f"{path}[{index}]", out)
        if name in seen:
            out.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


def _check_host_users(spec: Document, options: PodOptions, path: str, out: list[Problem]) -> None:
    text = "when `hostUsers` is false"
    if spec.get("hostNetwork") and not options.user_namespaces_on_host_network:
        out.append(forbidden_field(f"{path}.hostNetwork", text))
    out.extend(
        forbidden_field(f"{path}.{name}", text)
        for name in ("HostPID", "HostIPC")
        if spec.get(name[0].lower() + name[1:])
    )
    out.extend(
        forbidden_field(f"{path}.{kind}[{index}].volumeDevices", text)
        for kind, index, container in all_containers(spec)
        if container.get("volumeDevices")
    )


def _check_hostname_override(spec: Document, path: str, out: list[Problem]) -> None:
    name = spec["hostnameOverride"]
    if spec.get("setHostnameAsFQDN"):
        out.append(forbidden_field(path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        out.append(forbidden_field(path, "may not be specified when hostNetwork is true"))
    if len(name.encode()) > 64:
        out.append(too_long(path, 64))
    out.extend(invalid(path, name, text) for text in subdomain_problems(name))


def _check_os(spec: Document, path: str, out: list[Problem]) -> None:
    name = spec["os"].get("name") or ""
    if name == "linux":
        check_linux(spec, path, out)
    elif name == "windows":
        check_windows(spec, path, out)
    elif name:
        out.append(not_supported(f"{path}.os", name, ["linux", "windows"]))
    else:
        out.append(required(f"{path}.os.name"))


def _check_file_key_volumes(spec: Document, path: str, out: list[Problem]) -> None:
    volumes: dict[str, Document] | None = None
    for kind, index, container in all_containers(spec):
        for position, variable in enumerate(container.get("env") or ()):
            source = variable.get("valueFrom")
            ref = source.get("fileKeyRef") if source else None
            if ref is None:
                continue
            if volumes is None:
                volumes = {volume.get("name") or "": volume for volume in spec.get("volumes") or ()}
            name = ref.get("volumeName") or ""
            where = f"{path}.{kind}[{index}].env[{position}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                out.append(field_not_found(where, name))
            elif volumes[name].get("emptyDir") is None:
                text = "referenced volume must be of type emptyDir"
                out.append(invalid(where, name, text))


_COUNT_MAX: Final = 1024
_BYTES_MAX: Final = 16_384
_encode: Final = msgspec.json.Encoder().encode


class KnownSpecs:
    """Cache of specs that passed validation."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def has(self, key: bytes) -> bool:
        """Return whether a spec is known to be valid; never for an empty key."""
        return key in self._known

    def add(self, key: bytes) -> None:
        """Record that a spec is valid; do nothing for an empty key."""
        if not key or len(key) > _BYTES_MAX:
            return
        if len(self._known) >= _COUNT_MAX:
            self._known.clear()
        self._known[key] = None


def spec_key(pod: Document) -> bytes:
    """Return the cache key of a spec; empty if its validity depends on the rest of the pod."""
    spec = pod["spec"]
    # Volumes and claims are checked together with the pod's name and annotations.
    if pod["metadata"].get("annotations") or spec.get("volumes") or spec.get("resourceClaims"):
        return b""
    return _encode(spec)
