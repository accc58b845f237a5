"""Which cluster is meant, and as whom."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from kubesched.client import kubeconfig
from kubesched.client.auth import AccessError, ClusterAccess
from kubesched.client.exec_plugin import ExecPlugin
from kubesched.client.kubeconfig import load_access
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import make_log
from tests.unit.client.kubeconfig_world import (
    SERVER,
    authority,
    client_pair,
    document,
    encoded,
    refused_cases,
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


def authorization(found: ClusterAccess) -> str:
    return asyncio.run(found.credentials.fetch()).authorization


def test_the_whole_of_a_cluster(tmp_path: Path) -> None:
    pair = client_pair()
    found = access(
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
    assert (found.server, found.proxy) == (SERVER, "http://proxy.test:3128")
    assert (found.context, found.namespace) == ("x", "ns")
    assert found.tls.authority_data == authority().pem
    assert (found.tls.certificate_data, found.tls.key_data) == (pair.certificate, pair.key)
    assert (found.tls.server_name, found.tls.is_insecure) == ("kubernetes", False)
    assert authorization(found) == ""


def test_relative_paths_begin_at_the_file(tmp_path: Path) -> None:
    pair = client_pair()
    for name, data in (
        ("pki/ca.crt", authority().pem),
        ("pki/me.crt", pair.certificate),
        ("pki/me.key", pair.key),
    ):
        written(tmp_path / "deep" / name, data.decode())
    found = access(
        tmp_path / "deep",
        document(
            cluster={"certificate-authority": "pki/ca.crt"},
            user={"client-certificate": "pki/me.crt", "client-key": "../deep/pki/me.key"},
        ),
    )
    assert Path(found.tls.authority_file) == tmp_path / "deep/pki/ca.crt"
    assert Path(found.tls.certificate_file).samefile(tmp_path / "deep/pki/me.crt")
    assert Path(found.tls.key_file).samefile(tmp_path / "deep/pki/me.key")


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"username": "jane", "password": "pass"}, "Basic amFuZTpwYXNz"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        # The file wins over the token beside it, as soon as it can be read.
        ({"tokenFile": "token", "token": "abc"}, "Bearer from-file"),
        ({"tokenFile": "missing", "token": "abc"}, "Bearer abc"),
        # A token goes before a plugin.
        ({"token": "abc", "exec": {"command": "x", "apiVersion": V1BETA1}}, "Bearer abc"),
        ({}, ""),
    ],
)
def test_who_we_are(tmp_path: Path, user: dict[str, Any], expected: str) -> None:
    written(tmp_path / "token", "from-file\n")
    assert authorization(access(tmp_path, document(user=user))) == expected


def test_a_certificate_goes_before_a_plugin(tmp_path: Path) -> None:
    pair = client_pair()
    user = {
        "client-certificate-data": encoded(pair.certificate),
        "client-key-data": encoded(pair.key),
        "exec": {"command": "x", "apiVersion": V1BETA1},
    }
    assert authorization(access(tmp_path, document(user=user))) == ""


def test_nothing_secret_is_sent_in_the_clear(tmp_path: Path) -> None:
    user = {"token": "abc", "as": "jane"}
    found = access(tmp_path, document(cluster={"server": "http://cluster.test"}, user=user))
    assert authorization(found) == ""
    assert found.headers == (("Impersonate-User", "jane"),)


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


def test_another_server_keeps_the_rest_but_the_certificates_name(tmp_path: Path) -> None:
    content = document(cluster={"tls-server-name": "kubernetes"}, user={"token": "abc"})
    found = access(tmp_path, content, master="https://other:6443")
    assert (found.server, found.tls.server_name) == ("https://other:6443", "")
    assert authorization(found) == "Bearer abc"


def test_a_context_of_choice(tmp_path: Path) -> None:
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
    found = load_access(environ={"KUBECONFIG": ":".join(files)})
    # An entry is taken as a whole, and the first context that is set is the current one.
    assert (found.server, found.context) == ("https://first", "y")
    assert authorization(found) == "Bearer second"


def test_home_counts_for_tools_only(tmp_path: Path) -> None:
    written(tmp_path / ".kube" / "config", document())
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(AccessError) as error:
        load_access(environ=environ)
    assert str(error.value) == NOTHING
    assert load_access(environ=environ, reads_home=True).server == SERVER
    assert load_access(environ=environ, context="x").server == SERVER


def test_an_address_alone_needs_no_file(tmp_path: Path) -> None:
    file = written(tmp_path / "k", document(user={"token": "abc"}))
    found = load_access(master="https://m", environ={"KUBECONFIG": file})
    assert found.server == "https://m"
    assert authorization(found) == ""


def test_socks_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="SOCKS proxies are not supported, use an HTTP proxy"):
        access(tmp_path, document(cluster={"proxy-url": "socks5://proxy.test:1080"}))


def test_the_environment_names_a_proxy(tmp_path: Path) -> None:
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


def test_the_account_of_the_pod(account: Path) -> None:
    found = load_access(environ=IN_CLUSTER)
    assert found.server == "https://10.0.0.1:443"
    assert authorization(found) == "Bearer account"
    assert found.tls.authority_file == str(account / "ca.crt")
    found = load_access(environ={**IN_CLUSTER, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert found.server == "https://[fd00::1]:443"


def test_the_account_goes_before_files_unless_one_is_named(account: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "k", document())
    assert load_access(environ={**IN_CLUSTER, "KUBECONFIG": file}).server != SERVER
    assert load_access(environ=IN_CLUSTER, kubeconfig=file).server == SERVER
    # A file that says nothing leaves it to the pod.
    empty = written(tmp_path / "empty", "")
    assert load_access(environ=IN_CLUSTER, kubeconfig=empty).server == "https://10.0.0.1:443"


def test_an_account_without_authority_is_said(account: Path) -> None:
    written(account / "ca.crt", "nothing")
    stream = io.StringIO()
    found = load_access(environ=IN_CLUSTER, log=make_log(stream, clock=SystemClock()))
    assert found.tls.authority_file == ""
    assert "Expected to load root CA config from" in stream.getvalue()


def test_what_is_tried_is_said() -> None:
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


@pytest.mark.parametrize("case", refused_cases(), ids=lambda case: case["says"][:60])
def test_what_kube_scheduler_refuses(tmp_path: Path, case: dict[str, Any]) -> None:
    with pytest.raises(AccessError) as error:
        access(tmp_path, case["file"])
    assert str(error.value).replace(str(tmp_path), "D") == case["says"]


def test_an_auth_provider_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AccessError) as error:
        access(tmp_path, document(user={"auth-provider": {"name": "gcp"}}))
    assert str(error.value) == (
        'no Auth Provider found for name "gcp": '
        "auth-provider is not supported, use an exec credential plugin instead"
    )


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AccessError) as error:
        load_access(kubeconfig=str(tmp_path / "k"), environ={})
    assert str(error.value) == f"stat {tmp_path}/k: no such file or directory"


def test_names_are_given_once_and_types_are_kept(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match='duplicate name "u" in list'):
        access(tmp_path, document(users=[{"name": "u"}, {"name": "u"}]))
    with pytest.raises(AccessError, match=r"Expected `str`, got `int` - at `\$.users.*token`"):
        access(tmp_path, document(user={"token": 5}))


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    files = [written(tmp_path / name, "a: [") for name in "ab"]
    with pytest.raises(AccessError) as error:
        load_access(environ={"KUBECONFIG": ":".join(files)})
    text = str(error.value)
    assert text.startswith("[")
    assert all(f'error loading config file "{file}"' in text for file in files)


def settings_of(found: ClusterAccess) -> Any:
    assert isinstance(found.credentials, ExecPlugin)
    return found.credentials._settings


def test_a_plugin_and_what_it_is_told(tmp_path: Path) -> None:
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
    settings = settings_of(access(tmp_path, document(cluster=cluster, user=user)))
    assert settings.command == str(tmp_path / "login")
    assert (settings.arguments, settings.env) == (("--a", "b"), (("A", "1"),))
    assert settings.install_hint == "get U+001B[1mitU+001B[0m\n"
    assert settings.cluster == {
        "server": SERVER,
        "tls-server-name": "kubernetes",
        "certificate-authority-data": encoded(authority().pem),
        "proxy-url": "http://proxy.test",
        "config": {"audience": "me"},
    }


def test_a_plugin_by_name_and_its_defaults(tmp_path: Path) -> None:
    user = {"exec": {"command": "login", "apiVersion": V1BETA1}}
    settings = settings_of(access(tmp_path, document(user=user)))
    assert (settings.command, settings.interactive_mode) == ("login", "IfAvailable")
    assert settings.cluster is None
