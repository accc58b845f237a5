"""Compare kubesched with kube-scheduler's own code on random cases.

Owns the command line of `make fuzz-parity`. Never decides anything itself.
Upstream: none.
"""

import argparse
import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from conformance.fuzz import runner  # noqa: E402
from conformance.fuzz.generate.vocabulary import FAMILIES  # noqa: E402
from conformance.fuzz.sides import Oracle, OracleError  # noqa: E402

EPILOG = """examples:
  fuzz_parity.py --cases 5000 --seed 7      compare 5000 cases
  fuzz_parity.py --seed 7 --only 1234       repeat one of them, shrunk
  fuzz_parity.py --family volumes           compare one family
  fuzz_parity.py --replay cases.jsonl       compare the cases of a file
  fuzz_parity.py --save DIR --cases 3000    write cases and the oracle's decisions
  fuzz_parity.py --kind config --cases 2000 compare configuration files
"""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kind", choices=["decisions", "config"], default="decisions")
    parser.add_argument("--cases", type=int, default=500, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument(
        "--start", type=int, default=0, metavar="INDEX", help="index of the first case"
    )
    parser.add_argument("--only", type=int, action="append", default=[], metavar="INDEX")
    parser.add_argument("--family", action="append", choices=FAMILIES, default=[])
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="compare the cases of this file of JSON lines"
    )
    parser.add_argument(
        "--save",
        type=Path,
        metavar="DIR",
        help="write cases and the oracle's decisions, without comparing",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep shrunk cases in this directory"
    )
    parser.add_argument(
        "--findings", type=int, default=5, metavar="N", help="maximum of printed differences"
    )
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument(
        "--oracle", type=Path, metavar="PATH", help="use this oracle instead of building one"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parsed = arguments(argv)
    options = runner.Options(
        seed=parsed.seed,
        cases=parsed.cases,
        start=parsed.start,
        only=tuple(parsed.only),
        families=tuple(parsed.family) or FAMILIES,
        shrink=not parsed.no_shrink,
        findings=parsed.findings,
        keep=parsed.keep,
        command=(str(Path(__file__).resolve().relative_to(ROOT)), *(argv or sys.argv[1:])),
    )
    try:
        oracle = Oracle(parsed.oracle) if parsed.oracle else Oracle.build()
        return _run(oracle, parsed, options)
    except OracleError as error:
        print(f"fuzz_parity: {error}", file=sys.stderr)
        return 2


def _run(oracle: Oracle, parsed: argparse.Namespace, options: runner.Options) -> int:
    if parsed.kind == "config":
        make = importlib.import_module("conformance.fuzz_config").config_cases
        return runner.run_config(oracle, list(make(options.seed, options.cases)), options)
    if parsed.replay:
        return runner.replay(oracle, parsed.replay, options)
    if parsed.save:
        return runner.save(oracle, options, parsed.save)
    return runner.run_decisions(oracle, options)


if __name__ == "__main__":
    sys.exit(main())
