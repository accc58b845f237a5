"""Validates probes, lifecycle hooks and stop signals.

Upstream: pkg/apis/core/validation/validation.go validateProbe, validateHandler, validateLifecycle
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import (
    check_not_negative,
    check_port_or_name,
    header_problems,
)

_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def check_liveness_probe(probe: Document, path: str, out: list[Problem]) -> None:
    """Validate a liveness or startup probe, whose successThreshold must be 1, adding errors."""
    _check_probe(probe, path, out)
    successes = probe.get("successThreshold") or 0
    if successes != 1:
        out.append(invalid(f"{path}.successThreshold", successes, "must be 1"))


def check_readiness_probe(probe: Document, path: str, out: list[Problem]) -> None:
    """Validate a readiness probe, adding errors."""
    _check_probe(probe, path, out)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None:
        text = "must not be set for readinessProbes"
        out.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, text))


def _check_probe(probe: Document, path: str, out: list[Problem]) -> None:
    _check_handler(probe, None, path, out)
    for name in _COUNTS:
        check_not_negative(probe.get(name) or 0, f"{path}.{name}", out)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        text = "must be greater than 0"
        out.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, text))


def check_lifecycle(
    lifecycle: Document, grace_s: int | None, path: str, out: list[Problem]
) -> None:
    """Validate a container's hooks, adding errors."""
    for name in ("postStart", "preStop"):
        hook = lifecycle.get(name)
        if hook is not None:
            _check_handler(hook, grace_s, f"{path}.{name}", out)


def _check_handler(handler: Document, grace_s: int | None, path: str, out: list[Problem]) -> None:
    count = 0
    for name in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        action = handler.get(name)
        if action is None:
            continue
        count += 1
        child = f"{path}.{name}"
        if count > 1:
            out.append(forbidden_field(child, "may not specify more than 1 handler type"))
        elif name == "exec":
            if not action.get("command"):
                out.append(required(f"{child}.command"))
        elif name == "httpGet":
            _check_http_get(action, child, out)
        elif name == "sleep":
            _check_sleep(action.get("seconds") or 0, grace_s, child, out)
        else:
            check_port_or_name(action.get("port"), f"{child}.port", out)
    if not count:
        out.append(required(path, "must specify a handler type"))


def _check_http_get(action: Document, path: str, out: list[Problem]) -> None:
    if not action.get("path"):
        out.append(required(f"{path}.path"))
    check_port_or_name(action.get("port"), f"{path}.port", out)
    scheme = action.get("scheme") or ""
    if scheme not in {"HTTP", "HTTPS"}:
        out.append(not_supported(f"{path}.scheme", scheme, ["HTTP", "HTTPS"]))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        out.extend(invalid(f"{path}.httpHeaders", name, text) for text in header_problems(name))


def _check_sleep(seconds: int, grace_s: int | None, path: str, out: list[Problem]) -> None:
    if grace_s is not None and not 0 <= seconds <= grace_s:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        out.append(invalid(path, seconds, text))
