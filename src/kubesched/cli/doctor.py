"""`kubesched doctor`: check whether a cluster is ready for `kubesched run` with the same flags.

Owns the command's own flags, the table of findings and the exit code: 1 if a check fails. The
checks are `run.doctor`'s.
"""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

import click

from kubesched.cli.options import registry_of
from kubesched.cli.run.command import RawCommand, help_width, report_error, version_text
from kubesched.client.auth.kubeconfig import AccessError, load_access
from kubesched.client.http.transport import HttpTransport
from kubesched.client.rest import Client
from kubesched.config.errors import ConfigError
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.text import counted
from kubesched.profile.build import Built, build, never_enabled
from kubesched.run.doctor import ClockSkewTransport, Doctor, Finding, port_finding
from kubesched.run.options.flag_types import BOOL, TEXT
from kubesched.run.options.flags import Flag, FlagSet, one_flag
from kubesched.run.options.parse import parse_options
from kubesched.run.options.scheduler_flags import scheduler_flags
from kubesched.run.options.values import Options, OptionsError
from kubesched.run.rbac import Subject, needed_rights, rbac_yaml

_HELP: Final = """\
Usage: kubesched doctor [flags of kubesched run] [flags]

{introduction}

Examples:
  kubesched doctor --kubeconfig ~/.kube/config
  kubesched doctor --kubeconfig ~/.kube/config --config scheduler.yaml -o json
  kubesched doctor --config scheduler.yaml --as system:serviceaccount:kube-system:kubesched
  kubesched doctor --config scheduler.yaml --rbac | kubectl apply -f -

{flags}
All flags of `kubesched run` are accepted and mean the same (see `kubesched run --help`), except
that --kubeconfig takes precedence over the file of --config.
"""
_INTRODUCTION: Final = """\
Checks whether a cluster is ready for `kubesched run` with the same flags: API server version, RBAC
permissions for this configuration and its plugins, leader election lease, free port, pending pods
whose scheduler name no profile has, and clock skew. Changes nothing. Exits with 1 if a check fails.
"""
_COLORS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}
_INDENT: Final = 18


class _DoctorCommand(RawCommand):
    """The command, with its own flags and those of `run`."""

    def flags(self) -> FlagSet:
        return _flags()


@click.command("doctor", cls=_DoctorCommand)
def doctor(arguments: tuple[str, ...]) -> int:
    """Check a cluster: permissions, lease, port, versions, scheduler names."""
    flags = _flags()
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
        error = problem if isinstance(problem, OptionsError) else OptionsError(str(problem))
        report_error(error, "doctor", flags)
        return 1
    if flags["rbac"]:
        click.echo(rbac_yaml(needed_rights(built, options), subject), nl=False)
        return 0
    advice = "Add it to plugins.multiPoint.enabled of a profile."
    findings = [
        Finding("plugins", "warn", f"{name} is loaded, but no profile enables it", advice)
        for name in never_enabled(built, registry)
    ]
    findings += asyncio.run(_examine(built, options, flags))
    _print(findings, flags["output"])
    return 1 if any(finding.verdict == "fail" for finding in findings) else 0


def _flags() -> FlagSet:
    """Return the flags of `run` and those of the command, unset."""
    flags = scheduler_flags()
    flags.add("doctor", _own_flags())
    return flags


def _own_flags() -> list[Flag]:
    return [
        Flag(
            "as",
            TEXT,
            "Check the permissions of another user, for example "
            "system:serviceaccount:NAMESPACE:NAME.",
        ),
        Flag("output", TEXT.of("text"), "Output format: text or json.", shorthand="o"),
        Flag("rbac", BOOL, "Print the minimal RBAC for these flags as YAML and exit."),
        Flag(
            "service-account",
            TEXT.of("kube-system/kubesched"),
            "Subject of --rbac: a service account as NAMESPACE/NAME.",
        ),
        Flag("user", TEXT, "Subject of --rbac: a user instead of a service account."),
    ]


def _help() -> str:
    return _HELP.format(
        introduction=textwrap.fill(_INTRODUCTION, help_width()),
        flags="".join(one_flag(flag, help_width()) for flag in _own_flags()),
    )


def _subject(flags: FlagSet) -> Subject:
    form = flags["output"]
    if form not in ("text", "json"):
        raise OptionsError(f"--output must be text or json, not {form}", "usage", "output")
    if user := flags["user"]:
        return Subject(user, namespace="")
    namespace, slash, name = flags["service-account"].partition("/")
    if not namespace or not slash or not name:
        text = "--service-account must have the form NAMESPACE/NAME"
        raise OptionsError(text, "usage", "service-account")
    return Subject(name, namespace)


async def _examine(built: Built, options: Options, flags: FlagSet) -> list[Finding]:
    kubeconfig = flags["kubeconfig"] if "kubeconfig" in flags.used else options.kubeconfig
    port = port_finding(options.serving)
    try:
        access = load_access(
            kubeconfig=kubeconfig,
            context=options.context,
            master=options.master,
            reads_home=True,
        )
    except AccessError as problem:
        advice = "Set --kubeconfig FILE or KUBECONFIG."
        return [Finding("server", "fail", str(problem), advice), port]
    if user := flags["as"]:
        access = replace(access, headers=(("Impersonate-User", user),))
    clock = SystemClock()
    transport = ClockSkewTransport(HttpTransport(access, clock), clock)
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
        document = {"findings": [asdict(finding) for finding in findings]}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    for finding in findings:
        verdict = click.style(finding.verdict.ljust(6), fg=_COLORS[finding.verdict])
        first, *rest = _wrapped(finding.text)
        click.echo(f"  {verdict}{finding.check.ljust(_INDENT - 8)}{first}")
        for line in (*rest, *(_wrapped(f"→ {finding.advice}") if finding.advice else ())):
            click.echo(" " * _INDENT + line)
    verdicts: Counter[str] = Counter(finding.verdict for finding in findings)
    totals = [
        counted(verdicts[verdict], noun)
        for verdict, noun in (("fail", "failure"), ("warn", "warning"))
        if verdicts[verdict]
    ]
    click.echo("\n" + (", ".join(totals) + "." if totals else "All checks passed."))


def _wrapped(text: str) -> list[str]:
    width = help_width() - _INDENT
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
