"""Page texts that depend on time, order or unusual input."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from kubesched.kit.log import NullLog
from kubesched.ops.http_messages import Handler, PathMux, compact_json, forbidden, status_response
from kubesched.ops.serving import ServingError
from kubesched.ops.serving_certificates import KeyPair
from kubesched.ops.sources import StatuszInfo
from kubesched.ops.status_pages import flagz_handler, statusz_handler
from kubesched.ops.tls_names import insecure_ciphers, openssl_ciphers, openssl_curves
from tests.unit.client.election_world import START_S, HandClock
from tests.unit.ops.requests_and_certificates import Authority, a_request

LOG = NullLog()
INFO = StatuszInfo(START_S - 3_725.5, go_version="python3", binary_version="1.36.4")


def test_statusz_counts_up_from_the_start() -> None:
    page = statusz_handler("kube-scheduler", INFO, ["/b/x", "/a", "/api/v1", "/"], HandClock(), LOG)
    text = asyncio.run(page(a_request("/statusz"))).body.decode()
    assert text.splitlines()[4:] == [
        "Started: Fri Jan 15 06:57:54 UTC 2027",
        "Up: 1 hr 02 min 06 sec",
        "Go version: python3",
        "Binary version: 1.36.4",
        "Emulation version: 1.36",
        "Paths: /a /b",
    ]


def test_statusz_without_an_emulated_version_has_an_empty_line() -> None:
    info = replace(INFO, emulation_version="")
    page = statusz_handler("kube-scheduler", info, [], HandClock(), LOG)
    text = asyncio.run(page(a_request("/statusz"))).body.decode()
    assert text.endswith("Binary version: 1.36.4\n\n\n")


def test_statusz_shows_notes() -> None:
    notes = {"Reload refused": "no <such> field"}
    page = statusz_handler(
        "kube-scheduler", replace(INFO, notes=lambda: notes), [], HandClock(), LOG
    )
    text = asyncio.run(page(a_request("/statusz"))).body.decode()
    assert text.endswith("\nReload refused: no &lt;such&gt; field\n")
    accept = "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"
    document = asyncio.run(page(a_request("/statusz", headers=[("Accept", accept)]))).body
    assert json.loads(document)["notes"] == notes


def test_flagz_is_sorted_and_up_to_date() -> None:
    flags = {"v": "2", "a": ""}
    page = flagz_handler("kube-scheduler", lambda: flags, LOG)
    first = asyncio.run(page(a_request("/flagz"))).body.decode()
    assert first.splitlines()[3:] == ["a: ", "v: 2"]
    flags["v"] = "5"
    assert asyncio.run(page(a_request("/flagz"))).body.decode().splitlines()[-1] == "v: 5"


def test_an_exact_path_precedes_the_longest_prefix() -> None:
    async def play() -> None:
        mux = PathMux("x", LOG)

        def page(text: str) -> Handler:
            return flagz_handler(text, dict, LOG)

        mux.handle_unlisted_prefix("/a/", page("short"))
        mux.handle_unlisted_prefix("/a/b/", page("long"))
        mux.handle("/a/b/c", page("exact"))
        bodies = {
            path: (await mux.serve(a_request(path))).body.decode().split()[0]
            for path in ("/a/x", "/a/b/x", "/a/b/c", "/a", "/")
        }
        assert bodies == {
            "/a/x": "short",
            "/a/b/x": "long",
            "/a/b/c": "exact",
            "/a": "404",
            "/": "404",
        }
        assert mux.listed_paths == ["/a/b/c"]

    asyncio.run(play())


def test_json_escapes_html() -> None:
    assert compact_json({"b": "<&>", "a": "é\u2028"}) == (
        '{"b":"\\u003c\\u0026\\u003e","a":"é\\u2028"}'.encode()
    )


def test_a_forbidden_response_sanitizes_names_and_keeps_the_reason() -> None:
    answer = forbidden(a_request("/x<y>"), 'a"b', "because <it> is so")
    assert json.loads(answer.body)["message"] == (
        'forbidden: User "a\\"b" cannot get path "/x&lt;y&gt;": because <it> is so'
    )


def test_a_status_in_no_accepted_media_type_is_indented_json() -> None:
    answer = status_response(
        a_request(headers=[("Accept", "image/png")]), 401, "Unauthorized", "no"
    )
    assert answer.content_type == "application/json"
    assert answer.body.startswith(b'{\n  "kind": "Status"')


def test_go_names_of_cipher_suites() -> None:
    assert openssl_ciphers(
        [
            "TLS_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_RSA_WITH_RC4_128_SHA",
        ]
    ) == ["ECDHE-RSA-AES128-GCM-SHA256", "RC4-SHA"]
    assert insecure_ciphers(["TLS_RSA_WITH_RC4_128_SHA", "TLS_AES_128_GCM_SHA256"]) == [
        "TLS_RSA_WITH_RC4_128_SHA"
    ]
    assert openssl_curves([29, 23]) == ["X25519", "prime256v1"]


@pytest.mark.parametrize("number", [0, -1, 70_000, 5])
def test_invalid_curve_numbers_are_rejected(number: int) -> None:
    with pytest.raises(ServingError):
        openssl_curves([number])


@pytest.mark.parametrize(
    ("name", "names"),
    [("a.example", ["a.example"]), ("10.0.0.1", []), ("Not A Name", []), ("*.b.c", ["*.b.c"])],
)
def test_only_domains_are_names_of_a_certificate(name: str, names: list[str]) -> None:
    assert KeyPair(Authority(name).pem, b"").names() == names
