"""`kubesched extender`: Python plugins for a scheduler that is not ours.

Owns the command's options and `--print-config`. What it does is cli.extender_run's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kubesched.cli.options import plugin_option, registry_of, with_options

if TYPE_CHECKING:
    from kubesched.app.extender_build import BuiltExtender
    from kubesched.cli.extender_run import ExtenderOptions
    from kubesched.config.types import KubeSchedulerConfiguration
    from kubesched.framework.fence import Budgets
    from kubesched.framework.registry import Registry
    from kubesched.web.settings import ServingSettings

_EPILOG: Final = """\b
Examples:
  kubesched extender --plugin spare_gpu.py:SpareGpu --kubeconfig ~/.kube/config
  kubesched extender --plugin spare_gpu.py:SpareGpu --print-config
  kubesched extender --config scheduler.yaml --plugin spare_gpu.py:SpareGpu --bind
  kubesched extender --plugin spare_gpu.py:SpareGpu --listen 0.0.0.0:8888

\b
Then, for your kube-scheduler:
  1. `--print-config` prints the `extenders:` stanza; put it into the file that kube-scheduler's
     --config names, and start kube-scheduler again. It also prints the rights: kubectl apply them.
  2. Make a pod. Every call is a line of the extender's log.
  3. curl http://127.0.0.1:8888/readyz?verbose, and /metrics.

Of a --config file, profiles are chosen by a pod's schedulerName, the first one serves all others;
only plugins of your own are asked, since kube-scheduler has the rest. See docs/extender.md.
"""


def _number(context: click.Context, option: click.Parameter, value: str) -> int:
    """Return a number; `-v=2` is taken as kube-scheduler takes it."""
    given = value.removeprefix("=")
    if not given.isdecimal():
        raise click.BadParameter(f"{given!r} is not a number", context, option)
    return int(given)


@dataclass(frozen=True, slots=True)
class _Given:
    """The command line, as it was given."""

    plugins: tuple[str, ...]
    config_file: str | None
    listen: str
    kubeconfig: str
    context: str
    binds: bool
    max_score: int
    tls_cert_file: str
    tls_private_key_file: str
    client_ca_file: str
    tls_min_version: str
    tls_cipher_suites: str
    plugin_budgets: tuple[str, ...]
    prints_config: bool
    url: str
    service_account: str
    verbosity: int
    log_format: str


_OPTIONS: Final = (
    plugin_option,
    click.option(
        "--config",
        "config_file",
        metavar="FILE",
        help="A KubeSchedulerConfiguration: which plugins, with which weights and arguments.  "
        "[default: those of --plugin at every extension point]",
    ),
    click.option(
        "--listen",
        default="127.0.0.1:8888",
        show_default=True,
        metavar="ADDR",
        help="Where to listen, ADDRESS:PORT; :PORT for all addresses, port 0 for any that is free.",
    ),
    click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="Which cluster to read nodes and pods of.  [default: the one that this pod runs in, "
        "else as kubectl has it]",
    ),
    click.option("--context", default="", metavar="NAME", help="Of the kubeconfig."),
    click.option(
        "--bind",
        "binds",
        is_flag=True,
        help="Serve bind, too: pods are bound by your plugins, or by a Binding that we write.",
    ),
    click.option(
        "--max-score",
        type=click.IntRange(1, 100),
        default=10,
        show_default=True,
        metavar="N",
        help="What a plugin's 100 is told as. kube-scheduler multiplies by 10 and by its weight; "
        "the protocol means 10, and with 100 no difference between nodes is lost.",
    ),
    click.option("--tls-cert-file", default="", metavar="FILE", help="Serve HTTPS, with this."),
    click.option("--tls-private-key-file", default="", metavar="FILE", help="Its key."),
    click.option(
        "--client-ca-file",
        default="",
        metavar="FILE",
        help="Answer only callers whose certificate one of these authorities signed.",
    ),
    click.option(
        "--tls-min-version",
        default="",
        metavar="VERSION",
        help="VersionTLS10 to VersionTLS13.  [default: VersionTLS12]",
    ),
    click.option(
        "--tls-cipher-suites", default="", metavar="NAMES", help="Go's names, with commas."
    ),
    click.option(
        "--plugin-budget",
        "plugin_budgets",
        multiple=True,
        metavar="[NAME=]DURATION",
        help="How long a call of a plugin may take; 0 for any time. May be repeated.  "
        "[default: 400ms]",
    ),
    click.option(
        "--print-config",
        "prints_config",
        is_flag=True,
        help="Print the stanza for kube-scheduler and the rights for this command line, and end.",
    ),
    click.option(
        "--url",
        default="",
        metavar="URL",
        help="With --print-config: where kube-scheduler reaches us.  [default: as --listen says]",
    ),
    click.option(
        "--service-account",
        default="kube-system/kubesched-extender",
        show_default=True,
        metavar="NAMESPACE/NAME",
        help="With --print-config: who gets the rights.",
    ),
    click.option(
        "-v",
        "--v",
        "verbosity",
        callback=_number,
        default="0",
        show_default=True,
        metavar="N",
        help="How much to log; also -v=N.",
    ),
    click.option(
        "--logging-format",
        "log_format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How to log.",
    ),
)


@click.command(short_help="Serve plugins to a stock kube-scheduler.", epilog=_EPILOG)
@partial(with_options, options=_OPTIONS)
def extender(**options: Any) -> int:
    """Serve Python plugins to a stock kube-scheduler, as an HTTP extender (protocol v1).

    filter, prioritize (also called priority), preempt and, with --bind, bind are answered under
    any path: the last part of it is the verb. Nodes and pods are read from the cluster, so that
    plugins see both, whether kube-scheduler sends names (nodeCacheCapable: true) or whole nodes.
    /healthz, /livez, /readyz and /metrics are on the same port.
    """
    given = _Given(**options)
    wanted = _wanted(given)
    if given.prints_config:
        click.echo(_printed(given, wanted), nl=False)
        return 0
    from kubesched.cli.extender_run import run  # noqa: PLC0415

    return run(wanted)


def _wanted(given: _Given) -> ExtenderOptions:
    from kubesched.cli.extender_run import ExtenderOptions  # noqa: PLC0415

    registry = registry_of(given.plugins)
    return ExtenderOptions(
        config=_config(given.config_file, registry),
        registry=registry,
        settings=_settings(given),
        kubeconfig=given.kubeconfig,
        context=given.context,
        binds=given.binds,
        max_score=given.max_score,
        budgets=_budgets(given.plugin_budgets),
        verbosity=given.verbosity,
        log_format="json" if given.log_format == "json" else "text",
    )


def _config(config_file: str | None, registry: Registry | None) -> KubeSchedulerConfiguration:
    from kubesched.app.build import config_enabling  # noqa: PLC0415
    from kubesched.config.errors import ConfigError  # noqa: PLC0415
    from kubesched.config.load import load_config  # noqa: PLC0415

    if config_file is None:
        return config_enabling(registry)
    try:
        return load_config(Path(config_file).read_bytes())
    except ConfigError as problem:
        raise click.ClickException(f"{config_file}: {problem}") from None


def _settings(given: _Given) -> ServingSettings:
    from kubesched.web.extender_server import serving_settings  # noqa: PLC0415

    address, colon, port = given.listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{given.listen!r} is not ADDRESS:PORT", param_hint="--listen")
    has_certificate = bool(given.tls_cert_file)
    if has_certificate != bool(given.tls_private_key_file):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    if given.client_ca_file and not has_certificate:
        raise click.UsageError("--client-ca-file needs --tls-cert-file")
    return serving_settings(
        bind_address=address.strip("[]"),
        port=int(port),
        tls_cert_file=given.tls_cert_file,
        tls_private_key_file=given.tls_private_key_file,
        client_ca_file=given.client_ca_file,
        min_tls_version=given.tls_min_version,
        cipher_suites=tuple(filter(None, given.tls_cipher_suites.split(","))),
    )


def _budgets(texts: tuple[str, ...]) -> Budgets:
    from kubesched.app.plugin_budgets import PluginBudgetsValue  # noqa: PLC0415

    value = PluginBudgetsValue()
    for text in texts:
        try:
            value.set(text)
        except ValueError as problem:
            raise click.BadParameter(str(problem), param_hint="--plugin-budget") from None
    return value.value


# -- what is printed, and looked at before -------------------------------------------------------


def _printed(given: _Given, wanted: ExtenderOptions) -> str:
    from kubesched.app.extender_stanza import Stanza, print_config  # noqa: PLC0415
    from kubesched.app.rights import Subject  # noqa: PLC0415
    from kubesched.web.extender_server import is_secure, url_of  # noqa: PLC0415

    namespace, slash, name = given.service_account.partition("/")
    if not namespace or not slash or not name:
        raise click.BadParameter("not NAMESPACE/NAME", param_hint="--service-account")
    settings = wanted.settings
    stanza = Stanza(
        given.url or url_of(settings),
        binds=wanted.binds,
        is_secure=is_secure(settings) or given.url.startswith("https:"),
        wants_certificates=bool(given.client_ca_file),
    )
    return print_config(_checked(wanted), stanza, Subject(name, namespace))


def _checked(wanted: ExtenderOptions) -> BuiltExtender:
    """Return what a configuration gives, built to look at; refuse what serves nothing."""
    extender = asyncio.run(_built(wanted))
    if problem := extender.problem(wanted.registry, binds=wanted.binds):
        raise click.ClickException(problem)
    return extender


async def _built(wanted: ExtenderOptions) -> BuiltExtender:
    """Build in a loop, for plugins that start a task when they are made."""
    from kubesched.app.extender_build import build_extender  # noqa: PLC0415
    from kubesched.cache.cache import Cache  # noqa: PLC0415
    from kubesched.config.errors import ConfigError  # noqa: PLC0415
    from kubesched.kit.clock import SystemClock  # noqa: PLC0415
    from kubesched.kit.log import NullLog  # noqa: PLC0415
    from kubesched.kit.tasks import Tasks  # noqa: PLC0415

    tasks = Tasks()
    try:
        return build_extender(
            wanted.config,
            out_of_tree=wanted.registry,
            view=Cache().snapshot(),
            clock=SystemClock(),
            log=NullLog(),
            tasks=tasks,
        )
    except (ConfigError, ValueError) as problem:
        raise click.ClickException(str(problem)) from None
    finally:
        await tasks.stop()
