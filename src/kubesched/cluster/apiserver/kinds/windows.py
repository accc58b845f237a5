"""Validates Windows pods.

Upstream: pkg/apis/core/validation/validation.go validateWindowsSecurityContextOptions,
validateWindowsHostProcessPod, validateLinux, validateWindows
"""

from __future__ import annotations

import re

from kubesched.cluster.apiserver.documents import Document, dig
from kubesched.cluster.apiserver.errors import Problem, forbidden_field, invalid
from kubesched.cluster.apiserver.kinds.pod_options import all_containers
from kubesched.cluster.apiserver.names import subdomain_problems

_NET_BIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_PART = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"{_DNS_PART}(?:\.{_DNS_PART})*")
_BAD_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_CONTEXT_FIELDS = (
    ("securityContext", "appArmorProfile"), ("securityContext", "seLinuxOptions"),
    ("", "hostUsers"), ("", "hostPID"), ("", "hostIPC"), ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"), ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"), ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"), ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"), ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
)  # fmt: skip
_CONTAINER_FIELDS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities",
    "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount", "runAsUser",
    "runAsGroup",
)  # fmt: skip


def check_windows_options(options: Document | None, path: str, out: list[Problem]) -> None:
    """Validate Windows options of a security context, adding errors."""
    if options is None:
        return
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        child = f"{path}.gmsaCredentialSpecName"
        out.extend(invalid(child, name, text) for text in subdomain_problems(name))
    spec = options.get("gmsaCredentialSpec")
    if spec is not None:
        child = f"{path}.gmsaCredentialSpec"
        if not spec:
            out.append(invalid(child, spec, "gmsaCredentialSpec cannot be an empty string"))
        elif len(spec.encode()) > 64 * 1024:
            out.append(invalid(child, spec, "gmsaCredentialSpec size must be under 64 KiB"))
    user = options.get("runAsUserName")
    if user is not None:
        child = f"{path}.runAsUserName"
        out.extend(invalid(child, user, text) for text in _user_problems(user))


def _user_problems(name: str) -> list[str]:
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in name):
        return ["runAsUserName cannot contain control characters"]
    parts = name.split("\\")
    if len(parts) > 2:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, user = ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
    found = []
    if len(domain) >= 256:
        found.append("runAsUserName's Domain length must be under 256 characters")
    if len(parts) == 2 and not (_NET_BIOS.fullmatch(domain) or _DOMAIN.fullmatch(domain)):
        found.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        found.append("runAsUserName's User cannot be empty")
    elif len(user) > 104:
        found.append("runAsUserName's User length must not be longer than 104 characters")
    if user and not user.strip(". "):
        found.append("runAsUserName's User cannot contain only periods or spaces")
    if _BAD_USER.search(user):
        listed = '"/\\:;|=,+*?<>@[]'
        found.append(f"runAsUserName's User cannot contain the following characters: {listed}")
    return found


def check_host_process(spec: Document, path: str, out: list[Problem]) -> None:
    """Validate pods that have Windows host process containers, adding errors."""
    whole = dig(spec, "securityContext", "windowsOptions", "hostProcess")
    count = host_count = 0
    for kind, index, container in all_containers(spec):
        count += 1
        own = dig(container, "securityContext", "windowsOptions", "hostProcess")
        if whole is not None and own is not None and whole != own:
            pod_value = "true" if whole else "false"
            text = f"pod hostProcess value must be identical if both are specified, was {pod_value}"
            where = f"{path}.{kind}[{index}].securityContext.windowsOptions.hostProcess"
            out.append(invalid(where, own, text))
        if own or (own is None and whole):
            host_count += 1
    if not host_count:
        return
    if host_count != count:
        text = (
            "If pod contains any hostProcess containers then all containers must be "
            "HostProcess containers"
        )
        out.append(invalid(path, "", text))
    if not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        out.append(invalid(f"{path}.hostNetwork", False, text))


def check_linux(spec: Document, path: str, out: list[Problem]) -> None:
    """Add errors for Windows fields in a Linux pod."""
    text = "windows options cannot be set for a linux pod"
    if dig(spec, "securityContext", "windowsOptions") is not None:
        out.append(forbidden_field(f"{path}.securityContext.windowsOptions", text))
    for kind, index, container in all_containers(spec):
        if dig(container, "securityContext", "windowsOptions") is not None:
            where = f"{path}.{kind}[{index}].securityContext.windowsOptions"
            out.append(forbidden_field(where, text))


def check_windows(spec: Document, path: str, out: list[Problem]) -> None:
    """Add errors for Linux fields in a Windows pod."""
    text = "cannot be set for a windows pod"
    for parent, name in _CONTEXT_FIELDS:
        holder = (spec.get(parent) or {}) if parent else spec
        value = holder.get(name)
        if value is None or (name in {"hostPID", "hostIPC"} and not value):
            continue
        where = f"{path}.{parent}.{name}" if parent else f"{path}.{name}"
        out.append(forbidden_field(where, text))
    for kind, index, container in all_containers(spec):
        context = container.get("securityContext") or {}
        for name in _CONTAINER_FIELDS:
            if context.get(name) is not None:
                where = f"{path}.{kind}[{index}].securityContext.{name}"
                out.append(forbidden_field(where, text))
