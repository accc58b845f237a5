"""Extenders of a configuration, checked as when upstream builds its scheduler.

Owns the checks that upstream makes when it creates the clients of extenders, and the change that
extenders make to the arguments of NodeResourcesFit. Never calls an extender.
Upstream: pkg/scheduler/scheduler.go buildExtenders; pkg/scheduler/extender.go NewHTTPExtender;
client-go transport/transport.go TLSConfigFor
"""

import msgspec

from kubesched.config.errors import ConfigError
from kubesched.config.types import (
    Extender,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    NodeResourcesFitArgs,
    PluginConfig,
)
from kubesched.golang.encoding_pem import PemError, check_key_pair, check_root_certificates
from kubesched.golang.os import read_file

DEFAULT_EXTENDER_TIMEOUT_NS = 5_000_000_000
_FIT = "NodeResourcesFit"


def build_extenders(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Return the configuration as building its extenders leaves it.

    Raises:
        ConfigError: At stage "build", with upstream's text.
    """
    if not config.extenders:
        return config
    extenders = tuple(_built(extender) for extender in config.extenders)
    ignored = tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    profiles = config.profiles
    if ignored:
        profiles = tuple(_with_ignored(profile, ignored) for profile in profiles)
    return msgspec.structs.replace(config, extenders=extenders, profiles=profiles)


def _built(extender: Extender) -> Extender:
    tls = extender.tls_config or ExtenderTLSConfig()
    if extender.enable_https and not (tls.ca_file or tls.ca_data):
        # Without an authority, any server certificate is accepted.
        tls = msgspec.structs.replace(tls, insecure=True)
    try:
        _check_tls(tls)
    except ValueError as error:
        raise ConfigError("build", f"couldn't build extenders: {error}") from None
    if extender.http_timeout_ns == 0:
        return msgspec.structs.replace(extender, http_timeout_ns=DEFAULT_EXTENDER_TIMEOUT_NS)
    return extender


def _check_tls(tls: ExtenderTLSConfig) -> None:
    has_ca = bool(tls.ca_file or tls.ca_data)
    has_pair = bool(tls.cert_file or tls.cert_data) and bool(tls.key_file or tls.key_data)
    if not (has_ca or has_pair or tls.insecure or tls.server_name):
        return
    if has_ca and tls.insecure:
        raise PemError("specifying a root certificates file with the insecure flag is not allowed")
    # A pair that comes from files is read again at each handshake, so only its presence counts.
    both_files = bool(tls.cert_file and tls.key_file) and not (tls.cert_data or tls.key_data)
    ca, certificate, key = (
        data or (read_file(file) if file else b"")
        for data, file in (
            (tls.ca_data, tls.ca_file),
            (tls.cert_data, tls.cert_file),
            (tls.key_data, tls.key_file),
        )
    )
    if ca:
        check_root_certificates(ca)
    if has_pair and not both_files:
        check_key_pair(certificate, key)


def _with_ignored(profile: KubeSchedulerProfile, ignored: tuple[str, ...]) -> KubeSchedulerProfile:
    """Return a profile whose Fit plugin ignores the resources that extenders manage alone."""
    entries = list(profile.plugin_config)
    for index, entry in enumerate(entries):
        if entry.name == _FIT and isinstance(entry.args, NodeResourcesFitArgs):
            args = msgspec.structs.replace(entry.args, ignored_resources=ignored)
            entries[index] = PluginConfig(entry.name, args)
            return msgspec.structs.replace(profile, plugin_config=tuple(entries))
    problem = "can't find NodeResourcesFitArgs in plugin config"
    raise ConfigError("build", f"couldn't build extenders: {problem}")
