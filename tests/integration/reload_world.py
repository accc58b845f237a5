"""`kubesched run --reload` as a process, its two files, and its reports of changes.

Owns the files as a user writes them, and waits for the result of a reload. Expected
values are never computed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.testing import Api, ApiServer
from tests.integration.live_processes import Scheduler, start

SWAPPED = "Reloaded plugins and configuration"
REJECTED = "Reload rejected; the previous configuration stays active"
ADMITTED = "/healthz,/readyz,/livez,/metrics,/statusz,/configz"
EVENTS = "/api/v1/namespaces/kube-system/events"


@dataclass(slots=True)
class Reloading:
    """A scheduler that reloads two files."""

    scheduler: Scheduler
    api: Api
    plugin: Path
    document: dict[str, Any]
    """The current configuration."""

    @property
    def config(self) -> Path:
        """Return the file of the configuration."""
        return self.scheduler.config_path

    def write_plugin(self, text: str) -> None:
        """Replace the plugin as an editor does: the whole file at once."""
        replace(self.plugin, text)

    def write_config(self, **fields: Any) -> None:
        """Replace fields of the configuration."""
        self.document.update(fields)
        replace(self.config, yaml.safe_dump(self.document, sort_keys=False))

    def until_swapped(self, count: int) -> None:
        """Wait until a number of changes has been applied."""
        self._until(SWAPPED, count)

    def until_rejected(self, count: int) -> None:
        """Wait until a number of changes has been rejected."""
        self._until(REJECTED, count)

    def _until(self, message: str, count: int) -> None:
        self.scheduler.until(
            lambda: len(self.scheduler.lines(message)) >= count, f"{message!r}, {count} times"
        )

    def event_notes(self, reason: str) -> list[str]:
        """Return the notes of the events with a reason about the scheduler's lease."""
        found = self.api.get(EVENTS).must(200).json["items"]
        return [
            one["message"]
            for one in found
            if one["reason"] == reason
            and one["involvedObject"]["kind"] == "Lease"
            and one["source"]["component"] == self.profile_name
        ]

    @property
    def profile_name(self) -> str:
        """Return the name of the first profile."""
        return str(self.document["profiles"][0].get("schedulerName", "default-scheduler"))


def replace(path: Path, text: str) -> None:
    """Replace a file atomically."""
    replacement = path.with_suffix(".new")
    replacement.write_text(text)
    replacement.replace(path)


@contextmanager
def reloading(
    server: ApiServer,
    api: Api,
    directory: Path,
    plugin: str,
    *,
    profile: Mapping[str, Any],
    plugin_class: str = "Mine",
    leads: Mapping[str, Any] | None = None,
) -> Iterator[Reloading]:
    """Run a scheduler that reloads the files of a plugin and of its configuration."""
    file = directory / "plugins" / "mine_plugin.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(plugin)
    with ProcessGroup(directory) as group:
        scheduler = start(
            server,
            group,
            "--reload",
            f"--plugin={file}:{plugin_class}",
            f"--authorization-always-allow-paths={ADMITTED}",
            "-v=3",
            leads=leads,
            profiles=[dict(profile)],
        )
        document = yaml.safe_load(scheduler.config_path.read_text())
        yield Reloading(scheduler, api, file, document)
        group.check()


def in_force_at(log: str, message: str) -> list[tuple[int, re.Match[str]]]:
    """Return each matching line with the generation of rules that was active at that time."""
    generation, found = 0, []
    for line in log.splitlines():
        swapped = re.search(r'"New profiles active" generation=(\d+)', line)
        if swapped:
            generation = int(swapped[1])
        elif (matched := re.search(message, line)) is not None:
            found.append((generation, matched))
    return found
