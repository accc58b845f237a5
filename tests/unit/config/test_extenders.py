"""Building extenders: certificates, timeouts, ignored resources; texts are upstream's own."""

import base64
from pathlib import Path
from typing import Any

import pytest

from kubesched.config.errors import ConfigError
from kubesched.config.extenders import build_extenders
from kubesched.config.load import load_config_object
from kubesched.config.types import KubeSchedulerConfiguration, NodeResourcesFitArgs

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"
PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----\nMAMCAQE=\n-----END PRIVATE KEY-----\n"
NO_ASN1 = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def config(*extenders: dict[str, Any], **fields: Any) -> KubeSchedulerConfiguration:
    return load_config_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": list(extenders),
            **fields,
        }
    )


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        pytest.param(
            {"insecure": True, "caFile": "x"},
            "specifying a root certificates file with the insecure flag is not allowed",
            id="insecure with an authority",
        ),
        pytest.param(
            {"caFile": "/no/such/ca.pem"},
            "open /no/such/ca.pem: no such file or directory",
            id="no such file",
        ),
        pytest.param(
            {"caData": data("hello")},
            "unable to load root certificates: unable to parse bytes as PEM block",
            id="an authority that is not PEM",
        ),
        pytest.param(
            {"caData": data(PRIVATE_KEY)},
            "unable to load root certificates: no valid certificate authority data seen",
            id="a key for an authority",
        ),
        pytest.param(
            {"caData": data(NO_ASN1)},
            "unable to load root certificates: failed to parse certificate: x509: malformed "
            "certificate",
            id="a malformed certificate",
        ),
        pytest.param(
            {"certData": data("x"), "keyData": data(PRIVATE_KEY)},
            "tls: failed to find any PEM data in certificate input",
            id="a certificate that is not PEM",
        ),
        pytest.param(
            {"certData": data(PRIVATE_KEY), "keyData": data(PRIVATE_KEY)},
            "tls: failed to find certificate PEM data in certificate input, but did find a private "
            "key; PEM inputs may have been switched",
            id="certificate and key switched",
        ),
        pytest.param(
            {"certData": data(CERTIFICATE), "keyData": data(CERTIFICATE)},
            "tls: found a certificate rather than a key in the PEM for the private key",
            id="a certificate for a key",
        ),
        pytest.param(
            {"certData": data(CERTIFICATE), "keyData": data("x")},
            "tls: failed to find any PEM data in key input",
            id="a key that is not PEM",
        ),
    ],
)
def test_invalid_certificates_have_upstreams_errors(tls: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_extenders(config({"urlPrefix": "http://x", "tlsConfig": tls}))
    assert caught.value.stage == "build"
    assert str(caught.value) == f"couldn't build extenders: {message}"


def test_a_directory_instead_of_a_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build_extenders(config({"tlsConfig": {"caFile": str(tmp_path)}}))
    assert str(caught.value) == f"couldn't build extenders: read {tmp_path}: is a directory"


@pytest.mark.parametrize(
    "tls",
    [
        pytest.param({"certFile": "/no/such"}, id="a certificate without a key is ignored"),
        pytest.param({"caData": data(CERTIFICATE)}, id="an authority"),
        pytest.param(
            {"certData": data(CERTIFICATE), "keyData": data(PRIVATE_KEY)}, id="a pair in the file"
        ),
    ],
)
def test_valid_certificates_are_accepted(tls: dict[str, Any]) -> None:
    loaded = config({"tlsConfig": tls, "httpTimeout": "3s"})
    assert build_extenders(loaded) == loaded


def test_https_without_an_authority_accepts_any_certificate() -> None:
    built = build_extenders(config({"enableHTTPS": True, "httpTimeout": "1s"}))
    assert built.extenders[0].tls_config is None


def test_the_default_timeout_is_five_seconds() -> None:
    built = build_extenders(config({"httpTimeout": "0s"}, {"httpTimeout": "-1s"}))
    assert [e.http_timeout_ns for e in built.extenders] == [5_000_000_000, -1_000_000_000]


def test_ignored_resources_replace_those_of_every_profile() -> None:
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["a.b/c"]}}
    built = build_extenders(
        config(
            {"managedResources": [{"name": "x.y/z", "ignoredByScheduler": True}]},
            {
                "managedResources": [
                    {"name": "x.y/w"},
                    {"name": "u.v/w", "ignoredByScheduler": True},
                ]
            },
            profiles=[{"schedulerName": "a", "pluginConfig": [fit]}, {"schedulerName": "b"}],
        )
    )
    for profile in built.profiles:
        args = profile.args_of("NodeResourcesFit")
        assert isinstance(args, NodeResourcesFitArgs)
        assert args.ignored_resources == ("x.y/z", "u.v/w")


def test_ignored_resources_need_fit_in_every_profile() -> None:
    with pytest.raises(ConfigError) as caught:
        build_extenders(
            config(
                {"managedResources": [{"name": "x.y/z", "ignoredByScheduler": True}]},
                profiles=[{"plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}}],
            )
        )
    assert str(caught.value) == (
        "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
    )
