"""Validates security contexts of pods and containers.

Upstream: pkg/apis/core/validation/validation.go ValidateSecurityContext,
validatePodSpecSecurityContext
"""

from __future__ import annotations

import re

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    InOrder,
    Problem,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.kinds.checks import check_relative_path, id_problems
from kubesched.cluster.apiserver.kinds.internal_form import internal_form
from kubesched.cluster.apiserver.kinds.pod_options import PodOptions
from kubesched.cluster.apiserver.kinds.windows import check_windows_options

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_PART = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_SYSCTL_PART}[\./])*{_SYSCTL_PART}$"
_SYSCTL_PATTERN = re.compile(_SYSCTL)
# Parity: component-helpers/node/util/sysctl/namespace.go, v1.36
_IPC_SYSCTLS = ("kernel.sem",)
_IPC_PREFIXES = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def _check_ids(context: Document, names: tuple[str, ...], path: str, out: list[Problem]) -> None:
    for name in names:
        number = context.get(name)
        if number is not None:
            texts = id_problems(number)
            out.extend(invalid(f"{path}.{name}", number, text) for text in texts)


def check_pod_security_context(
    spec: Document, options: PodOptions, path: str, out: list[Problem]
) -> None:
    """Validate a pod's security context, adding errors."""
    context = spec.get("securityContext")
    if not context and not (spec.get("shareProcessNamespace") and spec.get("hostPID")):
        return
    context = context or {}
    _check_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), path, out)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        texts = id_problems(group)
        where = f"{path}.supplementalGroups[{index}]"
        out.extend(invalid(where, group, text) for text in texts)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        out.append(invalid(f"{path}.shareProcessNamespace", True, text))
    if context.get("sysctls"):
        _check_sysctls(context["sysctls"], spec, f"{path}.sysctls", out)
    _check_choice(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path, out)
    check_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", out)
    check_windows_options(context.get("windowsOptions"), f"{path}.windowsOptions", out)
    check_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile", out)
    _check_choice(context, "supplementalGroupsPolicy", ("Merge", "Strict"), path, out)
    policies = ("MountOption", "Recursive") if options.any_selinux_change_policy else ("Recursive",)
    _check_choice(context, "seLinuxChangePolicy", policies, path, out)


def _check_choice(
    context: Document, name: str, known: tuple[str, ...], path: str, out: list[Problem]
) -> None:
    value = context.get(name)
    if value is not None and value not in known:
        out.append(not_supported(f"{path}.{name}", value, known))


def _check_sysctls(sysctls: list[Document], spec: Document, path: str, out: list[Problem]) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, child = sysctl.get("name") or "", f"{path}[{index}].name"
        if not name:
            out.append(required(child))
        elif len(name) > 253 or not _SYSCTL_PATTERN.fullmatch(name):
            text = f"must have at most 253 characters and match regex {_SYSCTL}"
            out.append(invalid(child, name, text))
        elif name in seen:
            out.append(duplicate(child, name))
        seen.add(name)
        _check_host_sysctl(name, spec, child, out)


def _check_host_sysctl(name: str, spec: Document, path: str, out: list[Problem]) -> None:
    first = min((name.find(char) for char in "./" if char in name), default=-1)
    dotted = name.replace("/", ".") if first >= 0 and name[first] == "/" else name
    if spec.get("hostNetwork") and dotted.startswith("net."):
        out.append(invalid(path, name, "may not be specified when 'hostNetwork' is true"))
    elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith(_IPC_PREFIXES)):
        out.append(invalid(path, name, "may not be specified when 'hostIPC' is true"))


def check_seccomp(profile: Document | None, path: str, out: list[Problem]) -> None:
    """Validate a seccomp profile, adding errors."""
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        text = "type is required when seccompProfile is set"
        out.append(required(f"{path}.type", text))
    elif kind not in _PROFILES:
        out.append(not_supported(f"{path}.type", kind, _PROFILES))
    if kind != "Localhost":
        if local is not None:
            internal = InOrder(Type=kind, LocalhostProfile=local)
            text = "can only be set when seccomp type is Localhost"
            out.append(invalid(f"{path}.localhostProfile", internal, text))
    elif local is None:
        text = "must be set when seccomp type is Localhost"
        out.append(required(f"{path}.localhostProfile", text))
    else:
        check_relative_path(local, f"{path}.localhostProfile", out)


def check_app_armor(profile: Document | None, path: str, out: list[Problem]) -> None:
    """Validate an AppArmor profile, adding errors."""
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    child = f"{path}.localhostProfile"
    if kind == "Localhost":
        _check_local_app_armor(local, child, out)
    elif not kind:
        out.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    elif kind not in _PROFILES:
        out.append(not_supported(f"{path}.type", kind, _PROFILES))
    elif local is not None:
        out.append(invalid(child, local, "can only be set when AppArmor type is Localhost"))


def _check_local_app_armor(local: str | None, path: str, out: list[Problem]) -> None:
    needed = "must be set when AppArmor type is Localhost"
    if local is None:
        out.append(required(path, needed))
        return
    if local.strip() != local:
        out.append(invalid(path, local, "must not be padded with whitespace"))
    elif not local:
        out.append(required(path, needed))
    if len(local.encode()) > 4095:
        out.append(too_long(path, 4095))


def check_security_context(
    context: Document, path: str, out: list[Problem], *, uses_host_users: bool
) -> None:
    """Validate a container's security context, adding errors."""
    # Privileged containers are allowed: kubeadm starts kube-apiserver with --allow-privileged.
    _check_ids(context, ("runAsUser", "runAsGroup"), path, out)
    mount = context.get("procMount")
    if mount is not None:
        if mount not in {"Default", "Unmasked"}:
            out.append(not_supported(f"{path}.procMount", mount, ["Default", "Unmasked"]))
        if uses_host_users and mount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            out.append(invalid(f"{path}.procMount", mount, text))
    check_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", out)
    if context.get("allowPrivilegeEscalation") is False:
        _check_escalation(context, path, out)
    check_windows_options(context.get("windowsOptions"), f"{path}.windowsOptions", out)
    check_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile", out)


def _check_escalation(context: Document, path: str, out: list[Problem]) -> None:
    start = "cannot set `allowPrivilegeEscalation` to false and"
    if context.get("privileged"):
        text = f"{start} `privileged` to true"
        out.append(invalid(path, internal_form("SecurityContext", context), text))
    for capability in (context.get("capabilities") or {}).get("add") or ():
        if capability == "CAP_SYS_ADMIN":
            text = f"{start} `capabilities.Add` CAP_SYS_ADMIN"
            out.append(invalid(path, internal_form("SecurityContext", context), text))
