"""Errors of credentials, kubeconfigs and proxies never show a secret."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.client.auth.credentials import (
    AccessError,
    ClusterAccess,
    Credential,
    FixedCredential,
    KeyPair,
    TlsSettings,
)
from kubesched.client.auth.exec_plugin import ExecPlugin
from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.auth.kubeconfig_files import EnvVar, ExecConfig
from kubesched.client.http.transport import transport_error
from kubesched.kit.clock import SystemClock

SECRET = "c4n4ry-" * 5


def kubeconfig(**user: object) -> str:
    return json.dumps(
        {
            "current-context": "here",
            "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": "here", "context": {"cluster": "one", "user": "ada"}}],
            "users": [{"name": "ada", "user": user}],
        }
    )


PEM = base64.b64encode(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n".encode()).decode()


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"token": [SECRET]}, id="a token of the wrong type"),
        pytest.param({"token": SECRET, "username": "ada"}, id="two authentication methods"),
        pytest.param({"username": "ada", "password": {"x": SECRET}}, id="a password in a map"),
        pytest.param({"client-key-data": f"%{SECRET}"}, id="a key that is not base64"),
        pytest.param({"client-certificate-data": PEM, "client-key-data": PEM}, id="invalid key"),
        pytest.param({"client-certificate-data": PEM}, id="no key"),
        pytest.param(
            {"exec": {"command": "x", "env": [{"name": "", "value": SECRET}]}},
            id="environment of a plugin",
        ),
        pytest.param(
            {"auth-provider": {"name": "oidc", "config": {"refresh-token": SECRET}}},
            id="auth provider",
        ),
    ],
)
def test_a_rejected_kubeconfig(tmp_path: Path, user: dict[str, object]) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(**user))
    with pytest.raises(AccessError) as rejected:
        load_access(kubeconfig=str(path), environ={})
    for shown in (SECRET, PEM):
        assert shown not in str(rejected.value)


@given(at=st.integers(0, 400), inserted=st.sampled_from(["{", "}", '"', ",", "\x00", "\t", ": ["]))
def test_a_damaged_kubeconfig(
    tmp_path_factory: pytest.TempPathFactory, at: int, inserted: str
) -> None:
    text = kubeconfig(token=SECRET)
    at %= len(text)
    path = tmp_path_factory.getbasetemp() / "damaged-kubeconfig"
    path.write_text(text[:at] + inserted + text[at:])
    text = ""
    try:
        load_access(kubeconfig=str(path), environ={})
    except AccessError as rejected:
        text = str(rejected)
    assert SECRET[:14] not in text


@pytest.mark.parametrize("server", ["https://[host", "https://host:port", "https: [//host"])
def test_an_invalid_server_url(tmp_path: Path, server: str) -> None:
    document = json.loads(kubeconfig(token=SECRET))
    document["clusters"][0]["cluster"]["server"] = server
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document))
    with pytest.raises(AccessError):
        load_access(kubeconfig=str(path), environ={})


@pytest.mark.parametrize("scheme", ["socks5", "gopher"])
def test_the_password_of_a_proxy(scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    document = json.loads(kubeconfig(token="x"))
    document["clusters"][0]["cluster"]["proxy-url"] = f"{scheme}://ada:{SECRET}@proxy:1"
    path.write_text(json.dumps(document))
    with pytest.raises(AccessError) as rejected:
        load_access(kubeconfig=str(path), environ={})
    assert SECRET not in str(rejected.value)
    assert f"{scheme}://ada:***@proxy:1" in str(rejected.value)


def test_the_password_in_a_server_url() -> None:
    error = transport_error("GET", f"https://ada:{SECRET}@host/api", TimeoutError())
    assert error.message == 'Get "https://ada:***@host/api": context deadline exceeded'


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(Credential(f"Bearer {SECRET}"), id="a credential"),
        pytest.param(KeyPair(b"certificate", SECRET.encode()), id="key pair"),
        pytest.param(TlsSettings(key_data=SECRET.encode()), id="TLS settings"),
        pytest.param(
            ClusterAccess(
                "https://host",
                credentials=FixedCredential(f"Bearer {SECRET}"),
                tls=TlsSettings(key_data=SECRET.encode()),
            ),
            id="cluster access",
        ),
    ],
)
def test_repr_hides_secrets(holder: object) -> None:
    assert SECRET not in repr(holder)
    assert SECRET not in str(holder)


ANSWERS = [
    pytest.param(f'{{"kind": "ExecCredential", "status": {{"token": "{SECRET}"}}', id="truncated"),
    pytest.param(f'{{"kind": "Other", "status": {{"token": "{SECRET}"}}}}', id="another kind"),
    pytest.param(SECRET, id="the token alone"),
    pytest.param(
        json.dumps(
            {
                "kind": "ExecCredential",
                "apiVersion": "client.authentication.k8s.io/v1",
                "status": {"clientKeyData": SECRET},
            }
        ),
        id="a key without a certificate",
    ),
    pytest.param(
        json.dumps({"kind": "ExecCredential", "apiVersion": "v9", "status": {"token": [SECRET]}}),
        id="a token of the wrong type",
    ),
]


def exec_plugin(*args: str) -> ExecPlugin:
    config = ExecConfig(
        command=sys.executable,
        args=list(args),
        env=[EnvVar("PLUGIN_PASSWORD", SECRET)],
        api_version="client.authentication.k8s.io/v1",
        interactive_mode="Never",
    )
    return ExecPlugin(config, SystemClock())


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_output_of_a_credential_plugin(answer: str) -> None:
    plugin = exec_plugin("-c", f"print({answer!r})")
    with pytest.raises(AccessError) as rejected:
        asyncio.run(plugin.fetch())
    assert SECRET[:14] not in str(rejected.value)


def test_a_credential_plugin_that_fails() -> None:
    plugin = exec_plugin("-c", "raise SystemExit(3)", SECRET)
    with pytest.raises(AccessError) as rejected:
        asyncio.run(plugin.fetch())
    assert str(rejected.value) == f"exec: executable {sys.executable} failed with exit code 3"
