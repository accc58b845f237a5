"""Validates environment variables of containers.

Upstream: pkg/apis/core/validation/validation.go ValidateEnv, ValidateEnvFrom
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import Problem, invalid, not_supported, required
from kubesched.cluster.apiserver.kinds.checks import (
    check_dns_label,
    check_no_parent_references,
    check_qualified_name,
    config_key_problems,
    env_name_problems,
)
from kubesched.cluster.apiserver.names import subdomain_problems

_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
    "metadata.uid",
)  # fmt: skip
_KNOWN_LABELS = frozenset(_FIELDS) | frozenset(VOLUME_FIELDS) | {
    "spec.restartPolicy", "spec.schedulerName", "status.phase",
}  # fmt: skip
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_UNITS = (
    "1",
    *(f"1{unit}" for unit in ["k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
)


def check_env(variables: Sequence[Document], path: str, out: list[Problem]) -> None:
    """Validate environment variables, adding errors."""
    for index, variable in enumerate(variables):
        name = variable.get("name") or ""
        if not name:
            out.append(required(f"{path}[{index}].name"))
        elif texts := env_name_problems(name):
            out.extend(invalid(f"{path}[{index}].name", name, text) for text in texts)
        source = variable.get("valueFrom")
        if source is not None:
            _check_source(source, variable, f"{path}[{index}].valueFrom", out)


def _check_source(source: Document, variable: Document, path: str, out: list[Problem]) -> None:
    count = 0
    if source.get("fieldRef") is not None:
        count += 1
        check_field_ref(source["fieldRef"], _FIELDS, f"{path}.fieldRef", out)
    if source.get("resourceFieldRef") is not None:
        count += 1
        child = f"{path}.resourceFieldRef"
        check_resource_field_ref(source["resourceFieldRef"], child, out, in_volume=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if source.get(name) is not None:
            count += 1
            _check_key_ref(source[name], f"{path}.{name}", out)
    if source.get("fileKeyRef") is not None:
        count += 1
        _check_file_ref(source["fileKeyRef"], f"{path}.fileKeyRef", out)
    if not count:
        text = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )
        out.append(invalid(path, "", text))
    elif variable.get("value"):
        out.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        out.append(invalid(path, "", "may not have more than one field specified at a time"))


def _split_subscript(path: str) -> tuple[str, str | None]:
    """Split `metadata.labels['key']` into path and subscript; return None for other paths."""
    head, bracket, rest = path.removesuffix("']").partition("['")
    if not path.endswith("']") or not bracket or not head:
        return path, None
    return head, rest


def check_field_ref(ref: Document, known: Sequence[str], path: str, out: list[Problem]) -> None:
    """Validate a reference to a field of the pod, adding errors."""
    version, field = ref.get("apiVersion") or "", ref.get("fieldPath") or ""
    if not version or not field:
        out.append(required(f"{path}.apiVersion" if not version else f"{path}.fieldPath"))
        return
    head, subscript = _split_subscript(field)
    failure = ""
    if version != "v1":
        failure = f"unsupported pod version: {version}"
    elif subscript is not None and head not in {"metadata.annotations", "metadata.labels"}:
        failure = f"field label does not support subscript: {field}"
    elif subscript is None and field != "spec.host" and field not in _KNOWN_LABELS:
        failure = f"field label not supported: {field}"
    if failure:
        text = f"error converting fieldPath: {failure}"
        out.append(invalid(f"{path}.fieldPath", field, text))
    elif subscript is not None:
        folded = subscript.lower() if head == "metadata.annotations" else subscript
        check_qualified_name(folded, path, out)
    elif ("spec.nodeName" if field == "spec.host" else field) not in known:
        field_path = "spec.nodeName" if field == "spec.host" else field
        out.append(not_supported(f"{path}.fieldPath", field_path, sorted(known)))


def check_resource_field_ref(
    ref: Document, path: str, out: list[Problem], *, in_volume: bool
) -> None:
    """Validate a reference to a container's resources, adding errors."""
    resource = ref.get("resource") or ""
    if in_volume and not ref.get("containerName"):
        out.append(required(f"{path}.containerName"))
    elif not resource:
        out.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        out.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    divisor = ref.get("divisor")
    if divisor is not None and not parse_quantity(divisor).is_zero():
        _check_divisor(resource, divisor, path, out)


def _check_divisor(resource: str, divisor: str, path: str, out: list[Problem]) -> None:
    name = resource.partition(".")[2]
    if name == "cpu":
        known: Sequence[str] = ("1m", "1")
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
    else:
        known = _UNITS
        title = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(name)
        if resource.startswith(_HUGE_PAGES):
            title = "hugepages"
        if title is None:
            return
        listed = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
        text = f"only divisor's values {listed} are supported with the {title} resource"
    if divisor not in known:
        out.append(invalid(f"{path}.divisor", resource, text))


def _check_key_ref(ref: Document, path: str, out: list[Problem]) -> None:
    name, key = ref.get("name") or "", ref.get("key") or ""
    out.extend(invalid(f"{path}.name", name, text) for text in subdomain_problems(name))
    if not key:
        out.append(required(f"{path}.key"))
    else:
        out.extend(invalid(f"{path}.key", key, text) for text in config_key_problems(key))


def _check_file_ref(ref: Document, path: str, out: list[Problem]) -> None:
    key, volume, file = ref.get("key") or "", ref.get("volumeName") or "", ref.get("path") or ""
    if not key:
        out.append(required(f"{path}.key"))
    else:
        out.extend(invalid(f"{path}.key", key, text) for text in env_name_problems(key))
    if not volume:
        out.append(required(f"{path}.volumeName"))
    else:
        check_dns_label(volume, f"{path}.volumeName", out)
    if not file:
        out.append(required(f"{path}.path"))
    else:
        check_no_parent_references(file, f"{path}.path", out)


def check_env_from(sources: Sequence[Document], path: str, out: list[Problem]) -> None:
    """Validate envFrom, adding errors."""
    for index, source in enumerate(sources):
        child = f"{path}[{index}]"
        prefix = source.get("prefix") or ""
        if prefix:
            texts = env_name_problems(prefix)
            out.extend(invalid(f"{child}.prefix", prefix, text) for text in texts)
        found = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in found:
            _check_env_from_name(source[name].get("name") or "", f"{child}.{name}.name", out)
        if not found:
            text = "must specify one of: `configMapRef` or `secretRef`"
            out.append(invalid(path, "", text))
        elif len(found) > 1:
            text = "may not have more than one field specified at a time"
            out.append(invalid(path, "", text))


def _check_env_from_name(name: str, path: str, out: list[Problem]) -> None:
    if not name:
        out.append(required(path))
        return
    texts = subdomain_problems(name, is_prefix=True)
    out.extend(invalid(path, name, text) for text in texts)
