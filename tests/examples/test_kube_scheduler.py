"""Statements of the examples' READMEs about kube-scheduler, checked with kube-scheduler."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.playground.in_process import playground
from kubesched.testing import Programs, a_pod
from tests.examples.folders import SAMPLE_ARGS, SPACE_CLOUD, TWO_PROFILES, Document
from tests.examples.test_sample_args import REJECTED_LOCK
from tests.examples.test_space_cloud import NO_CHOICE
from tests.examples.test_two_profiles import OLD_VERSION, SETS_DIFFER

pytestmark = pytest.mark.programs


def without_plugin(config: Document) -> Document:
    """Return a configuration without the plugin that kube-scheduler does not have."""
    (profile,) = config["profiles"]
    for point in profile["plugins"].values():
        point.pop("enabled", None)
    return config


@pytest.mark.timeout(120)
@pytest.mark.parametrize("file", ["all-disabled.yaml", "no-dynamic-resources.yaml"])
def test_disabled_plugins_fail_in_kube_scheduler_too(file: str, tmp_path: Path) -> None:
    config = without_plugin(SPACE_CLOUD.config(file))
    with playground(nodes=2, scheduler=False) as cluster, ProcessGroup(tmp_path) as group:
        config["clientConnection"] = {"kubeconfig": str(cluster.kubeconfig)}
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        program = Programs.built().path("kube-scheduler")
        group.start("kube-scheduler", [program, f"--config={path}", "--secure-port=0"])
        cluster.create(a_pod("web", scheduler="space-cloud-scheduler"))
        if file == "no-dynamic-resources.yaml":
            assert cluster.until_bound("web") in cluster.nodes
            return
        cluster.until(partial(cluster.notes, "web", "FailedScheduling"), "it fails")
        assert set(cluster.notes("web", "FailedScheduling")) == {NO_CHOICE}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (TWO_PROFILES.folder / "refused" / "sets-differ.yaml", SETS_DIFFER),
        (TWO_PROFILES.folder / "refused" / "old-version.yaml", OLD_VERSION),
        (SAMPLE_ARGS.folder / "refused" / "endpointsleases.yaml", REJECTED_LOCK),
    ],
    ids=lambda one: one.stem if isinstance(one, Path) else "",
)
def test_kube_scheduler_rejects_with_the_same_message(path: Path, message: str) -> None:
    completed = subprocess.run(
        [Programs.built().path("kube-scheduler"), f"--config={path}", "--secure-port=0"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert completed.returncode == 1
    # Hints are ours, and the path of the scheme's file depends on the build.
    error = message.splitlines()[0].partition(" in scheme ")[0]
    assert f'"command failed" err={json.dumps(error)[:-1]}' in completed.stderr, completed.stderr
