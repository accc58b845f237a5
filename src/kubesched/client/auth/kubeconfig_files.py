"""kubeconfig files: decoding, merging and validation.

Owns the types, the precedence of files, paths relative to a file, and the validation of clusters
and users. Never selects a cluster or user: kubeconfig does.
Upstream: staging/src/k8s.io/client-go/tools/clientcmd/{loader,merge,api/v1/types}.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from kubesched.client.auth.credentials import AccessError
from kubesched.client.http.proxies import check_proxy_url
from kubesched.config.errors import ConfigError
from kubesched.config.load import read_document
from kubesched.golang.encoding_base64 import decode_base64
from kubesched.golang.strconv import go_quote
from kubesched.kit.urls import without_password

_T = TypeVar("_T")
EMPTY_CLUSTER: Final = "cluster has no server defined"
_INTERACTIVE: Final = ("Never", "IfAvailable", "Always")


class Extension(msgspec.Struct):
    """A named extension."""

    name: str = ""
    extension: Any = None


class Cluster(msgspec.Struct, rename="kebab"):
    """A cluster entry."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[Extension] = []


class EnvVar(msgspec.Struct):
    """An environment variable of a plugin."""

    name: str = ""
    value: str = ""


class ExecConfig(msgspec.Struct, rename="camel"):
    """A credential plugin."""

    command: str = ""
    args: list[str] = []
    env: list[EnvVar] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(msgspec.Struct):
    """A legacy auth provider."""

    name: str = ""


class AuthInfo(msgspec.Struct, rename="kebab"):
    """A user entry."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] = msgspec.field(default_factory=list, name="as-groups")
    impersonate_user_extra: dict[str, list[str]] = msgspec.field(
        default_factory=dict, name="as-user-extra"
    )
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec: ExecConfig | None = None


class Context(msgspec.Struct):
    """A context: cluster, user and namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct):
    """A named cluster."""

    name: str = ""
    cluster: Cluster = msgspec.field(default_factory=Cluster)


class NamedAuthInfo(msgspec.Struct):
    """A named user."""

    name: str = ""
    user: AuthInfo = msgspec.field(default_factory=AuthInfo)


class NamedContext(msgspec.Struct):
    """A named context."""

    name: str = ""
    context: Context = msgspec.field(default_factory=Context)


class _Document(msgspec.Struct, rename="kebab"):
    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")
    clusters: list[NamedCluster] = []
    users: list[NamedAuthInfo] = []
    contexts: list[NamedContext] = []
    current_context: str = ""


class Config(msgspec.Struct):
    """One kubeconfig, or several merged ones."""

    clusters: dict[str, Cluster] = {}
    users: dict[str, AuthInfo] = {}
    contexts: dict[str, Context] = {}
    current_context: str = ""


def load_files(paths: Iterable[Path]) -> Config:
    """Load and merge files; missing ones are ignored.

    Parity: tools/clientcmd/loader.go Load, v1.36: if two files have an entry of the same name, the
    first one is used, unmerged.
    """
    merged = Config()
    failures: list[str] = []
    for path in dict.fromkeys(paths):
        try:
            config = _load(path)
        except FileNotFoundError:
            continue
        except (OSError, AccessError) as error:
            text = file_error("open", path, error) if isinstance(error, OSError) else str(error)
            failures.append(f'error loading config file "{path}": {text}')
            continue
        merged.clusters = {**config.clusters, **merged.clusters}
        merged.users = {**config.users, **merged.users}
        merged.contexts = {**config.contexts, **merged.contexts}
        merged.current_context = merged.current_context or config.current_context
    if failures:
        raise AccessError(aggregate(failures))
    return merged


def aggregate(texts: list[str]) -> str:
    """Join distinct errors into one text.

    Parity: apimachinery/pkg/util/errors NewAggregate, v1.36.
    """
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def file_error(verb: str, path: Path | str, error: OSError) -> str:
    """Return Go's text for a file that cannot be read."""
    return f"{verb} {path}: {(error.strerror or str(error)).lower()}"


def _load(path: Path) -> Config:
    data = path.read_bytes()
    if not data.strip():
        return Config()
    try:
        document = msgspec.convert(_without_nulls(read_document(data)), _Document)
        for cluster in document.clusters:
            decode_base64(cluster.cluster.certificate_authority_data)
        for user in document.users:
            decode_base64(user.user.client_certificate_data)
            decode_base64(user.user.client_key_data)
    except (ConfigError, ValueError) as error:
        raise AccessError(str(error)) from error
    if document.kind not in ("", "Config") or document.api_version not in ("", "v1"):
        raise AccessError(
            f'no kind "{document.kind}" is registered for version "{document.api_version}" '
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    base = path.absolute().parent
    for entry in document.clusters:
        entry.cluster.certificate_authority = _absolute(entry.cluster.certificate_authority, base)
    for user_entry in document.users:
        _resolve_paths(user_entry.user, base)
    return Config(
        clusters=_by_name("Cluster", [(e.name, e.cluster) for e in document.clusters]),
        users=_by_name("AuthInfo", [(e.name, e.user) for e in document.users]),
        contexts=_by_name("Context", [(e.name, e.context) for e in document.contexts]),
        current_context=document.current_context,
    )


def _by_name(kind: str, entries: list[tuple[str, _T]]) -> dict[str, _T]:
    by_name: dict[str, _T] = {}
    for name, entry in entries:
        if name in by_name:
            raise AccessError(
                f"error converting *[]Named{kind} into *map[string]*api.{kind}: "
                f'duplicate name "{name}" in list'
            )
        by_name[name] = entry
    return by_name


def _without_nulls(value: Any) -> Any:
    """Return a document without nulls, which Go ignores."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value if v is not None]
    return {} if value is None else value


def _resolve_paths(user: AuthInfo, base: Path) -> None:
    user.client_certificate = _absolute(user.client_certificate, base)
    user.client_key = _absolute(user.client_key, base)
    user.token_file = _absolute(user.token_file, base)
    # A command without a slash is searched in PATH.
    if user.exec is not None and "/" in user.exec.command:
        user.exec.command = _absolute(user.exec.command, base)


def _absolute(path: str, base: Path) -> str:
    return str(base / path) if path else path


NO_CLUSTER: Final = Cluster()


def interactive_mode(config: ExecConfig) -> str:
    """Return the interactive mode of a plugin, with upstream's default for old versions."""
    if not config.interactive_mode and config.api_version.endswith(("/v1beta1", "/v1alpha1")):
        return "IfAvailable"
    return config.interactive_mode


def validate_cluster_info(name: str, cluster: Cluster) -> Iterator[str]:
    """Return the errors of a cluster.

    Parity: tools/clientcmd/validation.go validateClusterInfo, v1.36.
    """
    if cluster is NO_CLUSTER:
        yield EMPTY_CLUSTER
        return
    if not cluster.server:
        yield (
            f"no server found for cluster {go_quote(name)}"
            if name
            else "default cluster has no server defined"
        )
    if cluster.proxy_url:
        try:
            check_proxy_url(cluster.proxy_url)
        except AccessError as error:
            # Differs: upstream shows the password, too. docs/security.md
            url = go_quote(without_password(cluster.proxy_url))
            yield f"invalid 'proxy-url' {url} for cluster {go_quote(name)}: {error}"
    file = cluster.certificate_authority
    if file and cluster.certificate_authority_data:
        yield (
            f"certificate-authority-data and certificate-authority are both specified for {name}. "
            "certificate-authority-data will override."
        )
    yield from _unreadable("certificate-authority", file, name)


def validate_auth_info(name: str, user: AuthInfo) -> Iterator[str]:
    """Return the errors of a user.

    Parity: tools/clientcmd/validation.go validateAuthInfo, v1.36.
    """
    yield from _validate_certificate(name, user)
    if user.exec is not None:
        yield from _validate_exec(name, user, user.exec)
    if user.token and (user.username or user.password):
        yield (
            f"more than one authentication method found for {name}; "
            "found [token basicAuth], only one is allowed"
        )
    has_details = user.impersonate_uid or user.impersonate_groups or user.impersonate_user_extra
    if has_details and not user.impersonate:
        yield f"requesting uid, groups or user-extra for {name} without impersonating a user"


def _validate_certificate(name: str, user: AuthInfo) -> Iterator[str]:
    if not (user.client_certificate or user.client_certificate_data):
        return
    if user.client_certificate and user.client_certificate_data:
        yield (
            f"client-cert-data and client-cert are both specified for {name}. "
            "client-cert-data will override."
        )
    if user.client_key and user.client_key_data:
        yield (
            f"client-key-data and client-key are both specified for {name}; "
            "client-key-data will override"
        )
    if not user.client_key and not user.client_key_data:
        yield (
            f"client-key-data or client-key must be specified for {name} "
            "to use the clientCert authentication method."
        )
    yield from _unreadable("client-cert", user.client_certificate, name)
    yield from _unreadable("client-key", user.client_key, name)


def _validate_exec(name: str, user: AuthInfo, config: ExecConfig) -> Iterator[str]:
    ending = f"must be specified for {name} to use exec authentication plugin"
    if user.auth_provider is not None:
        yield f"authProvider cannot be provided in combination with an exec plugin for {name}"
    if not config.command:
        yield f"command {ending}"
    if not config.api_version:
        yield f"apiVersion {ending}"
    for variable in config.env:
        if not variable.name:
            yield f"env variable name {ending}"
    mode = interactive_mode(config)
    if not mode:
        yield f"interactiveMode {ending}"
    elif mode not in _INTERACTIVE:
        yield f"invalid interactiveMode for {name}: {go_quote(mode)}"


def _unreadable(field: str, file: str, name: str) -> Iterator[str]:
    if not file:
        return
    try:
        with Path(file).open("rb"):
            pass
    except OSError as error:
        yield f"unable to read {field} {file} for {name} due to {file_error('open', file, error)}"
