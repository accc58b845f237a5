"""Proxy settings from a kubeconfig or the environment.

Owns the parsing of proxy URLs and NO_PROXY. Never connects.
Upstream: staging/src/k8s.io/client-go/tools/clientcmd/helpers.go, golang.org/x/net/http/httpproxy
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

from kubesched.client.auth.credentials import AccessError
from kubesched.golang.strconv import go_quote
from kubesched.kit.urls import split_address, without_password

_PORTS: Final = {"http": "80", "https": "443", "socks5": "1080"}


def check_proxy_url(url: str) -> None:
    """Raise AccessError for an invalid `proxy-url`.

    Parity: tools/clientcmd/helpers.go parseProxyURL, v1.36.
    """
    scheme = split_url(url).scheme
    if scheme not in _PORTS:
        raise AccessError(f"unsupported scheme {go_quote(scheme)}, must be http, https, or socks5")


def supported_proxy(url: str) -> str:
    """Return the URL of a supported proxy; AccessError for any other."""
    scheme, shown = split_url(url).scheme, go_quote(without_password(url))
    if scheme in ("socks5", "socks5h"):
        raise AccessError(f"proxy {shown}: SOCKS proxies are not supported, use an HTTP proxy")
    if scheme not in ("http", "https"):
        raise AccessError(f"proxy {shown}: unsupported scheme {go_quote(scheme)}")
    return url


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy of the environment for a server; empty for none."""
    target = urlsplit(server)
    kind = "HTTPS_PROXY" if target.scheme == "https" else "HTTP_PROXY"
    proxy = _either(environ, kind)
    if not proxy or _is_direct(target, _either(environ, "NO_PROXY")):
        return ""
    parts = split_url(proxy)
    return proxy if parts.scheme and parts.netloc else f"http://{proxy}"


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL; AccessError if it is malformed."""
    try:
        return split_address(url)
    except ValueError as error:
        raise AccessError(str(error)) from None


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.lower()) or ""


def _is_direct(target: SplitResult, rules: str) -> bool:
    """Return whether a server is reached without the proxy.

    Parity: httpproxy useProxy and init, as Go's http.ProxyFromEnvironment uses them.
    """
    host = (target.hostname or "").lower()
    port = str(target.port or _PORTS[target.scheme])
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(rule.strip().lower(), host, port, address) for rule in rules.split(","))


def _matches(rule: str, host: str, port: str, address: IPv4Address | IPv6Address | None) -> bool:
    if rule in ("", "*"):
        return rule == "*"
    if "/" in rule:
        try:
            return address is not None and address in ip_network(rule, strict=False)
        except ValueError:
            return False
    name, rule_port = _split_port(rule)
    if not name or rule_port not in ("", port):
        return False
    ruled = _address(name)
    if ruled is not None:
        return ruled == address
    name = name[1:] if name.startswith("*.") else name
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")


def _split_port(rule: str) -> tuple[str, str]:
    if rule.startswith("["):
        name, _, rest = rule[1:].partition("]")
        return name, rest.removeprefix(":")
    if rule.count(":") == 1:
        name, _, port = rule.partition(":")
        return name, port
    return rule, ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
