"""TLS contexts are reloaded when their files change."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from kubesched.client.auth.credentials import AccessError, KeyPair, TlsSettings
from kubesched.client.http.tls import TlsFiles, make_context
from kubesched.cluster.apiserver.auth.certificates import Pair
from tests.unit.client.election_world import HandClock
from tests.unit.client.kubeconfig_world import authority, client_pair
from tests.unit.client.request_world import on_a_loop


def put(place: Path, pair: Pair) -> TlsSettings:
    (place / "me.crt").write_bytes(pair.certificate)
    (place / "me.key").write_bytes(pair.key)
    return TlsSettings(
        authority_data=authority().pem,
        certificate_file=str(place / "me.crt"),
        key_file=str(place / "me.key"),
    )


@on_a_loop
async def test_a_rewritten_certificate_yields_a_new_context(tmp_path: Path) -> None:
    clock = HandClock()
    files = TlsFiles(put(tmp_path, client_pair()), clock)
    first = files.context()
    await clock.advance(100)
    assert files.context() is first
    put(tmp_path, client_pair())
    os.utime(tmp_path / "me.crt", (1, 1))
    assert files.context() is first  # not looked at yet
    await clock.advance(10)
    assert files.context() is not first


@on_a_loop
async def test_a_half_written_pair_keeps_the_old_context(tmp_path: Path) -> None:
    clock = HandClock()
    files = TlsFiles(put(tmp_path, client_pair()), clock)
    first = files.context()
    other = client_pair()
    (tmp_path / "me.crt").write_bytes(other.certificate)
    os.utime(tmp_path / "me.crt", (1, 1))
    await clock.advance(10)
    assert files.context() is first
    (tmp_path / "me.key").write_bytes(other.key)
    files.check_now()
    assert files.context() is not first


def test_a_certificate_of_a_plugin() -> None:
    files = TlsFiles(TlsSettings(authority_data=authority().pem), HandClock())
    plain = files.context()
    made = client_pair()
    pair = KeyPair(made.certificate, made.key)
    shown = files.context(pair)
    assert shown is not plain
    assert files.context(pair) is shown


def test_trusted_authorities() -> None:
    context = make_context(TlsSettings(authority_data=b"# ours \xff\n" + authority().pem))
    assert len(context.get_ca_certs()) == 1
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    context = make_context(TlsSettings(is_insecure=True))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_a_key_that_does_not_match_the_certificate() -> None:
    pair, other = client_pair(), client_pair()
    settings = TlsSettings(certificate_data=pair.certificate, key_data=other.key)
    with pytest.raises(AccessError, match=r"^tls: private key does not match public key$"):
        make_context(settings)
    with pytest.raises(AccessError, match="No such file"):
        make_context(TlsSettings(authority_file="missing"))


def test_keys_are_not_written_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pair = client_pair()
    make_context(TlsSettings(certificate_data=pair.certificate, key_data=pair.key))
    assert list(tmp_path.iterdir()) == []
