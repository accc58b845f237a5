"""`kubesched extender`: serves Python plugins to a stock kube-scheduler.

Owns the options of the command. `process` runs it and is imported on demand.
"""

from __future__ import annotations

from typing import Any, Final

import click

from kubesched.cli.options import plugin_option

_EPILOG: Final = """\b
Examples:
  kubesched extender --plugin spare_gpu.py:SpareGpu --kubeconfig ~/.kube/config
  kubesched extender --plugin spare_gpu.py:SpareGpu --print-config
  kubesched extender --config scheduler.yaml --plugin spare_gpu.py:SpareGpu --bind
  kubesched extender --plugin spare_gpu.py:SpareGpu --listen 0.0.0.0:8888

\b
Then, for your kube-scheduler:
  1. Run `--print-config`. Add the `extenders:` snippet to the file that kube-scheduler reads with
     --config, and restart kube-scheduler. Apply the RBAC manifests with kubectl.
  2. Create a pod. The extender logs one line per call.
  3. curl http://127.0.0.1:8888/readyz?verbose, and /metrics.

With --config, the schedulerName of a pod selects the profile; the first profile serves all other
pods. Only out-of-tree plugins run here, since kube-scheduler runs the others. See docs/extender.md.
"""


def _number(context: click.Context, option: click.Parameter, value: str) -> int:
    """Return a number; accept `-v=2`, as kube-scheduler does."""
    text = value.removeprefix("=")
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is not a number", context, option)
    return int(text)


@click.command(epilog=_EPILOG)
@plugin_option
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration file with plugins, weights and arguments.  "
    "[default: enable the plugins of --plugin at every extension point]",
)
@click.option(
    "--listen",
    default="127.0.0.1:8888",
    show_default=True,
    metavar="ADDR",
    help="Listen on ADDRESS:PORT; use :PORT for all addresses, and port 0 for any free port.",
)
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Kubeconfig of the cluster to watch.  [default: the cluster that this pod runs in, "
    "or else the kubeconfig that kubectl uses]",
)
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig.")
@click.option(
    "--bind",
    "binds",
    is_flag=True,
    help="Also serve bind; if no plugin binds the pod, create the Binding.",
)
@click.option(
    "--max-score",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    metavar="N",
    help="Send a plugin score of 100 as N. kube-scheduler multiplies scores by 10 and by the "
    "weight. The protocol expects 10; 100 keeps the full precision.",
)
@click.option(
    "--tls-cert-file", default="", metavar="FILE", help="Serve HTTPS with this certificate."
)
@click.option(
    "--tls-private-key-file", default="", metavar="FILE", help="Private key of the certificate."
)
@click.option(
    "--client-ca-file",
    default="",
    metavar="FILE",
    help="Serve only clients with a certificate that one of these authorities signed.",
)
@click.option(
    "--tls-min-version",
    default="",
    metavar="VERSION",
    help="Minimum TLS version, VersionTLS10 to VersionTLS13.  [default: VersionTLS12]",
)
@click.option(
    "--tls-cipher-suites",
    default="",
    metavar="NAMES",
    help="Comma-separated cipher suites, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.",
)
@click.option(
    "--plugin-budget",
    "plugin_budgets",
    multiple=True,
    metavar="[NAME=]DURATION",
    help="Limit the time of a plugin call; 0 means no limit. Repeatable.  [default: 400ms]",
)
@click.option(
    "--print-config",
    "prints_config",
    is_flag=True,
    help="Print the snippet for kube-scheduler's configuration and RBAC manifests, and exit.",
)
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="With --print-config: URL for kube-scheduler.  [default: from --listen]",
)
@click.option(
    "--service-account",
    default="kube-system/kubesched-extender",
    show_default=True,
    metavar="NAMESPACE/NAME",
    help="With --print-config: service account that gets the permissions.",
)
@click.option(
    "-v",
    "--v",
    "verbosity",
    callback=_number,
    default="0",
    show_default=True,
    metavar="N",
    help="Log verbosity; also -v=N.",
)
@click.option(
    "--logging-format",
    "log_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log format.",
)
def extender(**options: Any) -> int:
    """Serve Python plugins to a stock kube-scheduler, as an HTTP extender (protocol v1).

    Serve filter, prioritize (also called priority), preempt and, with --bind, bind under any path
    that ends with the verb. Watch nodes and pods, so that plugins see both, whether kube-scheduler
    sends names (nodeCacheCapable: true) or whole nodes. Serve /healthz, /livez, /readyz and
    /metrics on the same port.
    """
    from kubesched.cli.extender.process import ExtenderOptions, config_snippet, run  # noqa: PLC0415

    parsed = ExtenderOptions(**options)
    if not parsed.prints_config:
        return run(parsed)
    click.echo(config_snippet(parsed), nl=False)
    return 0
