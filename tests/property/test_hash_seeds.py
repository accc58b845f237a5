"""The same decisions in processes whose string hashes differ."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import hashlib, json
from tests.property.random_cases import case_of, load

digest = hashlib.sha256()
for number in range(72):
    decision = load(case_of(number)).decide()
    digest.update(json.dumps([decision.suggested_host, decision.as_json()]).encode())
print(digest.hexdigest())
"""


def start(hash_seed: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )


def test_decisions_do_not_depend_on_string_hashes() -> None:
    running = [start(seed) for seed in ("1", "4242")]
    outputs = [process.communicate()[0].strip() for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert len(outputs[0]) == 64
    assert outputs[0] == outputs[1]
