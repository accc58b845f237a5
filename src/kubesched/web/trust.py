"""Whose word is taken: authorities of client certificates, and the proxies that may name users.

Owns where they come from, files that flags name or the cluster's ConfigMap, and follows both.
Never authenticates.
Upstream: staging/src/k8s.io/apiserver/pkg/server/options/authentication.go ApplyTo,
authentication_dynamic_request_header.go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from kubesched.client.errors import ApiError, ForbiddenError, NotFoundError, TransportError
from kubesched.client.resources import CONFIG_MAPS
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks
from kubesched.web.followed_files import FollowedFiles
from kubesched.web.parts import Requests
from kubesched.web.peers import CaBundle
from kubesched.web.settings import AuthenticationSettings, ServingError

NAMESPACE = "kube-system"
CONFIG_MAP = "extension-apiserver-authentication"
_POLL_S = 60.0
_TIMEOUT_S = 10.0
_LOADED = "Loaded a new CA Bundle and Verifier"


@dataclass(frozen=True, slots=True)
class RequestHeaderRules:
    """Which proxies may say in headers who asks, and in which headers."""

    authorities: CaBundle | None
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()


class Trust:
    """The authorities in force."""

    def __init__(
        self,
        settings: AuthenticationSettings,
        client: Requests | None,
        *,
        clock: Clock,
        log: Log,
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._log = log
        self._tasks = Tasks()
        self._client_file = self._file("client-ca-bundle", settings.client_ca_file)
        self._proxy_file = self._file("request-header", settings.requestheader_client_ca_file)
        self._looks_up_clients = False
        self._looks_up_proxies = False
        self._cluster_clients: CaBundle | None = None
        self._cluster_proxies: RequestHeaderRules | None = None
        self.on_change: Callable[[], None] = _nothing
        """Called when the cluster names others than before."""

    @property
    def has_client_certificates(self) -> bool:
        """Return whether clients may be known by certificates, once there is an authority."""
        return self._client_file is not None or self._looks_up_clients

    @property
    def has_request_headers(self) -> bool:
        """Return whether proxies may name users."""
        return self._proxy_file is not None or self._looks_up_proxies

    def clients(self) -> CaBundle | None:
        """Return the authorities of client certificates; None if there is none (yet)."""
        return self._client_file.current() if self._client_file else self._cluster_clients

    def proxies(self) -> RequestHeaderRules | None:
        """Return the rules of proxies that name users; None if there are none (yet)."""
        if self._proxy_file is None:
            return self._cluster_proxies
        settings = self._settings
        return RequestHeaderRules(
            self._proxy_file.current(),
            settings.requestheader_allowed_names,
            settings.requestheader_username_headers,
            settings.requestheader_uid_headers,
            settings.requestheader_group_headers,
            settings.requestheader_extra_headers_prefix,
        )

    def authorities(self) -> list[CaBundle]:
        """Return everybody who may have signed the certificate of a client."""
        proxies = self.proxies()
        found = [self.clients(), proxies.authorities if proxies else None]
        return [one for one in found if one is not None]

    async def start(self) -> None:
        """Ask the cluster for what no flag gives, and follow it; ServingError if that must be."""
        if self._settings.skip_lookup:
            return
        self._looks_up_clients = self._client_file is None and self._can_look_up(
            "client-ca-file", "client certificate"
        )
        self._looks_up_proxies = self._proxy_file is None and self._can_look_up(
            "requestheader-client-ca-file", "request-header client certificate"
        )
        if not (self._looks_up_clients or self._looks_up_proxies):
            return
        error = await self._refresh()
        if error is not None and self._looks_up_proxies:
            # Parity: proxies are not asked for again; authorities of clients are.
            self._looks_up_proxies = False
            self._tolerate(error)
        if self._looks_up_clients or self._looks_up_proxies:
            self._tasks.start(self._follow(), name="authentication-configuration")

    async def stop(self) -> None:
        """Follow no more."""
        await self._tasks.stop()

    def _can_look_up(self, key: str, what: str) -> bool:
        if self._client is None:
            self._warn(
                f"No authentication-kubeconfig provided in order to lookup {key} in "
                f"configmap/{CONFIG_MAP} in {NAMESPACE}, so {what} authentication won't work."
            )
        return self._client is not None

    def _tolerate(self, error: Exception) -> None:
        if isinstance(error, ForbiddenError):
            self._warn(
                f"Unable to get configmap/{CONFIG_MAP} in {NAMESPACE}.  Usually fixed by "
                f"'kubectl create rolebinding -n {NAMESPACE} ROLEBINDING_NAME "
                "--role=extension-apiserver-authentication-reader "
                "--serviceaccount=YOUR_NS:YOUR_SA'"
            )
        if not self._settings.tolerate_lookup_failure:
            raise ServingError(
                f"unable to load configmap based request-header-client-ca-file: {error}"
            )
        self._warn(f"Error looking up in-cluster authentication configuration: {error}")
        self._warn(
            "Continuing without authentication configuration. "
            "This may treat all requests as anonymous."
        )
        self._warn(
            "To require authentication configuration lookup to succeed, "
            "set --authentication-tolerate-lookup-failure=false"
        )

    async def _follow(self) -> None:
        while True:
            await self._clock.sleep(_POLL_S)
            if error := await self._refresh():
                self._log.info(
                    "Failed to read authentication configuration",
                    level=2,
                    configMap=f"{NAMESPACE}/{CONFIG_MAP}",
                    err=error,
                )

    async def _refresh(self) -> Exception | None:
        """Read the ConfigMap, and return what went wrong."""
        assert self._client is not None
        path = CONFIG_MAPS.path(NAMESPACE, CONFIG_MAP)
        try:
            answer = await self._client.request("GET", path, timeout_s=_TIMEOUT_S)
        except NotFoundError:
            return None
        except (ApiError, TransportError) as error:
            return error
        before = self._cluster_clients, self._cluster_proxies
        try:
            self._take(msgspec.json.decode(answer).get("data") or {})
            if before != (self._cluster_clients, self._cluster_proxies):
                self.on_change()
        except (ValueError, OSError, msgspec.MsgspecError) as error:
            return error
        return None

    def _take(self, data: dict[str, Any]) -> None:
        if self._looks_up_clients and (pem := data.get("client-ca-file")):
            self._cluster_clients = self._bundle(self._cluster_clients, pem, "client-ca")
        if self._looks_up_proxies:
            before = self._cluster_proxies
            pem = data.get("requestheader-client-ca-file")
            authorities = before.authorities if before else None
            rules = RequestHeaderRules(
                self._bundle(authorities, pem, "request-header") if pem else authorities,
                _names(data, "requestheader-allowed-names"),
                _names(data, "requestheader-username-headers"),
                _names(data, "requestheader-uid-headers"),
                _names(data, "requestheader-group-headers"),
                _names(data, "requestheader-extra-headers-prefix"),
            )
            if rules != before:
                self._cluster_proxies = rules
                self._log.line(
                    "Loaded a new request header values for RequestHeaderAuthRequestController",
                    level=2,
                )

    def _bundle(self, before: CaBundle | None, pem: str, purpose: str) -> CaBundle:
        if before is not None and before.pem == pem.encode():
            return before
        name = f"{purpose}::{NAMESPACE}::{CONFIG_MAP}"
        self._log.info(_LOADED, level=2, name=name)
        return CaBundle(pem.encode())

    def _file(self, purpose: str, path: str) -> FollowedFiles[CaBundle] | None:
        if not path:
            return None
        try:
            return FollowedFiles(
                [path],
                lambda contents: CaBundle(contents[0]),
                clock=self._clock,
                log=self._log,
                loaded=(_LOADED, f"{purpose}::{path}"),
            )
        except OSError as error:
            text = f"open {path}: {(error.strerror or '').lower()}"
        except ValueError as error:
            text = f'error loading CA file "{path}": {error}'
        what = "load client CA provider"
        if purpose == "request-header":
            what = "create request header authentication config"
        raise ServingError(f"unable to {what}: {text}")

    def _warn(self, text: str) -> None:
        self._log.line(text, severity="W")


def _nothing() -> None:
    pass


def _names(data: dict[str, Any], key: str) -> tuple[str, ...]:
    return msgspec.json.decode(data[key], type=tuple[str, ...]) if data.get(key) else ()
