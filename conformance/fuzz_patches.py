"""Random writes of every kind, by several managers, on a real API server and on ours.

Each step sends one random create, update, JSON, merge or strategic merge patch, or apply to a real
kube-apiserver. Without --against, the patch functions of this repository then make the same change:
documents are compared after the real server has normalized ours (a dry-run update), managedFields
and rejections as they are. With --against, a second server gets the same requests, and whole
responses are compared.

    python conformance/fuzz_patches.py --kubeconfig FILE [--server URL] [--against URL]
        [--steps N] [--seed N] [--kinds deployments,...] [--record FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from conformance.patches.compare import Fuzzer  # noqa: E402
from conformance.patches.kinds import definition, kinds  # noqa: E402
from conformance.patches.servers import Server, server_of  # noqa: E402


def main() -> int:
    """Run the fuzzer; return 1 if a response differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--server")
    parser.add_argument("--against")
    parser.add_argument("--against-kubeconfig")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="")
    parser.add_argument(
        "--record", type=Path, help="write requests and real responses to this file"
    )
    options = parser.parse_args()
    real = server_of(options.kubeconfig, options.server)
    other = None
    if options.against or options.against_kubeconfig:
        other = server_of(options.against_kubeconfig, options.against)
    names = set(filter(None, options.kinds.split(",")))
    chosen = [kind for kind in kinds() if not names or kind.resource in names]
    fuzzer = Fuzzer(options.seed, real, other)
    if any(kind.is_custom for kind in chosen):
        for server in filter(None, (real, other)):
            _define(server)
    turn = 0
    while fuzzer.count < options.steps:
        kind = chosen[turn % len(chosen)]
        fuzzer.run(kind, f"fuzz-{options.seed}-{turn}", 12)
        turn += 1
    if options.record:
        lines = [json.dumps(one, separators=(",", ":")) for one in fuzzer.recorded]
        options.record.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    for label, number in sorted(fuzzer.outcomes.items()):
        print(f"{number:6} {label}")
    print(f"{fuzzer.count} steps, {fuzzer.differences} differences, seed {options.seed}")
    return 1 if fuzzer.differences else 0


def _define(server: Server) -> None:
    """Create the definition of the custom resource, and wait until it is served."""
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    for _ in range(200):
        if server.ask("GET", "/apis/fuzz.example.com/v1/widgets")[0] == 200:
            return
        time.sleep(0.05)
    raise SystemExit("the custom resource is not served; leave it out with --kinds")


if __name__ == "__main__":
    sys.exit(main())
