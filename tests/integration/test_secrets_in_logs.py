"""The log of `kubesched run -v=10` never has tokens, keys or contents of pods.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.server import kubeconfig_text
from kubesched.ops.serving_certificates import self_signed
from kubesched.testing import ADMIN, Api, ApiServer, TokenUser
from tests.integration.extender_process import start_extender
from tests.integration.live_processes import Place, Scheduler, start
from tests.integration.ops_world import send_request

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "secretive"
CANARY = "c4n4ry"
PASSWORD = f"{CANARY}-password"
ROLES = ("system:kube-scheduler", "system:volume-scheduler", "system:auth-delegator")


@pytest.fixture
def account(api: Api) -> Iterator[TokenUser]:
    """Create a ServiceAccount with the rights of a scheduler; yield it with its token."""
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    api.post(accounts, {"metadata": {"name": ACCOUNT}}).must(201)
    answer = api.post(f"{accounts}/{ACCOUNT}/token", {"spec": {}}).must(201)
    created = [f"{accounts}/{ACCOUNT}"]
    for role in ROLES:
        name = f"{ACCOUNT}-{role.replace(':', '-')}"
        binding = {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}],
        }
        api.post(f"{RBAC}/clusterrolebindings", binding).must(201)
        created.append(f"{RBAC}/clusterrolebindings/{name}")
    yield TokenUser(ACCOUNT, answer.json["status"]["token"])
    for path in created:
        api.delete(path).must(200)


def with_certificate(text: str, key: bytes, certificate: bytes) -> str:
    """Return a kubeconfig whose user also has a client certificate."""
    document = yaml.safe_load(text)
    document["users"][0]["user"] |= {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    return yaml.safe_dump(document)


def secrets_of_key(key: bytes) -> set[str]:
    lines = key.decode().splitlines()
    return {line for line in lines if not line.startswith("-")} | {base64.b64encode(key).decode()}


def is_in_log(scheduler: Scheduler, text: str) -> bool:
    return text in scheduler.log


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_logs_have_no_tokens_keys_or_contents_of_pods(
    api_server: ApiServer, api: Api, account: TokenUser, tmp_path: Path, form: str
) -> None:
    kubeconfig = tmp_path / "account.kubeconfig"
    kubeconfig.write_text(kubeconfig_text(api_server.url, api_server.ca_file, account))
    flags = [
        f"--{option}-kubeconfig={kubeconfig}" for option in ("authentication", "authorization")
    ]
    never = {account.token, *account.token.split(".")[1:], CANARY, ADMIN.token}
    with ProcessGroup(tmp_path) as group, Place(api) as place:
        scheduler = start(
            api_server, group, *flags, "-v=10", f"--logging-format={form}", kubeconfig=kubeconfig
        )
        node = place.node(cpu="1")
        container = {
            "name": "main",
            "image": "nginx",
            "args": [PASSWORD],
            "env": [{"name": "PASSWORD", "value": PASSWORD}],
            "resources": {"requests": {"cpu": "800m"}},
        }
        hidden = {"example.com/token": PASSWORD}
        place.pod("fits", annotations=hidden, containers=[container])
        scheduler.until(lambda: place.node_of("fits") == node, "the pod is bound")
        place.pod("waits", annotations=hidden, containers=[container])
        scheduler.until(lambda: place.rejected("waits"), "the other is rejected")
        url = f"https://127.0.0.1:{scheduler.port}"
        # Token reviews of a known and an unknown client.
        assert send_request(url, "/statusz", token=ADMIN.token).code == 200
        assert send_request(url, "/statusz", token=f"{CANARY}-token").code == 401
        assert send_request(url, "/statusz", headers={"Cookie": CANARY}).code == 403
        scheduler.send_signal(signal.SIGUSR2)
        scheduler.until(lambda: is_in_log(scheduler, "Dump of cached NodeInfo"), "it dumps")
        scheduler.send_signal(signal.SIGTERM)
        scheduler.wait()
        log = scheduler.log
    # The log does mention all of them.
    for text in ("fits", "waits", "/statusz", "invalid bearer token"):
        assert text in log
    assert [secret for secret in never if secret in log] == []


@pytest.mark.slow
def test_logs_have_no_secrets_when_requests_fail(api_server: ApiServer, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    unreachable = f"https://ada:{PASSWORD}@127.0.0.1:{port}"
    unknown_user = TokenUser("stranger", f"{CANARY}-token")
    pair = self_signed("127.0.0.1", 1.8e9)
    kubeconfigs = {
        "away": kubeconfig_text(unreachable, api_server.ca_file, unknown_user),
        "unknown": kubeconfig_text(api_server.url, api_server.ca_file, unknown_user),
    }
    # Its issuer is not trusted.
    kubeconfigs["odd"] = with_certificate(kubeconfigs["unknown"], pair.key, pair.certificate)
    never = {CANARY, *secrets_of_key(pair.key)}
    with ProcessGroup(tmp_path) as group:
        for name, text in kubeconfigs.items():
            kubeconfig = tmp_path / f"{name}.kubeconfig"
            kubeconfig.write_text(text)
            scheduler = start(api_server, group, "-v=10", label=name, kubeconfig=kubeconfig)
            scheduler.until_logged("Failed to watch")
            scheduler.until(partial(is_in_log, scheduler, "Serving securely"), "it serves")
            output = scheduler.log + scheduler.page("/metrics")[1]
            assert [secret for secret in never if secret in output] == []
        assert f"https://ada:***@127.0.0.1:{port}/" in group.log_path("away").read_text()


@pytest.mark.slow
def test_logs_have_no_input_or_output_of_credential_plugins(
    api_server: ApiServer, api: Api, account: TokenUser, tmp_path: Path
) -> None:
    credential = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": account.token},
    }
    document = yaml.safe_load(kubeconfig_text(api_server.url, api_server.ca_file, account))
    document["users"][0]["user"] = {
        "exec": {
            "apiVersion": credential["apiVersion"],
            "command": sys.executable,
            "args": ["-c", f"print({json.dumps(credential)!r})"],
            "env": [{"name": "PLUGIN_PASSWORD", "value": PASSWORD}],
            "interactiveMode": "Never",
        }
    }
    kubeconfig = tmp_path / "exec.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    with ProcessGroup(tmp_path) as group, Place(api) as place:
        scheduler = start(api_server, group, "-v=10", kubeconfig=kubeconfig)
        node = place.node()
        place.pod("fits")
        scheduler.until(lambda: place.node_of("fits") == node, "the pod is bound")
        scheduler.send_signal(signal.SIGTERM)
        scheduler.wait()
        assert place.key("fits") in scheduler.log
        for secret in (account.token, account.token.split(".")[2], PASSWORD):
            assert secret not in scheduler.log


@pytest.mark.slow
@pytest.mark.parametrize("knows_nodes", [True, False])
def test_logs_have_no_secrets_of_extender_calls(
    api_server: ApiServer, api: Api, account: TokenUser, tmp_path: Path, knows_nodes: bool
) -> None:
    kubeconfig = tmp_path / "account.kubeconfig"
    kubeconfig.write_text(kubeconfig_text(api_server.url, api_server.ca_file, account))
    with ProcessGroup(tmp_path) as group, Place(api) as place:
        nodes = [place.node(), place.node("other")]
        extender_process = start_extender(api_server, group, "-v=10")
        extender_process.until_ready()
        extender = {
            "urlPrefix": extender_process.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "nodeCacheCapable": knows_nodes,
        }
        unreachable = f"http://127.0.0.1:{free_ports(1)[0]}"
        lost = {"urlPrefix": unreachable, "filterVerb": "filter", "ignorable": True, "weight": 1}
        scheduler = start(
            api_server, group, "-v=10", kubeconfig=kubeconfig, extenders=[extender, lost]
        )
        container = {
            "name": "main",
            "image": "nginx",
            "args": [PASSWORD],
            "env": [{"name": "PASSWORD", "value": PASSWORD}],
        }
        hidden = {"example.com/token": PASSWORD}
        place.pod("fits", annotations=hidden, containers=[container])
        scheduler.until(lambda: place.node_of("fits") in nodes, "the pod is bound")
        for process in (scheduler, extender_process):
            assert place.key("fits") in process.log
            assert [one for one in (account.token, CANARY) if one in process.log] == []
        assert "connection refused" in scheduler.log
