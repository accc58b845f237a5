"""Cluster access from flags, kubeconfigs, the environment and the pod's service account.

Owns upstream's order of these, and the validation of a kubeconfig with upstream's texts. Never
opens a connection and never runs a plugin.
Upstream: staging/src/k8s.io/client-go/tools/clientcmd/client_config.go,
rest/config.go
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kubesched.client.auth.credentials import (
    AccessError,
    ClusterAccess,
    CredentialSource,
    FixedCredential,
    TlsSettings,
    TokenFile,
    basic_authorization,
)
from kubesched.client.auth.exec_plugin import ExecPlugin
from kubesched.client.auth.kubeconfig_files import (
    EMPTY_CLUSTER,
    NO_CLUSTER,
    AuthInfo,
    Cluster,
    Config,
    aggregate,
    file_error,
    load_files,
    validate_auth_info,
    validate_cluster_info,
)
from kubesched.client.http.proxies import proxy_from_environment, split_url, supported_proxy
from kubesched.client.http.tls import make_context
from kubesched.golang.encoding_base64 import decode_base64
from kubesched.golang.strconv import go_quote
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, NullLog

__all__ = ["AccessError", "ClusterAccess", "load_access"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NOT_IN_CLUSTER: Final = (
    "unable to load in-cluster configuration, "
    "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
)
_EMPTY_CONFIG: Final = (
    "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"


class _EmptyConfigError(AccessError):
    """No cluster is configured."""


def load_access(  # noqa: PLR0913  # One argument per flag, and dependencies.
    *,
    kubeconfig: str = "",
    context: str = "",
    master: str = "",
    environ: Mapping[str, str] = os.environ,
    reads_home: bool = False,
    clock: Clock | None = None,
    log: Log | None = None,
) -> ClusterAccess:
    """Return the access to a cluster; AccessError if none is configured, or if it is invalid.

    Parity: tools/clientcmd/client_config.go BuildConfigFromFlags, v1.36.
    Differs: with neither a kubeconfig nor an address, KUBECONFIG is read where upstream reads
    nothing, ADR 10.

    Args:
        kubeconfig: The file to use; the pod's own account, then KUBECONFIG, if empty.
        context: The context to use; the file's current one if empty.
        master: The address of the server, instead of the kubeconfig's.
        environ: The environment.
        reads_home: Whether to read `~/.kube/config`, as command-line tools do.
        clock: The clock for credentials that expire.
        log: Where warnings go.
    """
    loader = _Loader(environ, clock or SystemClock(), log or NullLog())
    if not kubeconfig and not master and not context:
        loader.warn(
            "Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  "
            "This might not work."
        )
        try:
            return loader.in_cluster()
        except AccessError as error:
            loader.warn(f"error creating inClusterConfig, falling back to default config: {error}")
    return loader.from_files(
        _files(kubeconfig, master, context, environ, reads_home), context, master
    )


def _files(
    kubeconfig: str, master: str, context: str, environ: Mapping[str, str], reads_home: bool
) -> list[Path]:
    if kubeconfig:
        try:
            Path(kubeconfig).stat()
        except FileNotFoundError as error:
            raise AccessError(file_error("stat", kubeconfig, error)) from error
        except OSError:
            pass  # Loading the file gives the error.
        return [Path(kubeconfig)]
    if master and not context:
        return []
    if listed := environ.get("KUBECONFIG"):
        return [Path(path) for path in listed.split(os.pathsep) if path]
    if reads_home or context:
        return [Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"]
    return []


class _Loader:
    """The dependencies of loading."""

    def __init__(self, environ: Mapping[str, str], clock: Clock, log: Log) -> None:
        self._environ = environ
        self._clock = clock
        self._log = log

    def warn(self, text: str) -> None:
        self._log.line(text, severity="W")

    def in_cluster(self, master: str = "") -> ClusterAccess:
        """Return the access with the service account of the pod.

        Parity: rest/config.go InClusterConfig, v1.36.
        """
        host = self._environ.get("KUBERNETES_SERVICE_HOST", "")
        port = self._environ.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise AccessError(_NOT_IN_CLUSTER)
        token_file = SERVICE_ACCOUNT / "token"
        try:
            token = token_file.read_text().strip()
        except OSError as error:
            raise AccessError(file_error("open", token_file, error)) from error
        tls = TlsSettings(authority_file=str(SERVICE_ACCOUNT / "ca.crt"))
        try:
            make_context(tls)
        except AccessError as error:
            self._log.line(
                f"Expected to load root CA config from {tls.authority_file}, but got err: {error}",
                severity="E",
            )
            tls = TlsSettings()
        server = master or f"https://{f'[{host}]' if ':' in host else host}:{port}"
        return ClusterAccess(
            server=server,
            credentials=self._token_file(token_file, token),
            tls=tls,
            proxy=self._proxy("", server),
        )

    def from_files(self, paths: list[Path], context: str, master: str) -> ClusterAccess:
        """Return the access of kubeconfigs, with the server of --master if given.

        Parity: merged_client_builder.go ClientConfig, v1.36.
        """
        config = load_files(paths)
        try:
            return self._access(config, context, master)
        except _EmptyConfigError:
            if self._is_in_cluster():
                return self.in_cluster(master)
            raise

    def _is_in_cluster(self) -> bool:
        named = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
        return all(map(self._environ.get, named)) and (SERVICE_ACCOUNT / "token").is_file()

    def _access(self, config: Config, context: str, master: str) -> ClusterAccess:
        name = context or config.current_context
        if context and context not in config.contexts:
            raise AccessError(f"context {go_quote(context)} does not exist")
        chosen = config.contexts.get(name)
        cluster_name, user_name = (chosen.cluster, chosen.user) if chosen else ("", "")
        cluster = config.clusters.get(cluster_name)
        if cluster is None:
            cluster = Cluster() if master else NO_CLUSTER
        user = config.users.get(user_name, AuthInfo())
        if master:
            # The server name belongs to the server of the kubeconfig.
            cluster.server = master
            cluster.tls_server_name = ""
        problems = []
        if name and chosen is None:
            problems.append(f"context was not found for specified context: {name}")
        problems += validate_auth_info(user_name, user)
        problems += validate_cluster_info(cluster_name, cluster)
        if problems == [EMPTY_CLUSTER]:
            raise _EmptyConfigError(f"invalid configuration: {_EMPTY_CONFIG}")
        if problems:
            raise AccessError(f"invalid configuration: {aggregate(problems)}")
        server = _server_url(cluster.server)
        is_secure = server.startswith("https:")
        tls = _tls_of(cluster, user) if is_secure else TlsSettings()
        if is_secure:
            make_context(tls)
        proxy = self._proxy(cluster.proxy_url, server)
        return ClusterAccess(
            server=server,
            # Parity: client_config.go ClientConfig, v1.36: no secrets without TLS.
            credentials=self._credentials(user, cluster, tls) if is_secure else FixedCredential(),
            tls=tls,
            proxy=proxy,
            headers=tuple(_impersonation(user)),
            context=name,
            namespace=chosen.namespace if chosen else "",
        )

    def _token_file(self, path: Path, first: str) -> TokenFile:
        return TokenFile(path, first=first, clock=self._clock, log=self._log)

    def _proxy(self, configured: str, server: str) -> str:
        proxy = configured or proxy_from_environment(server, self._environ)
        return supported_proxy(proxy) if proxy else ""

    def _credentials(self, user: AuthInfo, cluster: Cluster, tls: TlsSettings) -> CredentialSource:
        """Return the credentials of the user.

        Parity: transport/round_trippers.go HTTPWrappersForConfig, v1.36; a plugin only runs if
        there is no other credential (exec.go UpdateTransportConfig).
        """
        if user.auth_provider is not None:
            raise AccessError(
                f"no Auth Provider found for name {go_quote(user.auth_provider.name)}: "
                "auth-provider is not supported, use an exec credential plugin instead"
            )
        if user.token_file:
            return self._token_file(Path(user.token_file), _first_token(user))
        if user.token:
            return FixedCredential(f"Bearer {user.token}")
        if user.username or user.password:
            return FixedCredential(basic_authorization(user.username, user.password))
        has_certificate = user.client_certificate or user.client_certificate_data
        if user.exec is not None and not has_certificate:
            info = _exec_cluster(cluster, tls) if user.exec.provide_cluster_info else None
            return ExecPlugin(user.exec, self._clock, cluster=info, environ=self._environ)
        return FixedCredential()


def _first_token(user: AuthInfo) -> str:
    if user.token:
        return user.token
    try:
        return Path(user.token_file).read_text().strip()
    except OSError as error:
        raise AccessError(file_error("open", user.token_file, error)) from error


def _server_url(server: str) -> str:
    """Return the URL of a server with its scheme.

    Parity: rest/url_utils.go DefaultServerURL, v1.36.
    """
    parts = split_url(server)
    if not (parts.scheme and parts.netloc):
        parts = split_url(f"http://{server}")
        if parts.path not in ("", "/"):
            raise AccessError(f"host must be a URL or a host:port pair: {go_quote(server)}")
    if parts.scheme not in ("http", "https"):
        raise AccessError(f"unsupported protocol scheme {go_quote(parts.scheme)}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _tls_of(cluster: Cluster, user: AuthInfo) -> TlsSettings:
    has_authority = cluster.certificate_authority or cluster.certificate_authority_data
    if has_authority and cluster.insecure_skip_tls_verify:
        raise AccessError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    return TlsSettings(
        authority_file=cluster.certificate_authority,
        authority_data=decode_base64(cluster.certificate_authority_data),
        certificate_file=user.client_certificate,
        certificate_data=decode_base64(user.client_certificate_data),
        key_file=user.client_key,
        key_data=decode_base64(user.client_key_data),
        server_name=cluster.tls_server_name,
        is_insecure=cluster.insecure_skip_tls_verify,
    )


def _impersonation(user: AuthInfo) -> Iterator[tuple[str, str]]:
    if not user.impersonate:
        return
    yield "Impersonate-User", user.impersonate
    if user.impersonate_uid:
        yield "Impersonate-Uid", user.impersonate_uid
    for group in user.impersonate_groups:
        yield "Impersonate-Group", group
    for key, values in user.impersonate_user_extra.items():
        # Parity: round_trippers.go headerKeyEscape, v1.36: characters of a header name stay.
        name = quote(key, safe="!#$&'*+-.^_`|~")
        for value in values:
            yield f"Impersonate-Extra-{name}", value


def _exec_cluster(cluster: Cluster, tls: TlsSettings) -> dict[str, Any]:
    """Return the cluster information for a plugin.

    Parity: rest/exec.go ConfigToExecCluster, v1.36.
    """
    authority = tls.authority_data
    if tls.authority_file and not authority:
        authority = Path(tls.authority_file).read_bytes()
    info: dict[str, Any] = {"server": cluster.server}
    optional = {
        "tls-server-name": tls.server_name,
        "insecure-skip-tls-verify": tls.is_insecure,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    info.update((name, value) for name, value in optional.items() if value)
    extensions = {entry.name: entry.extension for entry in cluster.extensions}
    info["config"] = extensions.get(_EXEC_EXTENSION)
    return info
