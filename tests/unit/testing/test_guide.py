"""The examples of docs/testing-plugins.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.unit.cli.running import EXAMPLE_PLUGINS, ROOT

_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_pass(tmp_path: Path) -> None:
    fixtures, waits, rules, recorded = _PYTHON.findall(
        (ROOT / "docs" / "testing-plugins.md").read_text()
    )
    plugin = _PYTHON.findall((ROOT / "docs" / "first-ten-minutes.md").read_text())[0]
    one_node, columns = (
        (EXAMPLE_PLUGINS / f"{name}.py").read_text() for name in ("spare_gpu", "spare_gpu_columns")
    )
    (tmp_path / "same_team.py").write_text(plugin)
    (tmp_path / "one_node.py").write_text(one_node)
    (tmp_path / "all_nodes.py").write_text(columns)
    (tmp_path / "conftest.py").write_text(fixtures)
    (tmp_path / "test_waits.py").write_text(waits)
    (tmp_path / "test_rules.py").write_text(
        "import pytest\n"
        "from all_nodes import SpareGpu as SpareGpuColumns\n"
        "from one_node import SpareGpu\n"
        "from kubesched.testing import assert_placed\n"
        f"{rules}\n{recorded}"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed" in run.stdout
