"""Certificates of the ops server and of its clients, over real connections."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.ops.serving import (
    AuthenticationSettings,
    NamedCertKey,
    ServingError,
    ServingSettings,
)
from kubesched.testing import ApiServer
from tests.integration.ops_world import (
    ClientCertificate,
    certificates,
    connected,
    ops_world,
    send_request,
    signed,
)

LOCAL = ServingSettings(bind_address="127.0.0.1", port=0)


def presented(url: str, *, name: str | None = None, **options: Any) -> list[x509.Certificate]:
    """Return the certificate that the server presents for a server name."""
    port = int(url.rpartition(":")[2])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for key, value in options.items():
        setattr(context, key, value)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=name) as tls,
    ):
        encoded = tls.getpeercert(binary_form=True)
        assert encoded is not None
        return [x509.load_der_x509_certificate(encoded)]


def common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def test_without_files_a_self_signed_certificate_is_generated() -> None:
    with ops_world(None) as world:
        (certificate,) = presented(world.url)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost"]
        assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
        key = certificate.public_key()
        assert isinstance(key, rsa.RSAPublicKey)
        assert key.key_size == 2048
        lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert lifetime.days == 365
        assert common_name(certificate).startswith("localhost@")
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_its_chain_verifies_for_localhost(tmp_path: Path) -> None:
    settings = replace(LOCAL, cert_dir=str(tmp_path))
    with ops_world(None, settings=settings) as world:
        chain = (tmp_path / "kube-scheduler.crt").read_text()
        authority = chain[chain.rindex("-----BEGIN") :]
        context = ssl.create_default_context(cadata=authority)
        port = int(world.url.rpartition(":")[2])
        for name in ("localhost", "127.0.0.1"):
            with (
                socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
                context.wrap_socket(plain, server_hostname=name) as tls,
            ):
                assert tls.version() == "TLSv1.3"


def test_a_directory_keeps_the_pair(tmp_path: Path) -> None:
    settings = replace(LOCAL, cert_dir=str(tmp_path / "made"))
    with ops_world(None, settings=settings) as world:
        (first,) = presented(world.url)
    files = sorted((tmp_path / "made").iterdir())
    assert [path.name for path in files] == ["kube-scheduler.crt", "kube-scheduler.key"]
    assert files[1].stat().st_mode & 0o077 == 0
    with ops_world(None, settings=settings) as world:
        assert presented(world.url) == [first]
    files[1].unlink()
    text = f"error reading {files[1]}, certificate and key must be supplied as a pair"
    with pytest.raises(ServingError) as raised, ops_world(None, settings=settings):
        pass
    assert str(raised.value) == text


def test_changed_certificate_files_are_reloaded(tmp_path: Path) -> None:
    server = ExtendedKeyUsageOID.SERVER_AUTH
    one, two = (signed(tmp_path, name, [], usage=server) for name in ("one", "two"))
    settings = replace(LOCAL, tls_cert_file=str(one.certificate), tls_private_key_file=str(one.key))
    clock = SteppedClock()
    with ops_world(None, settings=settings, clock=clock) as world:
        assert common_name(presented(world.url)[0]) == "one"
        # Half written: the certificate without its key.
        one.certificate.write_bytes(two.certificate.read_bytes())
        clock.step_s += 10
        assert common_name(presented(world.url)[0]) == "one"
        one.key.write_bytes(two.key.read_bytes())
        clock.step_s += 10
        assert common_name(presented(world.url)[0]) == "two"
        assert send_request(world.url, "/healthz").text == "ok"


class SteppedClock:
    """The system clock, moved by a test."""

    def __init__(self) -> None:
        self.step_s = 0.0

    def now_s(self) -> float:
        return 1_800_000_000.0 + self.step_s

    def monotonic_s(self) -> float:
        return self.step_s

    async def sleep(self, delay_s: float) -> None:
        await asyncio.get_running_loop().create_future()


def test_a_server_name_chooses_the_certificate(tmp_path: Path) -> None:
    usage = ExtendedKeyUsageOID.SERVER_AUTH
    named = {
        name: signed(tmp_path, name, [], usage=usage)
        for name in ("default", "a.example", "other", "wild")
    }

    def sni(name: str, *names: str) -> NamedCertKey:
        return NamedCertKey(str(named[name].certificate), str(named[name].key), names)

    settings = replace(
        LOCAL,
        tls_cert_file=str(named["default"].certificate),
        tls_private_key_file=str(named["default"].key),
        tls_sni_cert_keys=(
            sni("a.example"),
            sni("other", "b.example"),
            sni("wild", "*.c.example", "b.example"),
        ),
    )
    with ops_world(None, settings=settings) as world:
        names_by_host = {
            name: common_name(presented(world.url, name=name)[0])
            for name in ("a.example", "A.Example", "b.example", "x.c.example", "c.example", "z")
        }
        assert names_by_host == {
            "a.example": "a.example",
            "A.Example": "a.example",
            "b.example": "other",
            "x.c.example": "wild",
            "c.example": "default",
            "z": "default",
        }
        assert common_name(presented(world.url)[0]) == "default"


def test_tls_versions_and_cipher_suites_are_enforced() -> None:
    modern = replace(LOCAL, tls_min_version="VersionTLS13")
    with ops_world(None, settings=modern) as world, pytest.raises(ssl.SSLError):
        presented(world.url, maximum_version=ssl.TLSVersion.TLSv1_2)
    only = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    with ops_world(None, settings=replace(LOCAL, tls_cipher_suites=(only,))) as world:
        port = int(world.url.rpartition(":")[2])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2", "http/1.1"])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain) as tls,
        ):
            cipher = tls.cipher()
            assert cipher is not None
            assert cipher[0] == "ECDHE-RSA-AES256-GCM-SHA384"
            assert tls.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param(
            {"tls_cipher_suites": ("TLS_NO",)},
            "Cipher suite TLS_NO not supported or doesn't exist",
            id="a suite that is none",
        ),
        pytest.param({"tls_min_version": "1.2"}, 'unknown tls version "1.2"', id="a version"),
        pytest.param(
            {"tls_curve_preferences": (29, 29)}, "duplicate curve preference 29", id="a curve twice"
        ),
        pytest.param(
            {"tls_curve_preferences": (77777,)},
            "curve preference 77777 is out of range (must be 1-65535)",
            id="a number that is no curve",
        ),
        pytest.param(
            {"tls_cert_file": "nowhere.crt", "tls_private_key_file": "nowhere.key"},
            "open nowhere.crt: no such file or directory",
            id="a file that is not there",
        ),
        pytest.param(
            {"tls_cert_file": "nowhere.crt"},
            "missing filename for serving cert",
            id="half a pair",
        ),
        pytest.param(
            {"authentication": AuthenticationSettings(client_ca_file="nowhere.crt")},
            "unable to load client CA provider: open nowhere.crt: no such file or directory",
            id="an authority that is not there",
        ),
    ],
)
def test_invalid_serving_settings_are_reported(settings: dict[str, Any], text: str) -> None:
    with (
        pytest.raises(ServingError) as raised,
        ops_world(None, settings=replace(LOCAL, **settings)),
    ):
        pass
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("address", "listener"), [("127.0.0.1", "127.0.0.1:{}"), ("0.0.0.0", "0.0.0.0:{}")]
)
def test_a_port_in_use_is_reported_with_the_address(address: str, listener: str) -> None:
    with ops_world(None) as world:
        port = world.server.port
        settings = replace(LOCAL, bind_address=address, port=port)
        with pytest.raises(ServingError) as raised, ops_world(None, settings=settings):
            pass
    endpoint = listener.format(port)
    assert str(raised.value) == (
        f"failed to create listener: failed to listen on {endpoint}: "
        f"listen tcp {endpoint}: bind: {os.strerror(errno.EADDRINUSE).lower()}"
    )


def test_a_port_can_be_shared_if_both_permit_it() -> None:
    settings = replace(LOCAL, permit_port_sharing=True)
    with ops_world(None, settings=settings) as first:
        shared = replace(settings, port=first.server.port)
        with ops_world(None, settings=shared) as second:
            assert second.server.port == first.server.port


def test_all_addresses_means_ipv4_and_ipv6() -> None:
    with ops_world(None, settings=replace(LOCAL, bind_address="0.0.0.0")) as world:
        port = world.server.port
        assert send_request(f"https://127.0.0.1:{port}", "/livez").text == "ok"
        if socket.has_dualstack_ipv6():
            assert send_request(f"https://[::1]:{port}", "/livez").text == "ok"


def test_an_untrusted_certificate_ends_the_connection(
    api_server: ApiServer, tmp_path: Path
) -> None:
    # Differs from kube-scheduler, which answers 401.
    authority = AuthenticationSettings(client_ca_file=str(api_server.ca_file), skip_lookup=True)
    settings = replace(LOCAL, authentication=authority)
    with ops_world(None, settings=settings) as world:
        untrusted = signed(tmp_path, "stranger", ["system:masters"])
        with pytest.raises((ssl.SSLError, OSError)):
            send_request(world.url, "/livez/ping", certificate=untrusted)
        admin = certificates(api_server, tmp_path)["admin"]
        assert send_request(world.url, "/livez/ping", certificate=admin).text == "ok"


def test_a_replaced_authority_is_no_longer_trusted(api_server: ApiServer, tmp_path: Path) -> None:
    assert api_server.ca_file is not None
    path = tmp_path / "clients.crt"
    path.write_bytes(api_server.ca_file.read_bytes())
    authority = AuthenticationSettings(client_ca_file=str(path), skip_lookup=True)
    admin = certificates(api_server, tmp_path)["admin"]
    clock = SteppedClock()
    with ops_world(None, settings=replace(LOCAL, authentication=authority), clock=clock) as world:
        with connected(world.url, admin) as kept:
            kept.request("GET", "/livez/ping")
            assert kept.getresponse().read() == b"ok"
            path.write_bytes(signed(tmp_path, "another", []).certificate.read_bytes())
            clock.step_s += 10
            # On the open connection, too.
            kept.request("GET", "/livez/ping")
            assert kept.getresponse().status == 401
        with pytest.raises((ssl.SSLError, OSError)):
            send_request(world.url, "/livez/ping", certificate=admin)


def test_a_certificate_that_expires_during_a_connection_is_no_longer_trusted(
    api_server: ApiServer, tmp_path: Path
) -> None:
    authority = AuthenticationSettings(client_ca_file=str(api_server.ca_file), skip_lookup=True)
    admin: ClientCertificate = certificates(api_server, tmp_path)["admin"]
    clock = SteppedClock()
    settings = replace(LOCAL, authentication=authority)
    with (
        ops_world(None, settings=settings, clock=clock) as world,
        connected(world.url, admin) as kept,
    ):
        kept.request("GET", "/livez/ping")
        assert kept.getresponse().read() == b"ok"
        clock.step_s += 100 * 365 * 86_400
        kept.request("GET", "/livez/ping")
        assert kept.getresponse().status == 401
