"""Credentials that a program says: client-go's credential plugins.

Owns what the program is told, what it answers, and for how long that holds. Never reads a
kubeconfig and never shows a secret in a text.
Upstream: staging/src/k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubesched.client.auth import AccessError, Credential, KeyPair
from kubesched.kit.clock import Clock
from kubesched.objects.times import parse_time

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_INFO: Final = "KUBERNETES_EXEC_INFO"
# How often an hour the whole hint is shown, so that a loop that tries again does not fill the log.
_HINTS_MAX: Final = 10
_HINTS_S: Final = 3600.0
_HINT: Final = """

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""


@dataclass(frozen=True, slots=True)
class ExecSettings:
    """Which program is run, and with what."""

    command: str
    """Its path, or a name that is looked for in PATH."""
    arguments: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = API_VERSIONS[0]
    install_hint: str = ""
    interactive_mode: str = "Never"
    cluster: Mapping[str, Any] | None = None
    """What it is told of the cluster; None if it is told nothing."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


class _Status(msgspec.Struct, rename="camel"):
    expiration_timestamp: str | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class ExecPlugin:
    """Runs the program when there is no credential, it has expired, or the server refused it."""

    def __init__(self, settings: ExecSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._credential: Credential | None = None
        self._last: Credential | None = None
        self._expires_s: float | None = None
        self._running = asyncio.Lock()
        self._hints: list[float] = []

    def cached(self) -> Credential | None:
        """Return what the program said last, if that still holds."""
        if self._expires_s is not None and self._clock.now_s() > self._expires_s:
            return None
        return self._credential

    async def fetch(self) -> Credential:
        """Run the program; once, however many ask."""
        async with self._running:
            return self.cached() or self._keep(_decoded(await self._run(), self._settings))

    def reject(self, credential: Credential) -> None:
        """Have the program run again before the next request."""
        if credential is self._credential:
            self._credential = None

    def _keep(self, status: _Status) -> Credential:
        authorization = f"Bearer {status.token}" if status.token else ""
        pair = None
        if status.client_certificate_data:
            pair = KeyPair(status.client_certificate_data.encode(), status.client_key_data.encode())
        last = self._last.certificate if self._last else None
        # The same pair stays the same object, so that connections with it stay in use.
        self._last = self._credential = Credential(authorization, last if pair == last else pair)
        self._expires_s = None
        if status.expiration_timestamp:
            try:
                self._expires_s = parse_time(status.expiration_timestamp)
            except ValueError as error:
                raise AccessError(f"decoding stdout: {error}") from error
        return self._credential

    async def _run(self) -> bytes:
        settings = self._settings
        is_interactive = _is_interactive(settings.interactive_mode)
        command = settings.command
        env = {**settings.environ, **dict(settings.env), _INFO: _info(settings, is_interactive)}
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *settings.arguments,
                env=env,
                stdin=None if is_interactive else DEVNULL,
                stdout=PIPE,
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            text = f"exec: executable {command} not found{self._hint()}"
            raise AccessError(text) from error
        except OSError as error:
            raise AccessError(f"exec: {error}") from error
        try:
            answer, _ = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            code = max(-1, process.returncode)
            raise AccessError(f"exec: executable {command} failed with exit code {code}")
        return answer

    def _hint(self) -> str:
        """Return the long help and the hint of the kubeconfig, not too often."""
        now_s = self._clock.monotonic_s()
        self._hints = [said_s for said_s in self._hints if now_s - said_s < _HINTS_S]
        if len(self._hints) >= _HINTS_MAX:
            return ""
        self._hints.append(now_s)
        hint = self._settings.install_hint
        return f"{_HINT}\n\n{hint}" if hint else _HINT


def clean_hint(text: str) -> str:
    """Return a hint without what could upset a terminal.

    Parity: tools/clientcmd/client_config.go cleanANSIEscapeCodes, v1.36.
    """
    return re.sub(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]", lambda found: f"U+{ord(found[0]):04X}", text)


def _is_interactive(mode: str) -> bool:
    if mode == "Never":
        return False
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not is_terminal:
        raise AccessError(
            "exec plugin cannot support interactive mode: standard input is not a terminal"
        )
    return is_terminal


def _info(settings: ExecSettings, is_interactive: bool) -> str:
    spec: dict[str, Any] = {} if settings.cluster is None else {"cluster": settings.cluster}
    spec["interactive"] = is_interactive
    document = {"kind": "ExecCredential", "apiVersion": settings.api_version, "spec": spec}
    return msgspec.json.encode(document).decode()


def _decoded(answer: bytes, settings: ExecSettings) -> _Status:
    try:
        document = msgspec.json.decode(answer, type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise AccessError(f"decoding stdout: {error}") from error
    if document.kind != "ExecCredential":
        raise AccessError("decoding stdout: Object 'Kind' is missing or not ExecCredential")
    if document.api_version != settings.api_version:
        raise AccessError(
            f"exec plugin is configured to use API version {settings.api_version}, "
            f"plugin returned version {document.api_version}"
        )
    status = document.status
    if status is None:
        raise AccessError("exec plugin didn't return a status field")
    if not (status.token or status.client_certificate_data or status.client_key_data):
        raise AccessError("exec plugin didn't return a token or cert/key pair")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise AccessError("exec plugin returned only certificate or key, not both")
    return status
