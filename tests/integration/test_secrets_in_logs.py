"""What `kubesched run -v=10` writes never has a token, a key or what pods keep to themselves.

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

from kubesched.testing import ADMIN, Api, ApiServer, TokenUser
from kubesched.testing.ports import free_ports
from kubesched.testing.processes import ProcessGroup
from kubesched.testing.server import kubeconfig_text
from kubesched.web.serving_certificates import self_signed
from tests.integration.extender_process import start_extender
from tests.integration.live_processes import Place, Scheduler, start
from tests.integration.ops_world import ask

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "secretive"
CANARY = "c4n4ry"
PASSWORD = f"{CANARY}-password"
ROLES = ("system:kube-scheduler", "system:volume-scheduler", "system:auth-delegator")


@pytest.fixture
def account(api: Api) -> Iterator[TokenUser]:
    """Make a ServiceAccount that may schedule; yield it with its token."""
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    api.post(accounts, {"metadata": {"name": ACCOUNT}}).must(201)
    answer = api.post(f"{accounts}/{ACCOUNT}/token", {"spec": {}}).must(201)
    made = [f"{accounts}/{ACCOUNT}"]
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
        made.append(f"{RBAC}/clusterrolebindings/{name}")
    yield TokenUser(ACCOUNT, answer.json["status"]["token"])
    for path in made:
        api.delete(path).must(200)


def with_certificate(text: str, key: bytes, certificate: bytes) -> str:
    """Return a kubeconfig whose user shows a certificate, too."""
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
def test_neither_tokens_nor_keys_nor_what_pods_hold(
    api_server: ApiServer, api: Api, account: TokenUser, tmp_path: Path, form: str
) -> None:
    kubeconfig = tmp_path / "account.kubeconfig"
    kubeconfig.write_text(kubeconfig_text(api_server.url, api_server.ca_file, account))
    flags = [f"--{what}-kubeconfig={kubeconfig}" for what in ("authentication", "authorization")]
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
        scheduler.until(lambda: place.refused("waits"), "the other is refused")
        url = f"https://127.0.0.1:{scheduler.port}"
        # Who asks is asked about: once known, once not.
        assert ask(url, "/statusz", token=ADMIN.token).code == 200
        assert ask(url, "/statusz", token=f"{CANARY}-token").code == 401
        assert ask(url, "/statusz", headers={"Cookie": CANARY}).code == 403
        scheduler.tell(signal.SIGUSR2)
        scheduler.until(lambda: is_in_log(scheduler, "Dump of cached NodeInfo"), "it dumps")
        scheduler.tell(signal.SIGTERM)
        scheduler.ended()
        log = scheduler.log
    # It did say something about all of them.
    for said in ("fits", "waits", "/statusz", "invalid bearer token"):
        assert said in log
    assert [secret for secret in never if secret in log] == []


@pytest.mark.slow
def test_not_when_the_server_does_not_answer_or_does_not_know_us(
    api_server: ApiServer, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    away = f"https://ada:{PASSWORD}@127.0.0.1:{port}"
    stranger = TokenUser("stranger", f"{CANARY}-token")
    pair = self_signed("127.0.0.1", 1.8e9)
    ways = {
        "away": kubeconfig_text(away, api_server.ca_file, stranger),
        "unknown": kubeconfig_text(api_server.url, api_server.ca_file, stranger),
    }
    # Nobody trusts who signed it.
    ways["odd"] = with_certificate(ways["unknown"], pair.key, pair.certificate)
    never = {CANARY, *secrets_of_key(pair.key)}
    with ProcessGroup(tmp_path) as group:
        for name, text in ways.items():
            kubeconfig = tmp_path / f"{name}.kubeconfig"
            kubeconfig.write_text(text)
            scheduler = start(api_server, group, "-v=10", label=name, kubeconfig=kubeconfig)
            scheduler.until_said("Failed to watch")
            scheduler.until(partial(is_in_log, scheduler, "Serving securely"), "it serves")
            told = scheduler.log + scheduler.page("/metrics")[1]
            assert [secret for secret in never if secret in told] == []
        assert f"https://ada:***@127.0.0.1:{port}/" in group.log_path("away").read_text()


@pytest.mark.slow
def test_not_what_a_credential_plugin_is_given_and_says(
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
        scheduler.tell(signal.SIGTERM)
        scheduler.ended()
        assert place.key("fits") in scheduler.log
        for secret in (account.token, account.token.split(".")[2], PASSWORD):
            assert secret not in scheduler.log


@pytest.mark.slow
@pytest.mark.parametrize("knows_nodes", [True, False])
def test_not_what_goes_to_an_extender_on_either_side(
    api_server: ApiServer, api: Api, account: TokenUser, tmp_path: Path, knows_nodes: bool
) -> None:
    kubeconfig = tmp_path / "account.kubeconfig"
    kubeconfig.write_text(kubeconfig_text(api_server.url, api_server.ca_file, account))
    with ProcessGroup(tmp_path) as group, Place(api) as place:
        nodes = [place.node(), place.node("other")]
        asked = start_extender(api_server, group, "-v=10")
        asked.until_ready()
        extender = {
            "urlPrefix": asked.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "nodeCacheCapable": knows_nodes,
        }
        away = f"http://127.0.0.1:{free_ports(1)[0]}"
        lost = {"urlPrefix": away, "filterVerb": "filter", "ignorable": True, "weight": 1}
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
        for process in (scheduler, asked):
            assert place.key("fits") in process.log
            assert [one for one in (account.token, CANARY) if one in process.log] == []
        assert "connection refused" in scheduler.log
