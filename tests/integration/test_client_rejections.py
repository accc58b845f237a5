"""kube-scheduler rejects the same kubeconfigs, with the same messages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kubesched.testing import Programs
from tests.unit.client.kubeconfig_world import rejected_cases, written


@pytest.mark.programs
@pytest.mark.parametrize("case", rejected_cases(), ids=lambda case: case["says"][:60])
def test_kube_scheduler_reports_the_same(tmp_path: Path, case: dict[str, Any]) -> None:
    file = written(tmp_path / "kubeconfig", case["file"])
    command = [str(Programs.built().path("kube-scheduler")), f"--kubeconfig={file}"]
    ended = subprocess.run(
        [*command, "--leader-elect=false", "--secure-port=0"],
        capture_output=True,
        text=True,
        timeout=20,
        env={"HOME": str(tmp_path)},
        check=False,
    )
    (line,) = [
        splitline for splitline in ended.stderr.splitlines() if '"command failed" err=' in splitline
    ]
    message = json.loads(line.partition("err=")[2])
    assert message.replace(str(tmp_path), "D") == case["says"]
