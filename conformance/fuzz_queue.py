"""Compare the scheduling queue with kube-scheduler's own on random histories.

Owns the command line. The expected queues of the pods come from upstream's PriorityQueue, run by
`conformance/queue_histories/main.go`, never from our queue.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from conformance.queue_histories.steps import History  # noqa: E402

SHOWN_STEPS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the histories on both queues; return 1 if a pod is in different queues."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--steps", type=int, default=120, metavar="N", help="steps of each history")
    options = parser.parse_args(argv)
    histories = [History(options.seed + case) for case in range(options.cases)]
    for history in histories:
        history.play(options.steps)
    with tempfile.TemporaryDirectory() as directory:
        answers = _upstream(_program(Path(directory)), histories)
    different = 0
    for case, (history, states) in enumerate(zip(histories, answers, strict=True)):
        if history.states != states:
            different += 1
            _show(options.seed + case, history, states)
    count = sum(len(history.steps) for history in histories)
    print(f"{options.cases} histories, {count} steps: {different} differ")
    return int(different > 0)


def _program(directory: Path) -> Path:
    program = directory / "queue"
    command = ["go", "build", "-o", str(program), "./queue_histories"]
    subprocess.run(command, cwd=ROOT / "conformance", check=True)
    return program


def _upstream(program: Path, histories: Sequence[History]) -> list[list[str]]:
    lines = "\n".join(json.dumps(history.steps) for history in histories)
    done = subprocess.run(
        [str(program)], input=lines, stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _show(seed: int, history: History, states: Sequence[str]) -> None:
    place = next(i for i, ours in enumerate(history.states) if ours != states[i])
    print(f"--seed {seed} --cases 1 differs at step {place}:")
    for i in range(max(0, place - SHOWN_STEPS), place):
        print(f"  {history.steps[i]}\n    both      {states[i]}")
    print(f"  {history.steps[place]}")
    print(f"    upstream  {states[place]}\n    kubesched {history.states[place]}")


if __name__ == "__main__":
    sys.exit(main())
