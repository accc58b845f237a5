"""What makes a cluster or a user of a kubeconfig unusable.

Owns the rules and the texts, in upstream's order. Never decides which cluster or user is meant:
kubeconfig does.
Upstream: staging/src/k8s.io/client-go/tools/clientcmd/validation.go
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kubesched.client.auth import AccessError
from kubesched.client.kubeconfig_files import AuthInfo, Cluster, ExecConfig, os_text
from kubesched.client.proxies import check_proxy_url
from kubesched.kit.urls import without_password
from kubesched.objects.field_errors import go_quote

EMPTY_CLUSTER: Final = "cluster has no server defined"
NO_CLUSTER: Final = Cluster()
_INTERACTIVE: Final = ("Never", "IfAvailable", "Always")


def mode_of(config: ExecConfig) -> str:
    """Return whether a plugin may ask the user, with upstream's default for old versions."""
    if not config.interactive_mode and config.api_version.endswith(("/v1beta1", "/v1alpha1")):
        return "IfAvailable"
    return config.interactive_mode


def problems_of_cluster(name: str, cluster: Cluster) -> Iterator[str]:
    """Return what is wrong with a cluster.

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


def problems_of_user(name: str, user: AuthInfo) -> Iterator[str]:
    """Return what is wrong with a user.

    Parity: tools/clientcmd/validation.go validateAuthInfo, v1.36.
    """
    yield from _problems_of_certificate(name, user)
    if user.exec is not None:
        yield from _problems_of_exec(name, user, user.exec)
    if user.token and (user.username or user.password):
        yield (
            f"more than one authentication method found for {name}; "
            "found [token basicAuth], only one is allowed"
        )
    asks_more = user.impersonate_uid or user.impersonate_groups or user.impersonate_user_extra
    if asks_more and not user.impersonate:
        yield f"requesting uid, groups or user-extra for {name} without impersonating a user"


def _problems_of_certificate(name: str, user: AuthInfo) -> Iterator[str]:
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


def _problems_of_exec(name: str, user: AuthInfo, config: ExecConfig) -> Iterator[str]:
    ending = f"must be specified for {name} to use exec authentication plugin"
    if user.auth_provider is not None:
        yield f"authProvider cannot be provided in combination with an exec plugin for {name}"
    if not config.command:
        yield f"command {ending}"
    if not config.api_version:
        yield f"apiVersion {ending}"
    for one in config.env:
        if not one.name:
            yield f"env variable name {ending}"
    mode = mode_of(config)
    if not mode:
        yield f"interactiveMode {ending}"
    elif mode not in _INTERACTIVE:
        yield f"invalid interactiveMode for {name}: {go_quote(mode)}"


def _unreadable(what: str, file: str, name: str) -> Iterator[str]:
    if not file:
        return
    try:
        with Path(file).open("rb"):
            pass
    except OSError as error:
        yield f"unable to read {what} {file} for {name} due to {os_text('open', file, error)}"
