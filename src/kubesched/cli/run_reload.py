"""`kubesched run --reload`: what is read again, and whom events about it name.

Owns the second reading of a command line: the same flags, the files as they are now. What becomes
of a change is `app.reload`'s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from kubesched.app.live import LiveScheduler
from kubesched.app.option_values import Options
from kubesched.app.options import parse_options
from kubesched.app.outside_plugins import registry_given
from kubesched.app.reload import Reloader, Tell, Wanted
from kubesched.cli.options import program_plugins
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.event_recorder import CoreEventRecorder, ObjectReference, truncated_note
from kubesched.client.resources import LEASES, PODS, Resource
from kubesched.framework.registry import Registry

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_PLACE_OF_PLUGIN: Final = re.compile(r"^(?:[^=:/\\]+=)?(.+):[^:]+$")


def reloader(
    live: LiveScheduler, options: Options, arguments: Sequence[str], registry: Registry | None
) -> Reloader:
    """Return what follows the files of a command line."""
    # Asked for here: a thread that reads has no command line of its own.
    program = program_plugins()
    outside = live.outside
    return Reloader(
        live=live,
        wanted=Wanted(options.config, registry, *_places(options)),
        read=lambda: _read(arguments, program),
        tell=_teller(live, options),
        fixed=frozenset(program or ()),
        clock=outside.clock,
        log=outside.log,
        measures=outside.metrics.measures,
    )


def _places(options: Options) -> tuple[list[Path], list[str]]:
    """Return the files that a command line names, configuration first, and plugins' modules."""
    files = [Path(options.config_file)] if options.config_file else []
    modules = []
    for text in options.plugins:
        named = _PLACE_OF_PLUGIN.match(text)
        where = named[1] if named else ""
        if where.endswith(".py") or "/" in where:
            files.append(Path(where))
        else:
            modules.append(where)
    # Links are not followed: one that is swapped is what is watched for.
    return [Path(os.path.abspath(file)) for file in files], modules  # noqa: PTH100


def _read(arguments: Sequence[str], program: Registry | None) -> Wanted:
    """Read everything anew."""
    options = parse_options(arguments)
    registry = registry_given(list(options.plugins))
    if program is not None:
        registry = program.merge(registry)
    if len(registry):
        options = options.enabling(list(registry))
    return Wanted(options.config, registry if len(registry) else None, *_places(options))


def _teller(live: LiveScheduler, options: Options) -> Tell:
    """Return what records events about the scheduler itself."""
    recorder = CoreEventRecorder(live.events, next(iter(live.profiles)), live.events.hostname)
    about, resource = _own_object(options, live.settings.hostname)

    async def record(kind: str, reason: str, note: str) -> None:
        found = about._replace(uid=await _uid_of(live, resource, about))
        recorder.event(found, kind=kind, reason=reason, note=truncated_note(note))

    def tell(kind: str, reason: str, note: str) -> None:
        live.tasks.start(record(kind, reason, note), name="reload event")

    return tell


def _own_object(options: Options, hostname: str) -> tuple[ObjectReference, Resource]:
    """Return what stands for the scheduler in the cluster: its lease, or the pod it runs in."""
    election = options.config.leader_election
    in_cluster = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and _NAMESPACE_FILE.is_file()
    if in_cluster and not election.leader_elect:
        namespace = _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
        return ObjectReference("Pod", PODS.api_version, namespace, hostname, "", ""), PODS
    place, name = election.resource_namespace, election.resource_name
    return ObjectReference("Lease", LEASES.api_version, place, name, "", ""), LEASES


async def _uid_of(live: LiveScheduler, resource: Resource, about: ObjectReference) -> str:
    """Return who has the name, so that `kubectl describe` shows the event; empty if unknown."""
    client = live.outside.client
    # Nobody is told of a right that is missing: an event needs no more than the name.
    asking = client.sibling(user_agent=client.user_agent, on_forbidden=lambda *_: None)
    try:
        body = await asking.request("GET", resource.path(about.namespace, about.name))
    except (ApiError, TransportError):
        return ""
    return str(msgspec.json.decode(body)["metadata"]["uid"])
