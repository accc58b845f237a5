"""The client on a running server: the embedded one, or the real one with --server real."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubesched.client.auth.credentials import ClusterAccess
from kubesched.client.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TransportError,
    UnauthorizedError,
)
from kubesched.client.resources import CONFIG_MAPS, LEASES, NODES, PODS, RESOURCE_CLAIMS, Resource
from kubesched.client.rest import MERGE_PATCH, Client
from kubesched.cluster.apiserver.auth.certificates import Pair, load_authority
from kubesched.cluster.launch.server import ADMIN, PLAIN, ApiServer
from kubesched.kit.clock import SystemClock
from tests.integration.client_world import (
    access_of,
    admin_of,
    client_of,
    made_pod,
    relay_to,
)
from tests.unit.client.request_world import on_a_loop

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def who_am_i(client: Client) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = json.loads(await client.request("POST", REVIEW, body=body))
    return str(answer["status"]["userInfo"]["username"])


def client_pair(server: ApiServer, user: str) -> Pair:
    assert server.ca_file is not None
    assert server.authority_key is not None
    authority = load_authority(server.ca_file.read_bytes(), server.authority_key.read_bytes())
    return authority.client(user, ["system:masters"], SystemClock().now_s())


@on_a_loop
async def test_create_read_patch_bind_and_delete_a_pod(api_server: ApiServer) -> None:
    async with client_of(admin_of(api_server)) as client:
        uid = await made_pod(client, "life", node="life-node")
        key = {"namespace": "default", "name": "life"}
        waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await client.patch_pod_status(**key, uid=uid, patch={"status": {"conditions": [waiting]}})
        with pytest.raises(InvalidError, match="field is immutable"):
            await client.patch_pod_status(**key, uid="other", patch={"status": {}})
        pod = await client.get_pod("default", "life")
        assert [(condition.type, condition.reason) for condition in pod.status.conditions] == [
            ("PodScheduled", "Unschedulable")
        ]
        with pytest.raises(ConflictError, match="UID in precondition"):
            await client.bind_pod(**key, uid="other", node_name="life-node")
        await client.bind_pod(**key, uid=uid, node_name="life-node")
        assert (await client.get_pod("default", "life")).spec.node_name == "life-node"
        with pytest.raises(ConflictError, match='is already assigned to node "life-node"'):
            await client.bind_pod(**key, uid=uid, node_name="life-node")
        await client.delete_pod(**key)
        pod = await client.get_pod("default", "life")
        assert pod.metadata.deletion_timestamp is not None


@on_a_loop
async def test_rejections_are_typed_and_keep_the_servers_message(api_server: ApiServer) -> None:
    async with client_of(admin_of(api_server)) as client:
        with pytest.raises(NotFoundError, match=r'^pods "nobody" not found$') as missing:
            await client.get_pod("default", "nobody")
        assert (missing.value.code, missing.value.reason) == (404, "NotFound")
        assert missing.value.details["kind"] == "pods"
        with pytest.raises(NotFoundError, match="could not find the requested resource"):
            await client.get(Resource("example.com", "v1", "widgets", "Widget"))
        kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refusals"}}
        created = json.loads(await client.create(CONFIG_MAPS, kept, namespace="default"))
        with pytest.raises(AlreadyExistsError, match=r'^configmaps "refusals" already exists$'):
            await client.create(CONFIG_MAPS, kept, namespace="default")
        await client.patch(
            CONFIG_MAPS,
            "refusals",
            {"data": {"a": "b"}},
            namespace="default",
            content_type=MERGE_PATCH,
        )
        with pytest.raises(ConflictError, match="the object has been modified"):
            await client.update(CONFIG_MAPS, "refusals", created, namespace="default")
        await client.delete(CONFIG_MAPS, "refusals", namespace="default")


@on_a_loop
async def test_forbidden_requests(api_server: ApiServer, tmp_path: Path) -> None:
    plain = access_of(api_server, tmp_path, user={"token": PLAIN.token})
    async with client_of(plain) as client:
        with pytest.raises(ForbiddenError, match='User "plain" cannot list resource "nodes"'):
            await client.get(NODES)
    unknown = access_of(api_server, tmp_path, user={"token": "who"})
    async with client_of(unknown) as client:
        with pytest.raises(UnauthorizedError, match=r"^Unauthorized$"):
            await client.get(NODES)
        with pytest.raises(UnauthorizedError):
            await drained(client.stream("/api/v1/nodes", query={"watch": True}))
    user = {"token": ADMIN.token, "as": "jane", "as-groups": ["system:masters", "people"]}
    async with client_of(access_of(api_server, tmp_path, user=user)) as client:
        assert await who_am_i(client) == "jane"


@on_a_loop
async def test_discovery(api_server: ApiServer) -> None:
    async with client_of(admin_of(api_server)) as client:
        assert await client.version() == "v1.36.4"
        served = [await client.serves(one) for one in (PODS, LEASES, RESOURCE_CLAIMS)]
        assert served == [True, True, True]
        assert not await client.serves(Resource("example.com", "v1", "widgets", "Widget"))
        assert not await client.serves(Resource("", "v1", "widgets", "Widget"))


@on_a_loop
async def test_a_watch(api_server: ApiServer) -> None:
    async with client_of(admin_of(api_server)) as client:
        listed = json.loads(await client.get(CONFIG_MAPS, namespace="default"))
        version = listed["metadata"]["resourceVersion"]
        query = {"watch": True, "resourceVersion": version}
        path = CONFIG_MAPS.path("default")
        async with client.stream(path, query=query, idle_timeout_s=20) as chunks:
            named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "watched"}}
            await client.create(CONFIG_MAPS, named, namespace="default")
            await client.delete(CONFIG_MAPS, "watched", namespace="default")
            events = [json.loads(line) async for line in lines_of(chunks, 2)]
        assert [event["type"] for event in events] == ["ADDED", "DELETED"]
        silent = client.stream(path, query=query | {"labelSelector": "a=b"}, idle_timeout_s=0.2)
        with pytest.raises(TransportError) as silence:
            await drained(silent)
        assert silence.value.is_timeout


async def drained(stream: AbstractAsyncContextManager[AsyncIterator[bytes]]) -> bytes:
    async with stream as chunks:
        return b"".join([chunk async for chunk in chunks])


async def lines_of(chunks: AsyncIterator[bytes], number: int) -> AsyncIterator[bytes]:
    data, count = b"", 0
    async for chunk in chunks:
        *lines, data = (data + chunk).split(b"\n")
        for line in lines:
            yield line
            count += 1
        if count >= number:
            return


@on_a_loop
async def test_certificates_inline_in_files_and_replaced(
    api_server: ApiServer, tmp_path: Path
) -> None:
    jane = client_pair(api_server, "jane")
    inline = {
        "client-certificate-data": base64.b64encode(jane.certificate).decode(),
        "client-key-data": base64.b64encode(jane.key).decode(),
    }
    async with client_of(access_of(api_server, tmp_path, user=inline)) as client:
        assert await who_am_i(client) == "jane"
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"
    certificate.write_bytes(jane.certificate)
    key.write_bytes(jane.key)
    files = {"client-certificate": "me.crt", "client-key": "me.key"}
    async with client_of(access_of(api_server, tmp_path, user=files)) as client:
        assert await who_am_i(client) == "jane"
        john = client_pair(api_server, "john")
        certificate.write_bytes(john.certificate)
        key.write_bytes(john.key)
        client._transport._tls.check_now()  # type: ignore[attr-defined]  # not to wait for it
        assert await who_am_i(client) == "john"


PROGRAM = """\
import json, os, sys
status = json.load(open(sys.argv[1]))
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["spec"]["cluster"]["server"] == sys.argv[2], info
print(json.dumps({"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}))
"""


@on_a_loop
async def test_a_credential_plugin_returns_a_token_then_a_certificate(
    api_server: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    answer = tmp_path / "answer"
    answer.write_text(json.dumps({"token": "expired"}))
    plugin: dict[str, Any] = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "program.py"), str(answer), api_server.url],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    async with client_of(access_of(api_server, tmp_path, user={"exec": plugin})) as client:
        with pytest.raises(UnauthorizedError):
            await client.get(NODES)
        answer.write_text(json.dumps({"token": ADMIN.token}))
        # Rejected with the old token, and sent again with the new one.
        assert await who_am_i(client) == ADMIN.name
        pair = client_pair(api_server, "jane")
        answer.write_text(
            json.dumps(
                {
                    "clientCertificateData": pair.certificate.decode(),
                    "clientKeyData": pair.key.decode(),
                }
            )
        )
        source = client.access.credentials
        source.reject(await source.fetch())
        assert await who_am_i(client) == "jane"


@on_a_loop
async def test_a_replaced_token_file_is_read_again(api_server: ApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("expired")
    async with client_of(access_of(api_server, tmp_path, user={"tokenFile": "token"})) as client:
        with pytest.raises(UnauthorizedError):
            await client.get(NODES)
        token.write_text(f"{ADMIN.token}\n")
        await client.get(NODES)


@on_a_loop
async def test_names_in_certificates(api_server: ApiServer, tmp_path: Path) -> None:
    user = {"token": ADMIN.token}

    async def nodes(access: ClusterAccess) -> bytes:
        async with client_of(access) as client:
            return await client.get(NODES)

    await nodes(access_of(api_server, tmp_path, user=user, tls_server_name="localhost"))
    wrong = access_of(api_server, tmp_path, user=user, tls_server_name="elsewhere.test")
    with pytest.raises(TransportError, match="tls: failed to verify certificate"):
        await nodes(wrong)
    untrusting = access_of(api_server, tmp_path, user=user, certificate_authority=None)
    with pytest.raises(TransportError, match="tls: failed to verify certificate"):
        await nodes(untrusting)
    blind = access_of(
        api_server, tmp_path, user=user, certificate_authority=None, insecure_skip_tls_verify=True
    )
    await nodes(blind)


@on_a_loop
async def test_through_a_proxy(api_server: ApiServer, tmp_path: Path) -> None:
    async with relay_to(api_server.url) as (relay, address):
        access = access_of(
            api_server, tmp_path, user={"token": ADMIN.token}, proxy_url=f"http://{address}"
        )
        async with client_of(access) as client:
            assert await who_am_i(client) == ADMIN.name
            assert await who_am_i(client) == ADMIN.name
        assert relay.connects == [api_server.url.removeprefix("https://")]


@on_a_loop
async def test_a_refused_connection(api_server: ApiServer) -> None:
    access = replace(admin_of(api_server), server="https://127.0.0.1:1")
    async with client_of(access) as client:
        with pytest.raises(TransportError) as rejected:
            await client.get(NODES)
    assert rejected.value.is_refused
    assert not rejected.value.was_sent
    assert str(rejected.value) == (
        'Get "https://127.0.0.1:1/api/v1/nodes": dial tcp 127.0.0.1:1: connect: connection refused'
    )
