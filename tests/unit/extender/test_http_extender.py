"""The client of one extender over loopback: requests, responses and errors."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from kubesched.cluster.launch.certificates import CertificateFiles, write_certificates
from kubesched.config.types import Extender, ExtenderManagedResource, ExtenderTLSConfig
from kubesched.extender.client.http_extender import HTTPExtender, build
from kubesched.extender.wire import ExtenderArgs, NodeList
from kubesched.framework.handle import ExtenderError
from tests.unit.builders import a_pod
from tests.unit.extender.loopback import (
    Loopback,
    Script,
    head,
    loopback,
    responds,
    sends_and_closes,
    stalls,
)
from tests.unit.scheduler.live_world import on_a_loop

POD = Raw(b'{"metadata":{"name":"p"}}')
KEPT = b'{"NodeNames":["n1"]}'
SECOND_NS = 10**9
VERBS = {
    "filter_verb": "filter",
    "prioritize_verb": "prioritize",
    "bind_verb": "bind",
    "preempt_verb": "preempt",
}


def args(*node_names: str) -> ExtenderArgs:
    return ExtenderArgs(pod=POD, node_names=list(node_names))


def an_extender(url: str, **config: Any) -> HTTPExtender:
    fields: dict[str, Any] = {**VERBS, "node_cache_capable": True, **config}
    return HTTPExtender(Extender(url_prefix=url, **fields))


@asynccontextmanager
async def an_extender_with(
    *scripts: Script, tls: ssl.SSLContext | None = None, **config: Any
) -> AsyncIterator[tuple[HTTPExtender, Loopback]]:
    async with loopback(*scripts, tls=tls) as server:
        url = server.url if tls is None else server.url.replace("http:", "https:")
        extender = an_extender(f"{url}/x", **config)
        try:
            yield extender, server
        finally:
            await extender.close()


async def filter_error(*scripts: Script, **config: Any) -> str:
    """Return the error of a failing filter call, with <url> in place of the address."""
    async with an_extender_with(*scripts, **config) as (extender, server):
        with pytest.raises(ExtenderError) as raised:
            await extender.filter(args("n1"))
        return str(raised.value).replace(f"127.0.0.1:{server.port}", "<host>")


# -- configuration ---------------------------------------------------------------------------------


def test_ignorable_extenders_are_called_last() -> None:
    configs = [
        Extender(url_prefix="http://a", ignorable=True),
        Extender(url_prefix="http://b"),
        Extender(url_prefix="http://c", ignorable=True),
        Extender(url_prefix="http://d"),
    ]
    assert [extender.name for extender in build(configs)] == [
        "http://b",
        "http://d",
        "http://a",
        "http://c",
    ]


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


@pytest.mark.parametrize(
    ("spec", "is_interested"),
    [
        ({"containers": [container()]}, False),
        ({"containers": [container(requests={"example.com/gpu": "0"})]}, True),
        ({"containers": [container(limits={"example.com/gpu": "1"})]}, True),
        ({"containers": [container(), container(requests={"example.com/gpu": "1"})]}, True),
        (
            {
                "containers": [container()],
                "initContainers": [container(limits={"example.com/gpu": "1"})],
            },
            True,
        ),
        ({"containers": [container()], "resources": {"requests": {"example.com/gpu": "1"}}}, False),
        ({"containers": [container(requests={"example.com/other": "1"})]}, False),
    ],
)
def test_it_is_interested_in_pods_with_a_managed_resource(
    spec: dict[str, Any], is_interested: bool
) -> None:
    managed = (ExtenderManagedResource("example.com/gpu"),)
    extender = an_extender("http://x", managed_resources=managed)
    assert extender.is_interested(a_pod("p", **spec)) is is_interested
    assert an_extender("http://x").is_interested(a_pod("p", **spec))


def test_bound_pods_are_kept_whole_for_extenders_that_need_them() -> None:
    assert an_extender("http://x", node_cache_capable=False).needs_whole_pods
    assert not an_extender("http://x").needs_whole_pods
    assert not an_extender("http://x", node_cache_capable=False, preempt_verb="").needs_whole_pods


def test_a_password_is_not_shown() -> None:
    assert an_extender("http://me:secret@host/x").name == "http://me:***@host/x"


# -- requests --------------------------------------------------------------------------------------


@on_a_loop
async def test_a_verb_is_posted_below_the_prefix() -> None:
    async with loopback(responds(KEPT)) as server:
        extender = an_extender(f"{server.url}/x//")
        result = await extender.filter(args("n1", "n2"))
        await extender.close()
    (request,) = server.requests
    assert request.line == "POST /x/filter HTTP/1.1"
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == {
        "Pod": {"metadata": {"name": "p"}},
        "Nodes": None,
        "NodeNames": ["n1", "n2"],
    }
    assert result.node_names == ["n1"]


@on_a_loop
async def test_connections_are_reused() -> None:
    async with an_extender_with(responds(KEPT)) as (extender, server):
        for _ in range(3):
            await extender.filter(args("n1"))
        assert [request.connection for request in server.requests] == [0, 0, 0]


@on_a_loop
async def test_a_closed_connection_is_not_reused() -> None:
    ended = asyncio.Event()

    async def responds_and_ends(writer: asyncio.StreamWriter) -> None:
        await responds(KEPT)(writer)
        await writer.drain()
        writer.close()
        ended.set()

    async with an_extender_with(responds_and_ends) as (extender, server):
        for _ in range(5):
            ended.clear()
            await extender.filter(args("n1"))
            await ended.wait()
        assert [request.connection for request in server.requests] == [0, 1, 2, 3, 4]


@on_a_loop
async def test_pods_are_bound_by_name_and_uid() -> None:
    async with an_extender_with(responds(b'{"Error":""}'), responds(b'{"Error":"no"}')) as (
        extender,
        server,
    ):
        await extender.bind(a_pod("p", uid="u1"), "n1")
        with pytest.raises(ExtenderError, match=r"^no$"):
            await extender.bind(a_pod("p", uid="u1"), "n1")
    assert json.loads(server.requests[0].body) == {
        "PodName": "p",
        "PodNamespace": "default",
        "PodUID": "u1",
        "Node": "n1",
    }


@on_a_loop
async def test_scores_are_returned_unchanged() -> None:
    async with an_extender_with(responds(b'[{"Host":"n2","Score":-7}]')) as (extender, _):
        scores = await extender.prioritize(
            ExtenderArgs(pod=POD, nodes=NodeList(items=[Raw(b"{}")]))
        )
    assert [(score.host, score.score) for score in scores] == [("n2", -7)]


@on_a_loop
async def test_proxies_of_the_environment_are_used_except_for_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with loopback(responds(KEPT)) as proxy, loopback(responds(KEPT)) as near:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        for url in ("http://extender.example/x", near.url):
            extender = an_extender(url)
            await extender.filter(args("n1"))
            await extender.close()
    assert [request.line for request in proxy.requests] == [
        "POST http://extender.example/x/filter HTTP/1.1"
    ]
    assert len(near.requests) == 1


@on_a_loop
async def test_a_redirection_that_keeps_the_method_is_followed() -> None:
    moved = b"HTTP/1.1 307 x\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"

    async def moves(writer: asyncio.StreamWriter) -> None:
        writer.write(moved)

    async with an_extender_with(moves, responds(KEPT)) as (extender, server):
        result = await extender.filter(args("n1"))
    assert [request.line for request in server.requests] == [
        "POST /x/filter HTTP/1.1",
        "POST /elsewhere HTTP/1.1",
    ]
    assert server.requests[0].body == server.requests[1].body
    assert result.node_names == ["n1"]


# -- failures, in Go's words -----------------------------------------------------------------------
# Recorded from kube-scheduler by conformance/extenders.py.

WAITED = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
READ = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
WRONG_TYPE = (
    "json: cannot unmarshal string into Go struct field "
    "ExtenderFilterResult.NodeNames of type []string"
)
BROKEN = "net/http: HTTP/1.x transport connection broken"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (responds(b"", 500), "failed filter with extender at URL http://<host>/x/filter, code 500"),
        (
            sends_and_closes(b"HTTP/1.1 204 No Content\r\n\r\n"),
            "failed filter with extender at URL http://<host>/x/filter, code 204",
        ),
        (responds(b'{"Error":"tired"}'), "tired"),
        (responds(b""), "EOF"),
        (responds(b"<html>"), "invalid character '<' looking for beginning of value"),
        (
            responds(b'{"NodeNames":"n1"}'),
            WRONG_TYPE,
        ),
        (sends_and_closes(b""), 'Post "http://<host>/x/filter": EOF'),
        (
            sends_and_closes(head(20)[:-2]),
            f'Post "http://<host>/x/filter": {BROKEN}: unexpected EOF',
        ),
        (sends_and_closes(head(len(KEPT)) + KEPT[:9]), "unexpected EOF"),
        (sends_and_closes(head(None) + b"9\r\n" + KEPT[:9] + b"\r\n"), "unexpected EOF"),
        (
            sends_and_closes(b"hello, this is not HTTP\r\n\r\n"),
            f'Post "http://<host>/x/filter": {BROKEN}: malformed HTTP status code "this"',
        ),
        (
            sends_and_closes(b"HTTQ/1.1 200 OK\r\n\r\n"),
            f'Post "http://<host>/x/filter": {BROKEN}: malformed HTTP version "HTTQ/1.1"',
        ),
    ],
)
@on_a_loop
async def test_errors_have_gos_words(script: Script, text: str) -> None:
    assert await filter_error(script) == text


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (stalls(), f'Post "http://<host>/x/filter": {WAITED}'),
        (stalls(head(40) + b'{"Node'), READ),
    ],
)
@on_a_loop
async def test_an_extender_that_does_not_respond_times_out(script: Script, text: str) -> None:
    assert await filter_error(script, http_timeout_ns=SECOND_NS // 20) == text


@pytest.mark.parametrize(
    "script",
    [
        stalls(head(None) + b"14\r\n" + KEPT + b"\r\n"),
        stalls(head(99) + KEPT[:5] + KEPT[5:]),
        sends_and_closes(head(99) + KEPT),
        responds(KEPT + b" trailing"),
    ],
)
@on_a_loop
async def test_bytes_after_the_response_are_not_awaited(script: Script) -> None:
    async with an_extender_with(script) as (extender, _):
        result = await extender.filter(args("n1"))
    assert result.node_names == ["n1"]


@on_a_loop
async def test_a_connection_that_is_refused() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        extender = an_extender(f"http://127.0.0.1:{port}/x")
        with pytest.raises(ExtenderError) as raised:
            await extender.filter(args("n1"))
        await extender.close()
    address = f"127.0.0.1:{port}"
    expected = f'Post "http://{address}/x/filter": dial tcp {address}: connect: connection refused'
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://host", 'Post "ftp://host/filter": unsupported protocol scheme "ftp"'),
        ("host", 'Post "host/filter": unsupported protocol scheme ""'),
        ("http://", 'Post "http:/filter": http: no Host in request URL'),
        ("https:///x", 'Post "https:///x/filter": http: no Host in request URL'),
        ("host:80", 'Post "host:80/filter": unsupported protocol scheme "host"'),
        (
            "127.0.0.1:80",
            'parse "127.0.0.1:80/filter": first path segment in URL cannot contain colon',
        ),
    ],
)
@on_a_loop
async def test_invalid_urls(url: str, text: str) -> None:
    extender = an_extender(url)
    with pytest.raises(ExtenderError) as raised:
        await extender.filter(args("n1"))
    await extender.close()
    assert str(raised.value) == text


@on_a_loop
async def test_a_password_is_in_no_error() -> None:
    async with loopback(responds(b"", 500)) as server:
        extender = an_extender(server.url.replace("http://", "http://me:secret@"))
        with pytest.raises(ExtenderError) as raised:
            await extender.filter(args("n1"))
        await extender.close()
    assert "secret" not in str(raised.value)
    assert server.requests[0].headers["authorization"] == "Basic bWU6c2VjcmV0"


# -- TLS -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


def serving(
    files: CertificateFiles, *, requires_client_certificate: bool = False
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.serving, files.serving_key)
    if requires_client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.authority)
    return context


@pytest.mark.parametrize("settings", ["file", "data", "unseen", "insecure"])
@on_a_loop
async def test_tls_settings(certificates: CertificateFiles, settings: str) -> None:
    configs: dict[str, dict[str, Any]] = {
        "file": {"tls_config": ExtenderTLSConfig(ca_file=str(certificates.authority))},
        "data": {"tls_config": ExtenderTLSConfig(ca_data=certificates.authority.read_bytes())},
        "unseen": {"enable_https": True},
        "insecure": {"tls_config": ExtenderTLSConfig(insecure=True)},
    }
    async with an_extender_with(responds(KEPT), tls=serving(certificates), **configs[settings]) as (
        extender,
        _,
    ):
        result = await extender.filter(args("n1"))
    assert result.node_names == ["n1"]


@on_a_loop
async def test_an_untrusted_certificate(certificates: CertificateFiles) -> None:
    assert await filter_error(responds(KEPT), tls=serving(certificates)) == (
        'Post "https://<host>/x/filter": tls: failed to verify certificate: '
        "x509: certificate signed by unknown authority"
    )


@on_a_loop
async def test_the_client_certificate_is_sent(certificates: CertificateFiles) -> None:
    tls = ExtenderTLSConfig(
        ca_file=str(certificates.authority),
        cert_data=certificates.authority.read_bytes(),
        key_data=certificates.authority_key.read_bytes(),
    )
    context = serving(certificates, requires_client_certificate=True)
    async with an_extender_with(responds(KEPT), tls=context, tls_config=tls) as (extender, _):
        result = await extender.filter(args("n1"))
    assert result.node_names == ["n1"]


@on_a_loop
async def test_a_server_without_tls() -> None:
    async def reject(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(reject, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    extender = an_extender(f"https://127.0.0.1:{port}", enable_https=True)
    with pytest.raises(ExtenderError) as raised:
        await extender.filter(args("n1"))
    await extender.close()
    server.close()
    assert str(raised.value).endswith(": http: server gave HTTP response to HTTPS client")


@on_a_loop
async def test_a_missing_certificate_file(tmp_path: Path) -> None:
    tls = ExtenderTLSConfig(cert_file=str(tmp_path / "none"), key_file=str(tmp_path / "none"))
    extender = an_extender("https://127.0.0.1:1", tls_config=tls)
    with pytest.raises(ExtenderError, match="No such file"):
        await extender.filter(args("n1"))
    await extender.close()
