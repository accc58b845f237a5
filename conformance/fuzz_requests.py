"""Random requests and misbehaving clients against the embedded API server.

    python conformance/fuzz_requests.py [--count N] [--seed N] [--rounds N] [--data FILE]

Each round uses a new server and the next seed. The server must answer every request with a Status
or close the connection, and log nothing worse than warnings; tests/integration runs a short round.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from conformance.odd_requests.running import bombard  # noqa: E402
from conformance.odd_requests.sending import Report  # noqa: E402
from kubesched.cluster.apiserver.embedded_server import EmbeddedServer, Settings  # noqa: E402
from kubesched.kit.clock import SystemClock  # noqa: E402


class ErrorLog(logging.Handler):
    """Collects unexpected log lines of the server."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a line."""
        self.texts.append(self.format(record))


async def one_round(seed: int, count: int, data: Path | None) -> Report:
    """Run a server through some requests."""
    server = EmbeddedServer(Settings(has_tls=False, seed=seed, data=data), SystemClock())
    await server.start()
    try:
        return await bombard(server.url, seed=seed, count=count)
    finally:
        await server.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rounds; return 1 after a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="requests per round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="persist objects in this file")
    options = parser.parse_args(argv)
    error_log = ErrorLog()
    logging.getLogger().addHandler(error_log)
    codes: Counter[int] = Counter()
    problem_count = 0
    for seed in range(options.seed, options.seed + options.rounds):
        report = asyncio.run(one_round(seed, options.count, options.data))
        codes.update(report.codes)
        problems, error_log.texts = [*report.problems, *error_log.texts], []
        for text in problems:
            print(f"PROBLEM seed {seed}: {text}\n")
        problem_count += len(problems)
        print(f"seed {seed}: {len(problems)} problems", file=sys.stderr)
    print("answers:", dict(sorted(codes.items())))
    return int(problem_count > 0)


if __name__ == "__main__":
    sys.exit(main())
