"""The folders of examples/, and the clusters where tests run them.

Owns paths, and which clusters there are: our own, and real ones. Expected values are never computed
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.playground.in_process import (
    ControllersKind,
    Playground,
    ServerKind,
    playground,
)
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import make_log
from kubesched.testing.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a cluster."""

    server: ServerKind = "embedded"
    controllers: ControllersKind = "own"


FORMS = [
    pytest.param(Form(), id="playground"),
    pytest.param(Form(server="real"), marks=pytest.mark.programs, id="bare"),
    pytest.param(Form("real", "real"), marks=pytest.mark.programs, id="whole"),
]
"""The clusters that every example runs on; bare: a real API server with our controllers."""


@dataclass(frozen=True, slots=True)
class Example:
    """One folder, and its plugins in the form of `--plugin`, without the folder."""

    name: str
    plugins: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return ROOT / "examples" / self.name

    @property
    def readme(self) -> Path:
        return self.folder / "README.md"

    def documents(self, file: str) -> list[Document]:
        """Return the objects in a file."""
        return list(yaml.safe_load_all((self.folder / file).read_text()))

    def config(self, file: str = "scheduler.yaml") -> Document:
        """Return a configuration."""
        (document,) = self.documents(file)
        return document

    @property
    def plugin_options(self) -> list[str]:
        """Return the plugins, as values of `--plugin`."""
        return [f"{self.folder / plugin}" for plugin in self.plugins]

    @contextmanager
    def running(
        self, form: Form, file: str = "scheduler.yaml", *, nodes: int = 0
    ) -> Iterator[Playground]:
        """Run a cluster whose scheduler has one of the example's configurations."""
        with playground(
            nodes=nodes,
            plugins=self.plugin_options,
            config=self.config(file),
            server=form.server,
            controllers=form.controllers,
        ) as cluster:
            yield cluster

    @contextmanager
    def in_memory(
        self, file: str = "scheduler.yaml", *, verbosity: int = 0
    ) -> Iterator[tuple[Cluster, StringIO]]:
        """Run the scheduler alone; yields its log, too."""
        lines = StringIO()
        log = make_log(lines, verbosity=verbosity, clock=SystemClock(), buffer_bytes=0)
        cluster = Cluster(plugins=self.plugin_options, config=self.config(file), log=log)
        try:
            yield cluster, lines
        finally:
            cluster.close()


CPU_LABEL = Example("cpu-label", ("cpu_label.py:CpuLabel",))
SPACE_CLOUD = Example("space-cloud", ("space_cloud.py:SpaceCloud",))
SAMPLE_ARGS = Example("sample-args", ("sample_plugin.py:SamplePlugin",))
TWO_PROFILES = Example("two-profiles", ("two_profiles.py:ZoneLabel", "two_profiles.py:SmallFirst"))
EXAMPLES = (CPU_LABEL, SPACE_CLOUD, SAMPLE_ARGS, TWO_PROFILES)


def messages(log: StringIO, message: str) -> list[str]:
    """Return the fields of the lines that have a message."""
    head = f'] "{message}" '
    return [line.partition(head)[2] for line in log.getvalue().splitlines() if head in line]
