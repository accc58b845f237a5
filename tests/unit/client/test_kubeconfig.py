"""Cluster access from kubeconfigs, flags and the environment."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from kubesched.client.auth import kubeconfig
from kubesched.client.auth.credentials import AccessError, ClusterAccess
from kubesched.client.auth.exec_plugin import ExecPlugin
from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.auth.kubeconfig_files import EnvVar, interactive_mode
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import make_log
from tests.unit.client.kubeconfig_world import (
    SERVER,
    authority,
    client_pair,
    document,
    encoded,
    rejected_cases,
    written,
)

NOTHING = (
    "invalid configuration: "
    "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)
V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def access(path: Path, content: dict[str, Any] | str, **more: Any) -> ClusterAccess:
    file = written(path / "kubeconfig", content)
    return load_access(kubeconfig=file, **{"environ": {}, **more})


def authorization(cluster_access: ClusterAccess) -> str:
    return asyncio.run(cluster_access.credentials.fetch()).authorization


def test_all_fields_of_a_cluster(tmp_path: Path) -> None:
    pair = client_pair()
    cluster_access = access(
        tmp_path,
        document(
            cluster={
                "certificate-authority-data": encoded(authority().pem),
                "tls-server-name": "kubernetes",
                "proxy-url": "http://proxy.test:3128",
                "extensions": [{"name": "minikube.sigs.k8s.io", "extension": {"a": 1}}],
            },
            user={
                "client-certificate-data": encoded(pair.certificate),
                "client-key-data": encoded(pair.key),
            },
            contexts=[{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
            preferences={},
            extensions=None,
        ),
    )
    assert (cluster_access.server, cluster_access.proxy) == (SERVER, "http://proxy.test:3128")
    assert (cluster_access.context, cluster_access.namespace) == ("x", "ns")
    assert cluster_access.tls.authority_data == authority().pem
    assert (cluster_access.tls.certificate_data, cluster_access.tls.key_data) == (
        pair.certificate,
        pair.key,
    )
    assert (cluster_access.tls.server_name, cluster_access.tls.is_insecure) == ("kubernetes", False)
    assert authorization(cluster_access) == ""


def test_relative_paths_are_resolved_from_the_file(tmp_path: Path) -> None:
    pair = client_pair()
    for name, data in (
        ("pki/ca.crt", authority().pem),
        ("pki/me.crt", pair.certificate),
        ("pki/me.key", pair.key),
    ):
        written(tmp_path / "deep" / name, data.decode())
    cluster_access = access(
        tmp_path / "deep",
        document(
            cluster={"certificate-authority": "pki/ca.crt"},
            user={"client-certificate": "pki/me.crt", "client-key": "../deep/pki/me.key"},
        ),
    )
    assert Path(cluster_access.tls.authority_file) == tmp_path / "deep/pki/ca.crt"
    assert Path(cluster_access.tls.certificate_file).samefile(tmp_path / "deep/pki/me.crt")
    assert Path(cluster_access.tls.key_file).samefile(tmp_path / "deep/pki/me.key")


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"username": "jane", "password": "pass"}, "Basic amFuZTpwYXNz"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        # The file replaces the token once it can be read.
        ({"tokenFile": "token", "token": "abc"}, "Bearer from-file"),
        ({"tokenFile": "missing", "token": "abc"}, "Bearer abc"),
        # A token takes precedence over a plugin.
        ({"token": "abc", "exec": {"command": "x", "apiVersion": V1BETA1}}, "Bearer abc"),
        ({}, ""),
    ],
)
def test_the_credential_of_a_user(tmp_path: Path, user: dict[str, Any], expected: str) -> None:
    written(tmp_path / "token", "from-file\n")
    assert authorization(access(tmp_path, document(user=user))) == expected


def test_a_certificate_takes_precedence_over_a_plugin(tmp_path: Path) -> None:
    pair = client_pair()
    user = {
        "client-certificate-data": encoded(pair.certificate),
        "client-key-data": encoded(pair.key),
        "exec": {"command": "x", "apiVersion": V1BETA1},
    }
    assert authorization(access(tmp_path, document(user=user))) == ""


def test_no_secret_is_sent_without_tls(tmp_path: Path) -> None:
    user = {"token": "abc", "as": "jane"}
    cluster_access = access(
        tmp_path, document(cluster={"server": "http://cluster.test"}, user=user)
    )
    assert authorization(cluster_access) == ""
    assert cluster_access.headers == (("Impersonate-User", "jane"),)


def test_impersonation(tmp_path: Path) -> None:
    user = {
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"example.com/who's": ["x", "y"]},
    }
    assert access(tmp_path, document(user=user)).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2Fwho's", "x"),
        ("Impersonate-Extra-example.com%2Fwho's", "y"),
    )


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://h:1/", "https://h:1"),
        ("https://h/a/b/?q#f", "https://h/a/b"),
        ("h:8080", "http://h:8080"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("h", "http://h"),
    ],
)
def test_addresses(tmp_path: Path, server: str, expected: str) -> None:
    assert access(tmp_path, document(cluster={"server": server})).server == expected
    assert load_access(master=server, environ={}).server == expected


def test_master_replaces_the_server_and_its_tls_name(tmp_path: Path) -> None:
    content = document(cluster={"tls-server-name": "kubernetes"}, user={"token": "abc"})
    cluster_access = access(tmp_path, content, master="https://other:6443")
    assert (cluster_access.server, cluster_access.tls.server_name) == ("https://other:6443", "")
    assert authorization(cluster_access) == "Bearer abc"


def test_a_selected_context(tmp_path: Path) -> None:
    content = document(
        clusters=[
            {"name": "c", "cluster": {"server": SERVER}},
            {"name": "d", "cluster": {"server": "https://d"}},
        ],
        contexts=[
            {"name": "x", "context": {"cluster": "c", "user": "u"}},
            {"name": "y", "context": {"cluster": "d", "user": "nobody"}},
        ],
    )
    assert access(tmp_path, content, context="y").server == "https://d"
    with pytest.raises(AccessError, match=r'^context "z" does not exist$'):
        access(tmp_path, content, context="z")


def test_the_first_of_several_files_wins(tmp_path: Path) -> None:
    first = document(cluster={"server": "https://first"}, users=[], current="")
    second = document(cluster={"server": "https://second"}, user={"token": "second"})
    second["contexts"].append({"name": "y", "context": {"cluster": "c", "user": "u"}})
    second["current-context"] = "y"
    files = [
        written(tmp_path / "a", first),
        str(tmp_path / "missing"),
        "",
        written(tmp_path / "b", second),
        written(tmp_path / "c", document(current="x")),
    ]
    cluster_access = load_access(environ={"KUBECONFIG": ":".join(files)})
    # Entries are not merged, and the first current context wins.
    assert (cluster_access.server, cluster_access.context) == ("https://first", "y")
    assert authorization(cluster_access) == "Bearer second"


def test_the_home_directory_is_read_for_tools_only(tmp_path: Path) -> None:
    written(tmp_path / ".kube" / "config", document())
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(AccessError) as error:
        load_access(environ=environ)
    assert str(error.value) == NOTHING
    assert load_access(environ=environ, reads_home=True).server == SERVER
    assert load_access(environ=environ, context="x").server == SERVER


def test_master_needs_no_file(tmp_path: Path) -> None:
    file = written(tmp_path / "k", document(user={"token": "abc"}))
    cluster_access = load_access(master="https://m", environ={"KUBECONFIG": file})
    assert cluster_access.server == "https://m"
    assert authorization(cluster_access) == ""


def test_socks_proxies_are_rejected_with_advice(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="SOCKS proxies are not supported, use an HTTP proxy"):
        access(tmp_path, document(cluster={"proxy-url": "socks5://proxy.test:1080"}))


def test_a_proxy_from_the_environment(tmp_path: Path) -> None:
    environ = {"https_proxy": "proxy.test:3128"}
    assert access(tmp_path, document(), environ=environ).proxy == "http://proxy.test:3128"
    environ["NO_PROXY"] = ".test"
    assert access(tmp_path, document(), environ=environ).proxy == ""


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "serviceaccount"
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", place)
    written(place / "token", "account\n")
    written(place / "ca.crt", authority().pem.decode())
    return place


IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_service_account_of_the_pod(account: Path) -> None:
    cluster_access = load_access(environ=IN_CLUSTER)
    assert cluster_access.server == "https://10.0.0.1:443"
    assert authorization(cluster_access) == "Bearer account"
    assert cluster_access.tls.authority_file == str(account / "ca.crt")
    cluster_access = load_access(environ={**IN_CLUSTER, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert cluster_access.server == "https://[fd00::1]:443"


def test_the_service_account_takes_precedence_over_unnamed_files(
    account: Path, tmp_path: Path
) -> None:
    file = written(tmp_path / "k", document())
    assert load_access(environ={**IN_CLUSTER, "KUBECONFIG": file}).server != SERVER
    assert load_access(environ=IN_CLUSTER, kubeconfig=file).server == SERVER
    # An empty file falls back to the service account.
    empty = written(tmp_path / "empty", "")
    assert load_access(environ=IN_CLUSTER, kubeconfig=empty).server == "https://10.0.0.1:443"


def test_a_service_account_without_authority_is_logged(account: Path) -> None:
    written(account / "ca.crt", "nothing")
    stream = io.StringIO()
    cluster_access = load_access(environ=IN_CLUSTER, log=make_log(stream, clock=SystemClock()))
    assert cluster_access.tls.authority_file == ""
    assert "Expected to load root CA config from" in stream.getvalue()


def test_the_search_for_a_configuration_is_logged() -> None:
    stream = io.StringIO()
    log = make_log(stream, clock=SystemClock())
    with pytest.raises(AccessError):
        load_access(environ={}, log=log)
    log.flush()
    first, second = stream.getvalue().splitlines()
    assert first.startswith("W")
    assert first.endswith(
        "Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  "
        "This might not work."
    )
    assert second.endswith(
        "error creating inClusterConfig, falling back to default config: "
        "unable to load in-cluster configuration, "
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
    )


def plugin(**more: Any) -> dict[str, Any]:
    return {"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "Never", **more}}


@pytest.mark.parametrize("case", rejected_cases(), ids=lambda case: case["says"][:60])
def test_kubeconfigs_that_kube_scheduler_rejects(tmp_path: Path, case: dict[str, Any]) -> None:
    with pytest.raises(AccessError) as error:
        access(tmp_path, case["file"])
    assert str(error.value).replace(str(tmp_path), "D") == case["says"]


def test_an_auth_provider_is_rejected_with_advice(tmp_path: Path) -> None:
    with pytest.raises(AccessError) as error:
        access(tmp_path, document(user={"auth-provider": {"name": "gcp"}}))
    assert str(error.value) == (
        'no Auth Provider found for name "gcp": '
        "auth-provider is not supported, use an exec credential plugin instead"
    )


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(AccessError) as error:
        load_access(kubeconfig=str(tmp_path / "k"), environ={})
    assert str(error.value) == f"stat {tmp_path}/k: no such file or directory"


def test_duplicate_names_and_wrong_types_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match='duplicate name "u" in list'):
        access(tmp_path, document(users=[{"name": "u"}, {"name": "u"}]))
    with pytest.raises(AccessError, match=r"Expected `str`, got `int` - at `\$.users.*token`"):
        access(tmp_path, document(user={"token": 5}))


def test_every_unreadable_file_is_named(tmp_path: Path) -> None:
    files = [written(tmp_path / name, "a: [") for name in "ab"]
    with pytest.raises(AccessError) as error:
        load_access(environ={"KUBECONFIG": ":".join(files)})
    text = str(error.value)
    assert text.startswith("[")
    assert all(f'error loading config file "{file}"' in text for file in files)


def plugin_of(cluster: ClusterAccess) -> ExecPlugin:
    assert isinstance(cluster.credentials, ExecPlugin)
    return cluster.credentials


def test_a_plugin_gets_arguments_environment_and_cluster(tmp_path: Path) -> None:
    user = plugin(
        command="bin/../login",
        args=["--a", "b"],
        env=[{"name": "A", "value": "1"}],
        installHint="get \x1b[1mit\x1b[0m\n",
        provideClusterInfo=True,
    )
    extensions = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}]
    cluster = {
        "certificate-authority-data": encoded(authority().pem),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy.test",
        "extensions": extensions,
    }
    exec_plugin = plugin_of(access(tmp_path, document(cluster=cluster, user=user)))
    assert exec_plugin._command == str(tmp_path / "login")
    assert exec_plugin._config.args == ["--a", "b"]
    assert exec_plugin._config.env == [EnvVar("A", "1")]
    assert exec_plugin._hint().endswith("\n\nget U+001B[1mitU+001B[0m\n")
    assert exec_plugin._cluster == {
        "server": SERVER,
        "tls-server-name": "kubernetes",
        "certificate-authority-data": encoded(authority().pem),
        "proxy-url": "http://proxy.test",
        "config": {"audience": "me"},
    }


def test_a_plugin_by_name_and_its_defaults(tmp_path: Path) -> None:
    user = {"exec": {"command": "login", "apiVersion": V1BETA1}}
    exec_plugin = plugin_of(access(tmp_path, document(user=user)))
    assert exec_plugin._command == "login"
    assert interactive_mode(exec_plugin._config) == "IfAvailable"
    assert exec_plugin._cluster is None
