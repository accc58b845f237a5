"""`kubesched run --reload`: parse the command line again, and record events about reloads.

Owns reading the current files with the original flags. `run.reload` applies the change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from kubesched.api.meta import ObjectReference
from kubesched.cli.options import program_plugins
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.events.recorder import CoreEventRecorder, truncated_note
from kubesched.client.resources import LEASES, PODS, Resource
from kubesched.framework.runtime.registry import Registry
from kubesched.profile.plugin_loading import registry_with
from kubesched.run.live_scheduler import LiveScheduler
from kubesched.run.options.parse import parse_options
from kubesched.run.options.values import Options
from kubesched.run.reload import LoadedConfiguration, RecordEvent, Reloader

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_PLACE_OF_PLUGIN: Final = re.compile(r"^(?:[^=:/\\]+=)?(.+):[^:]+$")


def reloader(
    live: LiveScheduler, options: Options, arguments: Sequence[str], registry: Registry | None
) -> Reloader:
    """Return the reloader for the files of a command line."""
    # Read here: the reader's thread has no click context.
    program = program_plugins()
    outside = live.environment
    return Reloader(
        live=live,
        loaded=LoadedConfiguration(options.config, registry, *_places(options)),
        read=lambda: _read(arguments, program),
        record_event=_event_recorder(live, options),
        fixed=frozenset(program or ()),
        clock=outside.clock,
        log=outside.log,
        measures=outside.metrics.measures,
    )


def _places(options: Options) -> tuple[list[Path], list[str]]:
    """Return the files of a command line, configuration first, and the plugins' modules."""
    files = [Path(options.config_file)] if options.config_file else []
    modules = []
    for text in options.plugins:
        named = _PLACE_OF_PLUGIN.match(text)
        where = named[1] if named else ""
        if where.endswith(".py") or "/" in where:
            files.append(Path(where))
        else:
            modules.append(where)
    # Links are not followed: a swapped link is a change.
    return [Path(os.path.abspath(file)) for file in files], modules  # noqa: PTH100


def _read(arguments: Sequence[str], program: Registry | None) -> LoadedConfiguration:
    options = parse_options(arguments)
    registry = registry_with(list(options.plugins))
    if program is not None:
        registry = program.merge(registry)
    if len(registry):
        options = options.enabling(list(registry))
    return LoadedConfiguration(
        options.config, registry if len(registry) else None, *_places(options)
    )


def _event_recorder(live: LiveScheduler, options: Options) -> RecordEvent:
    """Return a function that records events about the scheduler."""
    recorder = CoreEventRecorder(live.events, next(iter(live.profiles)), live.events.hostname)
    about, resource = _own_object(options, live.settings.hostname)

    async def record(kind: str, reason: str, note: str) -> None:
        regarding = replace(about, uid=await _uid_of(live, resource, about))
        recorder.event(regarding, kind=kind, reason=reason, note=truncated_note(note))

    def start_recording(kind: str, reason: str, note: str) -> None:
        live.tasks.start(record(kind, reason, note), name="reload event")

    return start_recording


def _own_object(options: Options, hostname: str) -> tuple[ObjectReference, Resource]:
    """Return the object that represents the scheduler: its lease, or its pod."""
    election = options.config.leader_election
    in_cluster = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and _NAMESPACE_FILE.is_file()
    if in_cluster and not election.leader_elect:
        namespace = _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
        return _reference(PODS, namespace, hostname), PODS
    return _reference(LEASES, election.resource_namespace, election.resource_name), LEASES


def _reference(resource: Resource, namespace: str, name: str) -> ObjectReference:
    return ObjectReference(
        kind=resource.kind, api_version=resource.api_version, namespace=namespace, name=name
    )


async def _uid_of(live: LiveScheduler, resource: Resource, about: ObjectReference) -> str:
    """Return the uid, which `kubectl describe` needs to show the event; empty if unknown."""
    client = live.environment.client
    # A missing permission is not reported: the event works without the uid.
    reader = client.sibling(user_agent=client.user_agent, on_forbidden=lambda *_: None)
    try:
        body = await reader.request("GET", resource.path(about.namespace, about.name))
    except (ApiError, TransportError):
        return ""
    return str(msgspec.json.decode(body)["metadata"]["uid"])
