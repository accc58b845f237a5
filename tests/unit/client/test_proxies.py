"""Proxies from kubeconfigs and the environment."""

from __future__ import annotations

import pytest

from kubesched.client.auth.credentials import AccessError
from kubesched.client.http.proxies import proxy_from_environment, supported_proxy

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        ("https://h", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://h", {"https_proxy": PROXY}, PROXY),
        ("https://h", {"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, PROXY),
        ("https://h", {"HTTP_PROXY": PROXY}, ""),
        ("http://h", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://h", {"HTTPS_PROXY": "proxy.test:3128"}, PROXY),
        ("https://h", {}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://127.0.0.9", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[::1]", {"HTTPS_PROXY": PROXY}, ""),
    ],
)
def test_the_environment(server: str, environ: dict[str, str], expected: str) -> None:
    assert proxy_from_environment(server, environ) == expected


@pytest.mark.parametrize(
    ("rule", "server", "is_direct"),
    [
        ("*", "https://h", True),
        ("", "https://h", False),
        ("h", "https://h", True),
        ("H", "https://h", True),
        ("h", "https://a.h", True),
        (".h", "https://a.h", True),
        (".h", "https://h", False),
        ("*.h", "https://a.b.h", True),
        ("*.h", "https://h", False),
        ("h", "https://ah", False),
        ("h:6443", "https://h:6443", True),
        ("h:6443", "https://h", False),
        ("h:443", "https://h", True),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.0.0.0/8", "https://11.1.2.3", False),
        ("10.0.0.0/8", "https://h", False),
        ("10.0.0.0/99", "https://10.1.2.3", False),
        ("10.1.2.3", "https://10.1.2.3:6443", True),
        ("10.1.2.3:443", "https://10.1.2.3:6443", False),
        ("fd00::/8", "https://[fd00::1]", True),
        ("[fd00::1]:443", "https://[fd00::1]", True),
        ("fd00::1", "https://[fd00::1]:6443", True),
        ("a, ,h ", "https://h", True),
        (":443", "https://h", False),
    ],
)
def test_no_proxy_rules(rule: str, server: str, is_direct: bool) -> None:
    proxy = proxy_from_environment(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": rule})
    assert (proxy == "") is is_direct


@pytest.mark.parametrize("url", ["socks5://p:1", "socks5h://p:1", "ftp://p"])
def test_unsupported_proxies(url: str) -> None:
    with pytest.raises(AccessError, match=url):
        supported_proxy(url)
