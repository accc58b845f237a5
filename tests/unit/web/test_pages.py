"""Texts of pages that depend on time, order or odd input."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from kubesched.kit.log import NullLog
from kubesched.web.answers import Handler, compact_json, forbidden, status_answer
from kubesched.web.cipher_suites import insecure_ciphers, openssl_ciphers, openssl_curves
from kubesched.web.mux import PathMux
from kubesched.web.parts import StatuszInfo
from kubesched.web.serving_certificates import KeyPair
from kubesched.web.settings import ServingError
from kubesched.web.zpages import flagz_handler, statusz_handler
from tests.unit.client.election_world import START_S, HandClock
from tests.unit.web.asking import Authority, asked

LOG = NullLog()
INFO = StatuszInfo(START_S - 3_725.5, go_version="python3", binary_version="1.36.4")


def test_statusz_counts_up_from_the_start() -> None:
    page = statusz_handler("kube-scheduler", INFO, ["/b/x", "/a", "/api/v1", "/"], HandClock(), LOG)
    text = asyncio.run(page(asked("/statusz"))).body.decode()
    assert text.splitlines()[4:] == [
        "Started: Fri Jan 15 06:57:54 UTC 2027",
        "Up: 1 hr 02 min 06 sec",
        "Go version: python3",
        "Binary version: 1.36.4",
        "Emulation version: 1.36",
        "Paths: /a /b",
    ]


def test_statusz_without_an_emulation_leaves_a_line_empty() -> None:
    info = replace(INFO, emulation_version="")
    page = statusz_handler("kube-scheduler", info, [], HandClock(), LOG)
    text = asyncio.run(page(asked("/statusz"))).body.decode()
    assert text.endswith("Binary version: 1.36.4\n\n\n")


def test_statusz_says_what_else_there_is_to_say() -> None:
    notes = {"Reload refused": "no <such> field"}
    page = statusz_handler(
        "kube-scheduler", replace(INFO, notes=lambda: notes), [], HandClock(), LOG
    )
    text = asyncio.run(page(asked("/statusz"))).body.decode()
    assert text.endswith("\nReload refused: no &lt;such&gt; field\n")
    accept = "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"
    document = asyncio.run(page(asked("/statusz", headers=[("Accept", accept)]))).body
    assert json.loads(document)["notes"] == notes


def test_flagz_is_sorted_and_asked_for_anew() -> None:
    flags = {"v": "2", "a": ""}
    page = flagz_handler("kube-scheduler", lambda: flags, LOG)
    first = asyncio.run(page(asked("/flagz"))).body.decode()
    assert first.splitlines()[3:] == ["a: ", "v: 2"]
    flags["v"] = "5"
    assert asyncio.run(page(asked("/flagz"))).body.decode().splitlines()[-1] == "v: 5"


def test_the_longest_prefix_wins_and_an_exact_path_before_it() -> None:
    async def play() -> None:
        mux = PathMux("x", LOG)

        def page(text: str) -> Handler:
            return flagz_handler(text, dict, LOG)

        mux.handle_unlisted_prefix("/a/", page("short"))
        mux.handle_unlisted_prefix("/a/b/", page("long"))
        mux.handle("/a/b/c", page("exact"))
        found = {
            path: (await mux.serve(asked(path))).body.decode().split()[0]
            for path in ("/a/x", "/a/b/x", "/a/b/c", "/a", "/")
        }
        assert found == {
            "/a/x": "short",
            "/a/b/x": "long",
            "/a/b/c": "exact",
            "/a": "404",
            "/": "404",
        }
        assert mux.listed_paths == ["/a/b/c"]

    asyncio.run(play())


def test_json_hides_what_browsers_would_read() -> None:
    assert compact_json({"b": "<&>", "a": "é\u2028"}) == (
        '{"b":"\\u003c\\u0026\\u003e","a":"é\\u2028"}'.encode()
    )


def test_a_refusal_sanitizes_names_and_keeps_the_reason() -> None:
    answer = forbidden(asked("/x<y>"), 'a"b', "because <it> is so")
    assert json.loads(answer.body)["message"] == (
        'forbidden: User "a\\"b" cannot get path "/x&lt;y&gt;": because <it> is so'
    )


def test_a_status_that_nobody_accepts_is_json_to_be_read() -> None:
    answer = status_answer(asked(headers=[("Accept", "image/png")]), 401, "Unauthorized", "no")
    assert answer.content_type == "application/json"
    assert answer.body.startswith(b'{\n  "kind": "Status"')


def test_gos_names_of_cipher_suites() -> None:
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
def test_numbers_that_are_no_curve(number: int) -> None:
    with pytest.raises(ServingError):
        openssl_curves([number])


@pytest.mark.parametrize(
    ("name", "names"),
    [("a.example", ["a.example"]), ("10.0.0.1", []), ("Not A Name", []), ("*.b.c", ["*.b.c"])],
)
def test_names_of_a_certificate_are_domains(name: str, names: list[str]) -> None:
    assert KeyPair(Authority(name).pem, b"").names() == names
