"""Memory of a loaded cluster.

Required: 5,000 nodes and 150,000 bound pods of 3,000 templates, a third of them with their own
labels, in 400 MB.
"""

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import machine  # noqa: E402
from benchmarks.drain import load  # noqa: E402
from benchmarks.generate import Maker  # noqa: E402
from kubesched.cache.cache import Cache  # noqa: E402

RESIDENT_MB_MAX = 400


def main(argv: Sequence[str] | None = None) -> int:
    """Load the cluster and print its memory; with --check, return 1 above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--cluster", default="dense", help="a file in benchmarks/clusters")
    parser.add_argument("--check", action="store_true", help="fail above 400 MB")
    options = parser.parse_args(argv)
    empty_mb = machine.resident_mb()
    gc.disable()
    start = perf_counter()
    cache = Cache()
    load(cache, Maker(options.nodes, seed=1).cluster(options.cluster))
    gc.collect()
    seconds, mb = perf_counter() - start, machine.resident_mb()
    sys.stdout.write(
        f"{cache!r}\n{empty_mb:.0f} MB before, {mb:.0f} MB after loading in {seconds:.1f} s; "
        f"limit: {RESIDENT_MB_MAX} MB at 5,000 nodes\n{machine.description()}\n"
    )
    return int(options.check and mb > RESIDENT_MB_MAX)


if __name__ == "__main__":
    sys.exit(main())
