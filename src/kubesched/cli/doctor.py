"""`kubesched doctor`: what a cluster lacks for `kubesched run` with the same flags.

Owns the command's own flags, the table of findings and the exit code: 1 if something fails. What is
looked at is app.doctor's.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import click

from kubesched.cli.run import RawCommand, tell, version_text

if TYPE_CHECKING:
    from kubesched.app.build import Built
    from kubesched.app.doctor import Finding
    from kubesched.app.flags import Flag, FlagSet
    from kubesched.app.option_values import Options
    from kubesched.app.rights import Subject

_HELP: Final = """\
Usage: kubesched doctor [flags of kubesched run] [flags]

{introduction}

Examples:
  kubesched doctor --kubeconfig ~/.kube/config
  kubesched doctor --kubeconfig ~/.kube/config --config scheduler.yaml -o json
  kubesched doctor --config scheduler.yaml --as system:serviceaccount:kube-system:kubesched
  kubesched doctor --config scheduler.yaml --rbac | kubectl apply -f -

{flags}
Every flag of `kubesched run` may be given too and means the same (`kubesched run --help`), but
--kubeconfig goes before the file of --config.
"""
_INTRODUCTION: Final = """\
Looks a cluster over for `kubesched run` with the same flags: whether the API server answers and is
new enough, whether the user has every right that this configuration and these plugins use, who
holds the lease, whether the port is free, whether pods wait for schedulers that no profile is
called, and whether the clocks agree. Nothing is changed. Ends with 1 if something would fail.
"""
_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}
_WIDTH_MAX: Final = 120
_INDENT: Final = 18


class _DoctorCommand(RawCommand):
    """The command, with the flags it has beside those of `run`."""

    def flags(self) -> FlagSet:
        """Return all flags, unset."""
        flags = super().flags()
        flags.add("doctor", _flags())
        return flags


@click.command("doctor", cls=_DoctorCommand, short_help="Look a cluster over for `kubesched run`.")
def doctor(arguments: tuple[str, ...]) -> int:
    """Look a cluster over: rights, lease, port, versions, names of schedulers."""
    from kubesched.app.build import build, never_enabled  # noqa: PLC0415
    from kubesched.app.option_groups import scheduler_flags  # noqa: PLC0415
    from kubesched.app.options import OptionsError, parse_options  # noqa: PLC0415
    from kubesched.cli.options import registry_of  # noqa: PLC0415
    from kubesched.config.errors import ConfigError  # noqa: PLC0415

    flags = scheduler_flags()
    flags.add("doctor", _flags())
    try:
        options = parse_options(arguments, flags)
        if options.show_help:
            click.echo(_help(), nl=False)
            return 0
        if options.show_version:
            click.echo(version_text(options))
            return 0
        subject = _subject(flags)
        registry = registry_of(options.plugins)
        options = options.enabling(list(registry or ()))
        built = build(options.config, out_of_tree=registry, validates=False)
    except (OptionsError, ConfigError) as problem:
        told = problem if isinstance(problem, OptionsError) else OptionsError(str(problem))
        tell(told, "doctor", flags)
        return 1
    if flags["rbac"].value.value:
        _print_rbac(built, options, subject)
        return 0
    findings = _unused(never_enabled(built, registry))
    findings += asyncio.run(_examine(built, options, flags))
    _print(findings, flags["output"].value.value)
    return 1 if any(finding.verdict == "fail" for finding in findings) else 0


def _flags() -> list[Flag]:
    from kubesched.app.flag_values import BoolValue, TextValue  # noqa: PLC0415
    from kubesched.app.flags import Flag  # noqa: PLC0415

    return [
        Flag(
            "as",
            TextValue(),
            "Whose rights are looked at, if not yours: a user's name, which may be "
            "system:serviceaccount:NAMESPACE:NAME.",
        ),
        Flag("output", TextValue("text"), "What to print: text or json.", shorthand="o"),
        Flag("rbac", BoolValue(), "Print the smallest RBAC for these flags as YAML, and end."),
        Flag(
            "service-account",
            TextValue("kube-system/kubesched"),
            "Whom --rbac grants it: NAMESPACE/NAME.",
        ),
        Flag("user", TextValue(), "Whom --rbac grants it, if it is a user instead."),
    ]


def _help() -> str:
    from kubesched.app.flag_help import one_flag  # noqa: PLC0415

    return _HELP.format(
        introduction=textwrap.fill(_INTRODUCTION, _width()),
        flags="".join(one_flag(flag, _width()) for flag in _flags()),
    )


def _width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDTH_MAX)


def _subject(flags: FlagSet) -> Subject:
    from kubesched.app.option_values import OptionsError  # noqa: PLC0415
    from kubesched.app.rights import Subject  # noqa: PLC0415

    form = flags["output"].value.value
    if form not in ("text", "json"):
        raise OptionsError(f"--output is text or json, not {form}", "usage", "output")
    if user := flags["user"].value.value:
        return Subject(user, namespace="")
    namespace, slash, name = flags["service-account"].value.value.partition("/")
    if not namespace or not slash or not name:
        text = "--service-account has the form NAMESPACE/NAME"
        raise OptionsError(text, "usage", "service-account")
    return Subject(name, namespace)


def _print_rbac(built: Built, options: Options, subject: Subject) -> None:
    from kubesched.app.rights import needed_rights, rbac_yaml  # noqa: PLC0415

    click.echo(rbac_yaml(needed_rights(built, options), subject), nl=False)


def _unused(names: Sequence[str]) -> list[Finding]:
    from kubesched.app.doctor import Finding  # noqa: PLC0415

    advice = "Add it to a profile: plugins.multiPoint.enabled."
    return [
        Finding("plugins", "warn", f"{name} is loaded and no profile enables it", advice)
        for name in names
    ]


async def _examine(built: Built, options: Options, flags: FlagSet) -> list[Finding]:
    from kubesched.app.doctor import Doctor, Finding, NotingTransport, port_finding  # noqa: PLC0415
    from kubesched.client.kubeconfig import AccessError, load_access  # noqa: PLC0415
    from kubesched.client.rest import Client  # noqa: PLC0415
    from kubesched.client.transport import HttpTransport  # noqa: PLC0415
    from kubesched.kit.clock import SystemClock  # noqa: PLC0415
    from kubesched.kit.log import NullLog  # noqa: PLC0415

    given = flags["kubeconfig"]
    port = port_finding(options.serving)
    try:
        access = load_access(
            kubeconfig=given.value.value if given.is_set else options.kubeconfig,
            context=options.context,
            master=options.master,
            reads_home=True,
        )
    except AccessError as problem:
        advice = "Say where the cluster is: --kubeconfig FILE, or KUBECONFIG."
        return [Finding("server", "fail", str(problem), advice), port]
    if user := flags["as"].value.value:
        access = replace(access, headers=(("Impersonate-User", user),))
    clock = SystemClock()
    transport = NotingTransport(HttpTransport(access, clock), clock)
    client = Client(
        access,
        qps=-1,
        user_agent="kubesched/doctor",
        clock=clock,
        log=NullLog(),
        transport=transport,
    )
    try:
        return [*await Doctor(client, options, built, clock, transport).examine(), port]
    finally:
        await client.close()
        await transport.close()


def _print(findings: Sequence[Finding], form: str) -> None:
    if form == "json":
        shown = [asdict(finding) for finding in findings]
        click.echo(json.dumps({"findings": shown}, indent=2, ensure_ascii=False))
        return
    for finding in findings:
        verdict = click.style(finding.verdict.ljust(6), fg=_COLOURS[finding.verdict])
        first, *rest = _wrapped(finding.text)
        click.echo(f"  {verdict}{finding.check.ljust(_INDENT - 8)}{first}")
        for line in (*rest, *(_wrapped(f"→ {finding.advice}") if finding.advice else ())):
            click.echo(" " * _INDENT + line)
    counts = [sum(one.verdict == verdict for one in findings) for verdict in ("fail", "warn")]
    told = [
        f"{count} {word}{'' if count == 1 else 's'}"
        for count, word in zip(counts, ("failure", "warning"), strict=True)
        if count
    ]
    click.echo("\n" + (", ".join(told) + "." if told else "Nothing stands in the way."))


def _wrapped(text: str) -> list[str]:
    width = _width() - _INDENT
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
