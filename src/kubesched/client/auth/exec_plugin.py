"""client-go credential plugins: credentials from an external program.

Owns input, output and expiry of the program's credentials. Never reads a kubeconfig and never shows
a secret in a text.
Upstream: staging/src/k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubesched.api.times import parse_time
from kubesched.client.auth.credentials import AccessError, Credential, KeyPair
from kubesched.client.auth.kubeconfig_files import ExecConfig, interactive_mode
from kubesched.golang.strconv import go_quote
from kubesched.kit.clock import Clock

_API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_INFO: Final = "KUBERNETES_EXEC_INFO"
# How often per hour the whole hint is shown, so that retries do not fill the log.
_HINTS_MAX: Final = 10
_HINTS_S: Final = 3600.0
_HINT: Final = """

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""


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
    """Runs the program without a credential, after its expiry or after a rejection."""

    def __init__(
        self,
        config: ExecConfig,
        clock: Clock,
        *,
        cluster: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Create the plugin; AccessError for an unknown version.

        Args:
            config: The program with its arguments and environment.
            clock: The clock.
            cluster: The cluster information for the program; None for none.
            environ: The environment.
        """
        if config.api_version not in _API_VERSIONS:
            raise AccessError(f"exec plugin: invalid apiVersion {go_quote(config.api_version)}")
        self._config = config
        self._command = os.path.normpath(config.command)
        self._cluster = cluster
        self._environ = environ
        self._clock = clock
        self._credential: Credential | None = None
        self._last: Credential | None = None
        self._expires_s: float | None = None
        self._running = asyncio.Lock()
        self._hints: list[float] = []

    def cached(self) -> Credential | None:
        """Return the last credential unless it has expired."""
        if self._expires_s is not None and self._clock.now_s() > self._expires_s:
            return None
        return self._credential

    async def fetch(self) -> Credential:
        """Run the program once for all concurrent callers."""
        async with self._running:
            return self.cached() or self._keep(self._decoded(await self._run()))

    def reject(self, credential: Credential) -> None:
        """Run the program again before the next request."""
        if credential is self._credential:
            self._credential = None

    def _keep(self, status: _Status) -> Credential:
        authorization = f"Bearer {status.token}" if status.token else ""
        pair = None
        if status.client_certificate_data:
            pair = KeyPair(status.client_certificate_data.encode(), status.client_key_data.encode())
        last = self._last.certificate if self._last else None
        # An equal pair stays the same object, so that its connections are reused.
        self._last = self._credential = Credential(authorization, last if pair == last else pair)
        self._expires_s = None
        if status.expiration_timestamp:
            try:
                self._expires_s = parse_time(status.expiration_timestamp)
            except ValueError as error:
                raise AccessError(f"decoding stdout: {error}") from error
        return self._credential

    async def _run(self) -> bytes:
        config = self._config
        is_interactive = _is_interactive(interactive_mode(config))
        command = self._command
        own = {variable.name: variable.value for variable in config.env}
        env = {**self._environ, **own, _INFO: self._info(is_interactive)}
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *config.args,
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
            output, _ = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            code = max(-1, process.returncode)
            raise AccessError(f"exec: executable {command} failed with exit code {code}")
        return output

    def _info(self, is_interactive: bool) -> str:
        spec: dict[str, Any] = {} if self._cluster is None else {"cluster": self._cluster}
        spec["interactive"] = is_interactive
        version = self._config.api_version
        document = {"kind": "ExecCredential", "apiVersion": version, "spec": spec}
        return msgspec.json.encode(document).decode()

    def _decoded(self, output: bytes) -> _Status:
        try:
            document = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise AccessError(f"decoding stdout: {error}") from error
        if document.kind != "ExecCredential":
            raise AccessError("decoding stdout: Object 'Kind' is missing or not ExecCredential")
        if document.api_version != self._config.api_version:
            raise AccessError(
                f"exec plugin is configured to use API version {self._config.api_version}, "
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

    def _hint(self) -> str:
        """Return the install hint of the kubeconfig, rate limited."""
        now_s = self._clock.monotonic_s()
        self._hints = [shown_s for shown_s in self._hints if now_s - shown_s < _HINTS_S]
        if len(self._hints) >= _HINTS_MAX:
            return ""
        self._hints.append(now_s)
        hint = clean_hint(self._config.install_hint)
        return f"{_HINT}\n\n{hint}" if hint else _HINT


def clean_hint(text: str) -> str:
    """Return a hint without control characters.

    Parity: tools/clientcmd/client_config.go cleanANSIEscapeCodes, v1.36.
    """
    return re.sub(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]", lambda match: f"U+{ord(match[0]):04X}", text)


def _is_interactive(mode: str) -> bool:
    if mode == "Never":
        return False
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not is_terminal:
        raise AccessError(
            "exec plugin cannot support interactive mode: standard input is not a terminal"
        )
    return is_terminal
