"""kubeconfig files: what stands in them, and what several of them say together.

Owns the document's form, the order in which files win, and paths that are relative to a file.
Never decides which cluster or user is meant: kubeconfig does.
Upstream: staging/src/k8s.io/client-go/tools/clientcmd/{loader,merge,api/v1/types}.go
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kubesched.client.auth import AccessError
from kubesched.config.errors import ConfigError
from kubesched.config.gobase64 import decode_base64
from kubesched.config.load import read_document


class Extension(msgspec.Struct):
    """Something of somebody else's, by name."""

    name: str = ""
    extension: Any = None


class Cluster(msgspec.Struct, rename="kebab"):
    """How a cluster is reached."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[Extension] = []


class EnvVar(msgspec.Struct):
    """A variable for a plugin program."""

    name: str = ""
    value: str = ""


class ExecConfig(msgspec.Struct, rename="camel"):
    """A program that says who we are."""

    command: str = ""
    args: list[str] = []
    env: list[EnvVar] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(msgspec.Struct):
    """A way to authenticate that was built into clients once."""

    name: str = ""


class AuthInfo(msgspec.Struct, rename="kebab"):
    """Who somebody is to a cluster."""

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
    """A cluster, a user and a namespace, under one name."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct):
    """A cluster and its name."""

    name: str = ""
    cluster: Cluster = msgspec.field(default_factory=Cluster)


class NamedAuthInfo(msgspec.Struct):
    """A user and their name."""

    name: str = ""
    user: AuthInfo = msgspec.field(default_factory=AuthInfo)


class NamedContext(msgspec.Struct):
    """A context and its name."""

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
    """What one or several files say."""

    clusters: dict[str, Cluster] = {}
    users: dict[str, AuthInfo] = {}
    contexts: dict[str, Context] = {}
    current_context: str = ""


_T = TypeVar("_T")


def load_files(paths: Iterable[Path]) -> Config:
    """Return what files say together; one that is missing says nothing.

    Parity: tools/clientcmd/loader.go Load, v1.36: of a name that two files have, the first file's
    entry is used as a whole.
    """
    merged = Config()
    failures: list[str] = []
    for path in dict.fromkeys(paths):
        try:
            found = _load(path)
        except FileNotFoundError:
            continue
        except (OSError, AccessError) as error:
            text = os_text("open", path, error) if isinstance(error, OSError) else str(error)
            failures.append(f'error loading config file "{path}": {text}')
            continue
        merged.clusters = {**found.clusters, **merged.clusters}
        merged.users = {**found.users, **merged.users}
        merged.contexts = {**found.contexts, **merged.contexts}
        merged.current_context = merged.current_context or found.current_context
    if failures:
        raise AccessError(aggregate(failures))
    return merged


def aggregate(texts: list[str]) -> str:
    """Return several errors as one text, each once.

    Parity: apimachinery/pkg/util/errors NewAggregate, v1.36.
    """
    each = list(dict.fromkeys(texts))
    return each[0] if len(each) == 1 else f"[{', '.join(each)}]"


def os_text(verb: str, path: Path | str, error: OSError) -> str:
    """Return what Go says of a file that cannot be read."""
    return f"{verb} {path}: {(error.strerror or str(error)).lower()}"


def data_of(text: str) -> bytes:
    """Return the bytes of a `-data` field; load has seen that it is base64."""
    return decode_base64(text)


def _load(path: Path) -> Config:
    data = path.read_bytes()
    if not data.strip():
        return Config()
    try:
        document = msgspec.convert(_without_nulls(read_document(data)), _Document)
        for cluster in document.clusters:
            data_of(cluster.cluster.certificate_authority_data)
        for user in document.users:
            data_of(user.user.client_certificate_data)
            data_of(user.user.client_key_data)
    except ConfigError as error:
        raise AccessError(str(error)) from error
    except ValueError as error:
        raise AccessError(str(error)) from error
    if document.kind not in ("", "Config") or document.api_version not in ("", "v1"):
        raise AccessError(
            f'no kind "{document.kind}" is registered for version "{document.api_version}" '
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    base = path.absolute().parent
    return Config(
        clusters=_by_name(
            "Cluster", [(e.name, _placed_cluster(e.cluster, base)) for e in document.clusters]
        ),
        users=_by_name("AuthInfo", [(e.name, _placed_user(e.user, base)) for e in document.users]),
        contexts=_by_name("Context", [(e.name, e.context) for e in document.contexts]),
        current_context=document.current_context,
    )


def _by_name(kind: str, entries: list[tuple[str, _T]]) -> dict[str, _T]:
    found: dict[str, _T] = {}
    for name, entry in entries:
        if name in found:
            raise AccessError(
                f"error converting *[]Named{kind} into *map[string]*api.{kind}: "
                f'duplicate name "{name}" in list'
            )
        found[name] = entry
    return found


def _without_nulls(value: Any) -> Any:
    """Return a document without its nulls, which are nothing in Go."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value if v is not None]
    return {} if value is None else value


def _placed_cluster(cluster: Cluster, base: Path) -> Cluster:
    cluster.certificate_authority = _placed(cluster.certificate_authority, base)
    return cluster


def _placed_user(user: AuthInfo, base: Path) -> AuthInfo:
    user.client_certificate = _placed(user.client_certificate, base)
    user.client_key = _placed(user.client_key, base)
    user.token_file = _placed(user.token_file, base)
    # A command without a slash is looked for in PATH.
    if user.exec is not None and "/" in user.exec.command:
        user.exec.command = _placed(user.exec.command, base)
    return user


def _placed(path: str, base: Path) -> str:
    return str(base / path) if path else path
